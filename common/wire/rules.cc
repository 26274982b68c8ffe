#include "common/wire/rules.h"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "common/base/units.h"
#include "fmt/format.h"

namespace muster {
namespace {

using google::protobuf::FieldDescriptor;

std::optional<double> PlainLimit(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return static_cast<double>(value);
}

template <typename T>
std::optional<double> Parsed(const absl::StatusOr<T>& value) {
  if (!value.ok()) return std::nullopt;
  return static_cast<double>(*value);
}

// A limit is written like a value of the field, but for fields that are limited by length or number of elements.
std::optional<double> ParseLimit(const FieldDescriptor& field, v1::Unit unit, const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING || field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    return PlainLimit(text);
  }
  switch (unit) {
    case v1::UNIT_BYTES:
      return Parsed(ParseSize(text));
    case v1::UNIT_DURATION:
      return Parsed(ParseDuration(text));
    case v1::UNIT_RATE:
      return Parsed(ParseRate(text));
    case v1::UNIT_PERCENT:
      return Parsed(ParsePercent(text));
    default:
      return PlainLimit(text);
  }
}

// Optimal string alignment distance, given up as soon as it must exceed `limit`.
size_t EditDistance(std::string_view a, std::string_view b, size_t limit) {
  if (a.size() > b.size() + limit || b.size() > a.size() + limit) return limit + 1;
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    size_t best = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
      best = std::min(best, row[j]);
    }
    if (best > limit) return limit + 1;
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

const FieldRule& RuleOf(const FieldDescriptor& field) {
  static std::shared_mutex mutex;
  // Never destroyed: descriptors of generated code outlive every caller, also those running while the program ends.
  static auto& cache = *new std::unordered_map<const FieldDescriptor*, FieldRule>;
  {
    std::shared_lock lock(mutex);
    if (const auto it = cache.find(&field); it != cache.end()) return it->second;
  }
  FieldRule made;
  made.rule = field.options().GetExtension(v1::rule);
  made.min = ParseLimit(field, made.rule.unit(), made.rule.min());
  made.max = ParseLimit(field, made.rule.unit(), made.rule.max());
  std::unique_lock lock(mutex);
  return cache.try_emplace(&field, std::move(made)).first->second;  // references into a node-based map stay valid
}

std::string EnumText(const google::protobuf::EnumValueDescriptor& value) {
  // The prefix is the type's name in upper snake case, as in FILE_LAYOUT_PER_INITIATOR.
  std::string prefix;
  for (const char c : value.type()->name()) {
    const bool upper = c >= 'A' && c <= 'Z';
    if (upper && !prefix.empty()) prefix.push_back('_');
    prefix.push_back(static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c));
  }
  prefix.push_back('_');
  std::string text = value.name();
  if (text.starts_with(prefix)) text.erase(0, prefix.size());
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return text;
}

std::string DidYouMean(std::string_view given, const std::vector<std::string>& choices) {
  constexpr size_t kLongest = 64;  // longer texts are no typing errors of names
  if (given.empty() || given.size() > kLongest) return {};
  const size_t limit = given.size() <= 3 ? 1 : 2;
  const std::string* best = nullptr;
  size_t best_distance = limit + 1;
  for (const std::string& choice : choices) {
    if (choice.empty() || choice.size() > kLongest) continue;
    const size_t distance = EditDistance(given, choice, limit);
    if (distance < best_distance) {
      best = &choice;
      best_distance = distance;
    }
  }
  if (best != nullptr) return *best;
  for (const std::string& choice : choices) {
    if (given.size() >= 3 && choice.starts_with(given)) return choice;
  }
  for (const std::string& choice : choices) {
    if (choice.size() >= 3 && given.starts_with(choice)) return choice;
  }
  return {};
}

std::string QuoteText(std::string_view text) {
  constexpr size_t kMaxShown = 40;
  size_t cut = std::min(text.size(), kMaxShown);
  while (cut > 0 && cut < text.size() && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  std::string out = "\"";
  for (const char c : text.substr(0, cut)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out.push_back(c);
    }
  }
  if (cut < text.size()) out += "...";
  out.push_back('"');
  return out;
}

}  // namespace muster
