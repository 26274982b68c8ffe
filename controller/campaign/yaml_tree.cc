#include "controller/campaign/yaml_tree.h"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <unordered_map>

#include "common/wire/rules.h"
#include "fmt/format.h"

namespace muster {
namespace {

// Thrown through the parser to end it when a limit is passed or too much is wrong; never leaves ParseYaml.
struct StopParsing {};

// Finds the bytes of a line, to count characters up to a byte column and to see how a null was written.
class SourceLines {
 public:
  explicit SourceLines(std::string_view text) : text_(text) {
    starts_.push_back(0);
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') starts_.push_back(i + 1);
    }
  }
  size_t OffsetOf(const YAML::Mark& mark) const {
    if (mark.line < 0 || static_cast<size_t>(mark.line) >= starts_.size()) return text_.size();
    return std::min(starts_[mark.line] + static_cast<size_t>(std::max(mark.column, 0)), text_.size());
  }
  SourcePosition At(const YAML::Mark& mark) const {
    if (mark.is_null()) return {1, 1};
    const size_t line = std::min(static_cast<size_t>(std::max(mark.line, 0)), starts_.size() - 1);
    const size_t offset = OffsetOf(mark);
    // Marks come in the order of the text: counting goes on from the last one, or a line of 1 MiB would cost minutes.
    if (line != counted_line_ || offset < counted_) {
      counted_line_ = line;
      counted_ = std::min(starts_[line], offset);
      column_ = 1;
    }
    for (; counted_ < offset; ++counted_) {
      if ((static_cast<unsigned char>(text_[counted_]) & 0xC0) != 0x80) ++column_;
    }
    return {static_cast<int>(line) + 1, column_};
  }
  // The first tab in the indentation of the line of `mark`.
  std::optional<SourcePosition> IndentingTab(const YAML::Mark& mark) const {
    if (mark.line < 0 || static_cast<size_t>(mark.line) >= starts_.size()) return std::nullopt;
    const size_t start = starts_[static_cast<size_t>(mark.line)];
    const size_t end = text_.find_first_not_of(" \t", start);
    const size_t tab = text_.find('\t', start);
    if (tab >= end || tab == std::string_view::npos) return std::nullopt;
    return SourcePosition{mark.line + 1, static_cast<int>(tab - start) + 1};
  }
  // The word of a null at `mark`: "null", "~" ...; empty when nothing was written.
  std::string NullWord(const YAML::Mark& mark) const {
    const std::string_view rest = text_.substr(OffsetOf(mark));
    for (const std::string_view word : {"null", "Null", "NULL", "~"}) {
      if (rest.starts_with(word)) return std::string(word);
    }
    return {};
  }

 private:
  std::string_view text_;
  std::vector<size_t> starts_;
  mutable size_t counted_line_ = SIZE_MAX;  // characters of this line counted so far: column_ is that of counted_
  mutable size_t counted_ = 0;
  mutable int column_ = 1;
};

class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const SourceLines& lines, Problems& problems) : lines_(lines), problems_(problems) {}

  std::optional<YamlNode> TakeRoot() { return std::move(root_); }
  bool started() const { return documents_ > 0; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 1) return;
    problems_.Add(lines_.At(mark), "YAML_DOCUMENTS", "a second document begins here: a campaign is one document",
                  "Remove the \"---\" or put it into a file of its own.");
    throw StopParsing{};
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    // A plain `null` as a key is the name of a kind of target.
    const std::string word = lines_.NullWord(mark);
    if (IsKeyNext() && !word.empty() && word != "~") {
      Value({.kind = YamlNode::Kind::kScalar, .at = lines_.At(mark), .text = word});
      return;
    }
    Value({.kind = YamlNode::Kind::kNull, .at = lines_.At(mark), .text = word});
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    problems_.Add(lines_.At(mark), "YAML_ANCHOR", "aliases (*name) are not supported", "Write the value out.");
    Value({.kind = YamlNode::Kind::kBroken, .at = lines_.At(mark)});
  }

  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    problems_.Add(lines_.At(mark), "YAML_ANCHOR",
                  fmt::format("anchors (&name) are not supported, here {}", QuoteText(name)), "Write the value out.");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                const std::string& value) override {
    CheckTag(mark, tag);
    Value({.kind = YamlNode::Kind::kScalar, .at = lines_.At(mark), .text = value});
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {
    CheckTag(mark, tag);
    Open({.kind = YamlNode::Kind::kSequence, .at = lines_.At(mark)});
  }
  void OnSequenceEnd() override { Close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {
    CheckTag(mark, tag);
    Open({.kind = YamlNode::Kind::kMap, .at = lines_.At(mark)});
  }
  void OnMapEnd() override { Close(); }

 private:
  struct Frame {
    YamlNode node;
    bool have_key = false;
    bool drop = false;  // the key is a problem: its value is read and forgotten
    std::string key;
    SourcePosition key_at;
    std::unordered_map<std::string, SourcePosition> seen;
  };

  bool IsKeyNext() const {
    return !stack_.empty() && stack_.back().node.kind == YamlNode::Kind::kMap && !stack_.back().have_key;
  }

  void CheckTag(const YAML::Mark& mark, const std::string& tag) {
    // "?" is a plain node, "!" a quoted one; anything else was written.
    if (tag.empty() || tag == "?" || tag == "!") return;
    problems_.Add(lines_.At(mark), "YAML_TAG", fmt::format("tags are not supported, here {}", QuoteText(tag)),
                  "Leave it out: the option decides how its value is read.");
  }

  void Count(SourcePosition at) {
    if (problems_.full()) throw StopParsing{};
    if (++nodes_ <= kYamlMaxNodes) return;
    problems_.Add(at, "YAML_LIMIT", fmt::format("more than {} keys and values", kYamlMaxNodes));
    throw StopParsing{};
  }

  void Open(YamlNode node) {
    Count(node.at);
    if (stack_.size() >= static_cast<size_t>(kYamlMaxDepth)) {
      problems_.Add(node.at, "YAML_LIMIT", fmt::format("nested deeper than {} levels", kYamlMaxDepth));
      throw StopParsing{};
    }
    Frame frame;
    frame.node = std::move(node);
    stack_.push_back(std::move(frame));
  }

  void Close() {
    YamlNode node = std::move(stack_.back().node);
    stack_.pop_back();
    Put(std::move(node));
  }

  void Value(YamlNode node) {
    Count(node.at);
    Put(std::move(node));
  }

  void Put(YamlNode node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& top = stack_.back();
    if (top.node.kind == YamlNode::Kind::kSequence) {
      top.node.items.push_back(std::move(node));
    } else if (!top.have_key) {
      PutKey(top, std::move(node));
    } else {
      if (!top.drop) top.node.entries.push_back({std::move(top.key), top.key_at, std::move(node)});
      top.have_key = false;
    }
  }

  void PutKey(Frame& top, YamlNode node) {
    top.have_key = true;
    top.drop = false;
    top.key_at = node.at;
    top.key = std::move(node.text);
    if (node.kind != YamlNode::Kind::kScalar) {
      top.drop = true;
      if (node.kind != YamlNode::Kind::kBroken) {
        problems_.Add(node.at, "WRONG_TYPE", "a key must be a name");
      }
      return;
    }
    if (top.key == "<<") {
      top.drop = true;
      problems_.Add(node.at, "YAML_ANCHOR", "merge keys (<<) are not supported", "Write the keys out.");
      return;
    }
    const auto [it, fresh] = top.seen.try_emplace(top.key, node.at);
    if (!fresh) {
      top.drop = true;
      problems_.Add(node.at, "YAML_DUPLICATE_KEY",
                    fmt::format("the key {} is given twice, first at {}:{}", QuoteText(top.key), it->second.line,
                                it->second.column),
                    "Remove one of them.");
    }
  }

  const SourceLines& lines_;
  Problems& problems_;
  std::vector<Frame> stack_;
  std::optional<YamlNode> root_;
  int nodes_ = 0;
  int documents_ = 0;
};

// Whether the bytes at `i` are one character of UTF-8; its length.
size_t CharacterLength(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0; };
  const unsigned char first = byte(i);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 && first <= 0xF4   ? 4
                        : first >= 0xE0 && first < 0xF0  ? 3
                        : first >= 0xC2 && first <= 0xDF ? 2
                                                         : 0;
  for (size_t k = 1; k < length; ++k) {
    if ((byte(i + k) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = byte(i + 1);
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90) ||
      (first == 0xF4 && second > 0x8F)) {
    return 0;
  }
  return length;
}

// The parser guesses other encodings and takes 0x04 for the end of the file, so only plain UTF-8 text reaches it.
bool CheckText(std::string_view text, Problems& problems) {
  SourcePosition at{1, 1};
  for (size_t i = 0; i < text.size();) {
    const size_t length = CharacterLength(text, i);
    const auto byte = static_cast<unsigned char>(text[i]);
    if (length == 0) {
      problems.Add(at, "YAML_SYNTAX", fmt::format("byte 0x{:02x} is not UTF-8 text", byte), "Save the file as UTF-8.");
      return false;
    }
    const bool line_end = byte == '\r' && i + 1 < text.size() && text[i + 1] == '\n';
    if ((byte < 0x20 && byte != '\t' && byte != '\n' && !line_end) || byte == 0x7f) {
      problems.Add(at, "YAML_SYNTAX", fmt::format("control character 0x{:02x}", byte), "Remove it.");
      return false;
    }
    if (byte == '\n') {
      ++at.line;
      at.column = 1;
    } else {
      ++at.column;
    }
    i += length;
  }
  return true;
}

// The parser's terse texts in the words of someone who writes the file.
std::string Friendly(const std::string& message) {
  if (message == YAML::ErrorMsg::END_OF_MAP || message == YAML::ErrorMsg::END_OF_SEQ) {
    return "this line does not fit the lines above: its indentation is wrong, or a \":\" or \"- \" is missing";
  }
  if (message == YAML::ErrorMsg::END_OF_MAP_FLOW) return "\"}\" or \",\" is missing";
  if (message == YAML::ErrorMsg::END_OF_SEQ_FLOW) return "\"]\" or \",\" is missing";
  if (message == YAML::ErrorMsg::TAB_IN_INDENTATION) return "a tab in the indentation: YAML takes blanks only";
  if (message == YAML::ErrorMsg::MAP_VALUE) {
    return "a \":\" does not fit here: the indentation is wrong, or a text that holds \": \" needs quotes";
  }
  if (message == YAML::ErrorMsg::EOF_IN_SCALAR) return "the file ends inside a quoted text";
  if (message == YAML::ErrorMsg::UNKNOWN_ANCHOR) return "aliases (*name) are not supported";
  // Some of its texts repeat a character of the file after a colon.
  const bool printable = std::all_of(message.begin(), message.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
  return printable ? message : message.substr(0, message.find(':'));
}

}  // namespace

std::optional<YamlNode> ParseYaml(std::string_view text, Problems& problems) {
  if (text.size() > kYamlMaxBytes) {
    problems.Add({1, 1}, "YAML_LIMIT", fmt::format("{} bytes: a campaign has at most 1 MiB", text.size()));
    return std::nullopt;
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (!CheckText(text, problems)) return std::nullopt;

  const SourceLines lines(text);
  TreeBuilder builder(lines, problems);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder) || !builder.started()) {
      problems.Add({1, 1}, "MISSING_KEY", "the campaign is empty",
                   "`muster help campaign` lists what belongs into it.");
      return std::nullopt;
    }
    parser.HandleNextDocument(builder);
  } catch (const StopParsing&) {
    return builder.TakeRoot();
  } catch (const YAML::DeepRecursion& e) {
    problems.Add(lines.At(e.mark), "YAML_LIMIT", fmt::format("nested deeper than {} levels", kYamlMaxDepth));
    return std::nullopt;
  } catch (const YAML::Exception& e) {
    if (const auto tab = lines.IndentingTab(e.mark)) {
      problems.Add(*tab, "YAML_SYNTAX", Friendly(YAML::ErrorMsg::TAB_IN_INDENTATION));
      return std::nullopt;
    }
    const bool anchor = e.msg == YAML::ErrorMsg::UNKNOWN_ANCHOR;
    problems.Add(lines.At(e.mark), anchor ? "YAML_ANCHOR" : "YAML_SYNTAX", Friendly(e.msg));
    return std::nullopt;
  } catch (const std::exception& e) {
    problems.Add({1, 1}, "YAML_SYNTAX", e.what());
    return std::nullopt;
  }
  return builder.TakeRoot();
}

}  // namespace muster
