// Mutated campaigns: whatever a file holds, the answer is a plan or a typed error with a place inside the file.
// MUSTER_FUZZ_SEED and MUSTER_FUZZ_ROUNDS choose another run; a failing round prints its seed and its input.
#include <algorithm>
#include <catch2/catch.hpp>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/base/rng.h"
#include "common/base/status.h"
#include "controller/campaign/campaign.h"

namespace muster {
namespace {

std::vector<std::string> Corpus() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(MUSTER_CORPUS_DIR)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const auto& path : paths) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

class Mutator {
 public:
  Mutator(const std::vector<std::string>& corpus, uint64_t seed) : corpus_(corpus), rng_(seed) {}

  std::string Make() {
    std::string text = Pick();
    for (uint64_t i = 0, n = rng_.Below(8); i < n; ++i) Mutate(text);
    return text;
  }

 private:
  const std::string& Pick() { return corpus_[rng_.Below(corpus_.size())]; }
  size_t Offset(const std::string& text) { return rng_.Below(text.size() + 1); }
  size_t Length(const std::string& text, size_t at) { return std::min<size_t>(rng_.Below(40), text.size() - at); }

  void Mutate(std::string& text) {
    static constexpr std::string_view kTokens[] = {"{",
                                                   "}",
                                                   "[",
                                                   "]",
                                                   ":",
                                                   ": ",
                                                   ",",
                                                   "-",
                                                   "- ",
                                                   "?",
                                                   "? ",
                                                   "&a ",
                                                   "*a",
                                                   "!!str ",
                                                   "!x ",
                                                   "|",
                                                   ">",
                                                   "'",
                                                   "\"",
                                                   "#",
                                                   " #",
                                                   "\n",
                                                   "\r\n",
                                                   "\t",
                                                   "  ",
                                                   "%",
                                                   "@",
                                                   "`",
                                                   "---\n",
                                                   "...\n",
                                                   "<<: ",
                                                   "null",
                                                   "~",
                                                   "true",
                                                   "yes",
                                                   "010",
                                                   "0x10",
                                                   "1e9",
                                                   "-1",
                                                   "0",
                                                   "4KiB",
                                                   "1TiB",
                                                   "0x",
                                                   "100x",
                                                   "1s",
                                                   "0s",
                                                   "1000h",
                                                   "1ns",
                                                   "1/s",
                                                   "100M/s",
                                                   "0%",
                                                   "100%",
                                                   "65535T1Q",
                                                   "1T65535Q",
                                                   "16T16Q",
                                                   "4096",
                                                   "65535",
                                                   "4294967296",
                                                   "18446744073709551616",
                                                   "per_stream",
                                                   "per_initiator",
                                                   "partition",
                                                   "shared",
                                                   "fixed",
                                                   "poisson",
                                                   "closed",
                                                   "size: ",
                                                   "size_per_initiator: ",
                                                   "load: ",
                                                   "rate: ",
                                                   "block: ",
                                                   "read: ",
                                                   "trim: ",
                                                   "flush_every: ",
                                                   "layout: ",
                                                   "pacing: ",
                                                   "files: ",
                                                   "sweep: ",
                                                   "initiators: ",
                                                   "interval: ",
                                                   "window: ",
                                                   "warmup: ",
                                                   "fill: ",
                                                   "\xC3\xA4",
                                                   "\xFF",
                                                   "\xE2\x80\xA8",
                                                   "\xEF\xBB\xBF",
                                                   "\\x",
                                                   "\\u00",
                                                   "\\"};
    const size_t at = Offset(text);
    switch (rng_.Below(9)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(rng_.Below(256));
        break;
      case 1:
        text.insert(at, kTokens[rng_.Below(std::size(kTokens))]);
        break;
      case 2:
        text.erase(at, Length(text, at));
        break;
      case 3:
        text.insert(at, text.substr(at, Length(text, at)));
        break;
      case 4: {  // a piece of another file
        const std::string& other = Pick();
        const size_t from = Offset(other);
        text.insert(at, other.substr(from, Length(other, from)));
        break;
      }
      case 5: {  // a line twice
        const size_t begin = text.rfind('\n', at) == std::string::npos ? 0 : text.rfind('\n', at) + 1;
        const size_t end = std::min(text.find('\n', begin), text.size());
        text.insert(begin, text.substr(begin, end - begin) + "\n");
        break;
      }
      case 6: {  // another word for a word
        const size_t begin = text.find_first_of("0123456789", at);
        if (begin == std::string::npos) break;
        const size_t end = std::min(text.find_first_of(" ,}]\n", begin), text.size());
        text.replace(begin, end - begin, kTokens[rng_.Below(std::size(kTokens))]);
        break;
      }
      case 7: {  // many of a token
        const std::string_view token = kTokens[rng_.Below(std::size(kTokens))];
        std::string many;
        for (uint64_t i = 0, n = rng_.Below(200); i < n; ++i) many += token;
        text.insert(at, many);
        break;
      }
      default:
        text.resize(at);
    }
  }

  const std::vector<std::string>& corpus_;
  Rng rng_;
};

// "f.yaml:LINE:COLUMN" with both inside the text; columns count characters, so bytes bound them.
bool IsPlaceIn(const std::string& place, const std::string& text) {
  const std::string prefix = "f.yaml:";
  if (!place.starts_with(prefix)) return false;
  long line = 0;
  long column = 0;
  const char* end = place.data() + place.size();
  const auto a = std::from_chars(place.data() + prefix.size(), end, line);
  if (a.ec != std::errc{} || a.ptr == end || *a.ptr != ':') return false;
  const auto b = std::from_chars(a.ptr + 1, end, column);
  if (b.ec != std::errc{} || b.ptr != end || line < 1 || column < 1) return false;
  if (line > std::count(text.begin(), text.end(), '\n') + 1) return false;
  size_t start = 0;
  for (long i = 1; i < line; ++i) start = text.find('\n', start) + 1;
  const size_t stop = std::min(text.find('\n', start), text.size());
  return static_cast<size_t>(column) <= stop - start + 1;
}

void CheckError(const absl::Status& status, const std::string& text) {
  const ErrorInfo info = GetErrorInfo(status);
  INFO(FormatError(status));
  CHECK(IsPlaceIn(info.place, text));
  CHECK_FALSE(info.message.empty());
  CHECK(!info.code.empty());
  // No code of another layer and no canonical name shows through.
  static const std::vector<std::string> kCodes{
      "YAML_SYNTAX",   "YAML_LIMIT",        "YAML_DUPLICATE_KEY", "YAML_ANCHOR",    "YAML_TAG",        "YAML_DOCUMENTS",
      "NULL_VALUE",    "UNKNOWN_KEY",       "WRONG_TYPE",         "UNIT_SYNTAX",    "UNIT_RANGE",      "ENUM_UNKNOWN",
      "MISSING_KEY",   "CONTRADICTION",     "UNKNOWN_TARGET",     "DUPLICATE_STEP", "DUPLICATE_POINT", "SET_TOO_SMALL",
      "SET_TOO_LARGE", "BLOCK_NOT_ALIGNED", "WINDOW_NOT_WHOLE",   "PLAN_TOO_LARGE"};
  CHECK(std::find(kCodes.begin(), kCodes.end(), info.code) != kCodes.end());
  // Texts are for one terminal line each.
  CHECK(std::none_of(info.message.begin(), info.message.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }));
}

void CheckPlan(const Plan& plan) {
  CHECK(plan.steps.size() >= 1);
  CHECK(plan.steps.size() <= 10'000);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    CHECK(step.index == i);
    CHECK(step.estimated >= 0);
    CHECK(step.measure.workload.size > 0);
    CHECK(step.measure.workload.block >= 512);
    CHECK(step.initiators <= step.initiators_max);
    if (!step.skip_reason.empty()) continue;
    CHECK(step.measure.window_intervals > 0);
    for (const ObjectSpec& object : step.objects) CHECK(object.size > 0);
  }
  CHECK_FALSE(FormatPlan(plan).empty());
}

TEST_CASE("the corpus reads as its files say") {
  for (const std::string& text : Corpus()) {
    const auto loaded = LoadCampaignText("f.yaml", text);
    if (text.starts_with("%YAML")) {
      CHECK_FALSE(loaded.ok());  // anchors, tags, merge keys
      continue;
    }
    INFO(FormatError(loaded.status()));
    REQUIRE(loaded.ok());
    CHECK(Compile(*loaded).ok());
  }
}

TEST_CASE("mutated campaigns give a plan or a placed error") {
  const std::vector<std::string> corpus = Corpus();
  REQUIRE(corpus.size() >= 4);
  const uint64_t seed = FromEnvironment("MUSTER_FUZZ_SEED", 1);
  const uint64_t rounds = FromEnvironment("MUSTER_FUZZ_ROUNDS", 6'000);
  uint64_t plans = 0;
  for (uint64_t round = 0; round < rounds; ++round) {
    const std::string text = Mutator(corpus, MixSeed(seed, round)).Make();
    INFO("MUSTER_FUZZ_SEED=" << seed << " round " << round << "\n" << text);
    const auto loaded = LoadCampaignText("f.yaml", text);
    if (!loaded.ok()) {
      CheckError(loaded.status(), text);
      continue;
    }
    const auto plan = Compile(*loaded);
    if (!plan.ok()) {
      CheckError(plan.status(), text);
      continue;
    }
    CheckPlan(*plan);
    ++plans;
  }
  // Mutation that breaks everything tests the parser only.
  CHECK(plans > rounds / 50);
  CHECK(plans < rounds);
}

}  // namespace
}  // namespace muster
