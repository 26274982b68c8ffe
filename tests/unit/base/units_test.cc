#include "common/base/units.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>

#include "common/base/rng.h"
#include "common/base/status.h"

namespace muster {
namespace {

// Every refusal is typed, repeats the text and shows what would have been right.
template <typename T>
void CheckRefused(const absl::StatusOr<T>& result, const std::string& code, const std::string& hint) {
  REQUIRE_FALSE(result.ok());
  const ErrorInfo info = GetErrorInfo(result.status());
  CHECK(result.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(info.code == code);
  CHECK_THAT(info.message, Catch::Contains(hint));
}

TEST_CASE("sizes are bytes, binary or decimal by their unit", "[units]") {
  const std::pair<const char*, uint64_t> cases[] = {
      {"0", 0},
      {"4096", 4096},
      {"1B", 1},
      {"4K", 4096},
      {"4KiB", 4096},
      {"4KB", 4000},
      {"1.5MiB", 1'572'864},
      {"0.5K", 512},
      {"1M", 1'048'576},
      {"1MB", 1'000'000},
      {"140GB", 140'000'000'000},
      {"1G", 1'073'741'824},
      {"1TiB", uint64_t{1} << 40},
      {"2T", uint64_t{2} << 40},
      {"2TB", 2'000'000'000'000},
      {"1.000KiB", 1024},
      {"0.0009765625MiB", 1024},
      {"18446744073709551615", UINT64_MAX},
      {"18446744073709551615B", UINT64_MAX},
      {"16777215TiB", uint64_t{16777215} << 40},
      {"18446744.073709551615TB", UINT64_MAX},
  };
  for (const auto& [text, bytes] : cases) {
    INFO(text);
    const auto parsed = ParseSize(text);
    REQUIRE(parsed.ok());
    CHECK(*parsed == bytes);
  }
}

TEST_CASE("a size that is none says why", "[units]") {
  const std::pair<const char*, const char*> cases[] = {
      {"", "empty"},
      {" 4K", "begins with a blank"},
      {"4K ", "ends with a blank"},
      {"4 KiB", "blank"},
      {"4096\n", "ends with a blank"},
      {"010", "leading zeros"},
      {"00", "leading zeros"},
      {"0x10", "\"x10\" is not a unit"},
      {"yes", "does not begin with a digit"},
      {".5K", "does not begin with a digit"},
      {"-4K", "signs"},
      {"+4K", "signs"},
      {"4.K", "no digit follows the point"},
      {"1.5", "not a whole number of bytes"},
      {"0.3KiB", "not a whole number of bytes"},
      {"1.0000000000000000001K", "18 digits"},
      {"1e3", "not a unit"},
      {"4k", "spelled \"K\""},
      {"4kib", "spelled \"KiB\""},
      {"4kb", "spelled \"KB\""},
      {"4Mb", "spelled \"MB\""},
      {"4PB", "\"PB\" is not a unit"},
      {"1,5MiB", "not a unit"},
      {"1_000", "not a unit"},
      {"4K4K", "not a unit"},
      {"nan", "does not begin with a digit"},
  };
  for (const auto& [text, why] : cases) {
    INFO("<" << text << ">");
    CheckRefused(ParseSize(text), "UNIT_SYNTAX", why);
    CheckRefused(ParseSize(text), "UNIT_SYNTAX", "4KiB");
  }
  for (const char* text : {"18446744073709551616", "16777216TiB", "18446744.073709551616TB", "99999999999999999999T",
                           "340282366920938463463374607431768211456", "1000000000000000000000000000000000000000000T"}) {
    INFO(text);
    CheckRefused(ParseSize(text), "UNIT_RANGE", "at most 18446744073709551615 bytes");
  }
}

TEST_CASE("text from outside is made safe and short in errors", "[units]") {
  const auto long_one = ParseSize(std::string(100'000, '9'));
  CheckRefused(long_one, "UNIT_RANGE", "...");
  CHECK(GetErrorInfo(long_one.status()).message.size() < 300);
  const auto binary = ParseSize(std::string_view("4\x1f\x00\x1b[31m", 8));
  CheckRefused(binary, "UNIT_SYNTAX", "\\x1f\\x00\\x1b");
}

TEST_CASE("durations are nanoseconds and always say their unit", "[units]") {
  const std::pair<const char*, Nanos> cases[] = {
      {"0s", 0},
      {"1ns", 1},
      {"100ns", 100},
      {"250us", 250'000},
      {"1.5ms", 1'500'000},
      {"0.000000001s", 1},
      {"30s", 30 * kSecond},
      {"2m", 2 * kMinute},
      {"2h30m", 150 * kMinute},
      {"2h30m15s", 150 * kMinute + 15 * kSecond},
      {"1h1ns", kHour + 1},
      {"1s500ms", 1500 * kMillisecond},
      {"1m1.5s", 61'500 * kMillisecond},
      {"90m", 90 * kMinute},
      {"0.5h", 30 * kMinute},
  };
  for (const auto& [text, nanos] : cases) {
    INFO(text);
    const auto parsed = ParseDuration(text);
    REQUIRE(parsed.ok());
    CHECK(*parsed == nanos);
  }
  CHECK(*ParseDuration("4611686018427387903ns") == kNever);
}

TEST_CASE("a duration that is none says why", "[units]") {
  const std::pair<const char*, const char*> cases[] = {
      {"", "empty"},
      {"30", "does not say its unit"},
      {"0", "does not say its unit"},
      {"30S", "spelled \"s\""},
      {"2H", "spelled \"h\""},
      {"1Ms", "spelled \"ms\""},
      {"30 s", "blank"},
      {" 30s", "blank"},
      {"30s ", "blank"},
      {"5min", "minutes are spelled \"m\""},
      {"5\u00b5s", "microseconds are spelled \"us\""},
      {"5\u03bcs", "microseconds are spelled \"us\""},
      {"010s", "leading zeros"},
      {"yes", "begin with a digit"},
      {"-1s", "signs"},
      {"1.5ns", "not a whole number of nanoseconds"},
      {"30m2h", "larger unit to the smaller"},
      {"1m1m", "larger unit to the smaller"},
      {"1.5h30m", "only the last part"},
      {"1h30", "does not say its unit"},
      {"1d", "not a unit"},
  };
  for (const auto& [text, why] : cases) {
    INFO("<" << text << ">");
    CheckRefused(ParseDuration(text), "UNIT_SYNTAX", why);
    CheckRefused(ParseDuration(text), "UNIT_SYNTAX", "2h30m");
  }
  for (const char* text : {"4611686018427387904ns", "1281024h", "99999999999999999999h", "18446744073709551615h",
                           "18446744073709551615h18446744073709551615m18446744073709551615s"}) {
    INFO(text);
    CheckRefused(ParseDuration(text), "UNIT_RANGE", "at most 1281023h");
  }
}

TEST_CASE("rates are operations per second", "[units]") {
  const std::pair<const char*, double> cases[] = {
      {"1/s", 1},     {"10000/s", 1e4}, {"10k/s", 1e4},   {"1.5M/s", 1.5e6}, {"600/min", 10}, {"1/min", 1.0 / 60},
      {"0.5/s", 0.5}, {"1G/s", 1e9},    {"1000M/s", 1e9}, {"0.1k/s", 100},   {"60G/min", 1e9}};
  for (const auto& [text, rate] : cases) {
    INFO(text);
    const auto parsed = ParseRate(text);
    REQUIRE(parsed.ok());
    CHECK(*parsed == rate);
  }
  const std::pair<const char*, const char*> wrong[] = {
      {"", "empty"},
      {"10000", "does not say \"/s\""},
      {"10k", "does not say \"/s\""},
      {"10K/s", "spelled \"k\""},
      {"1m/s", "spelled \"M\""},
      {"10/h", "\"/h\" is not"},
      {"10/S", "\"/S\" is not"},
      {"10/s ", "is not"},
      {"10 /s", "blank"},
      {"/s", "begin with a digit"},
      {"-1/s", "signs"},
      {"010/s", "leading zeros"},
      {"10Ki/s", "not a unit"},
  };
  for (const auto& [text, why] : wrong) {
    INFO("<" << text << ">");
    CheckRefused(ParseRate(text), "UNIT_SYNTAX", why);
    CheckRefused(ParseRate(text), "UNIT_SYNTAX", "10k/s");
  }
  for (const char* text : {"0/s", "0.0k/s", "1000000001/s", "1.000000001G/s", "61G/min", "99999999999999999999G/s",
                           "18446744073709551615G/s"}) {
    INFO(text);
    CheckRefused(ParseRate(text), "UNIT_RANGE", "above 0 and at most 1G/s");
  }
}

TEST_CASE("percentages are shares from 0 to 1", "[units]") {
  const std::pair<const char*, double> cases[] = {{"0%", 0},        {"70%", 0.7},        {"0.5%", 0.005},
                                                  {"100%", 1},      {"100.0%", 1},       {"33.3%", 0.333},
                                                  {"99.9%", 0.999}, {"99.999%", 0.99999}};
  for (const auto& [text, share] : cases) {
    INFO(text);
    const auto parsed = ParsePercent(text);
    REQUIRE(parsed.ok());
    CHECK(*parsed == share);
  }
  const std::pair<const char*, const char*> wrong[] = {{"", "empty"},
                                                       {"70", "does not end with \"%\""},
                                                       {"0.7", "does not end with \"%\""},
                                                       {"70 %", "is not \"%\""},
                                                       {"70%%", "is not \"%\""},
                                                       {"%", "begin with a digit"},
                                                       {"yes", "begin with a digit"},
                                                       {"-5%", "signs"},
                                                       {"07%", "leading zeros"},
                                                       {"70pct", "is not \"%\""}};
  for (const auto& [text, why] : wrong) {
    INFO("<" << text << ">");
    CheckRefused(ParsePercent(text), "UNIT_SYNTAX", why);
    CheckRefused(ParsePercent(text), "UNIT_SYNTAX", "70%");
  }
  for (const char* text : {"101%", "100.000000000000000001%", "99999999999999999999%"}) {
    INFO(text);
    CheckRefused(ParsePercent(text), "UNIT_RANGE", "from 0% to 100%");
  }
}

TEST_CASE("passes are whole and at least one", "[units]") {
  CHECK(*ParsePasses("1x") == 1);
  CHECK(*ParsePasses("2x") == 2);
  CHECK(*ParsePasses("4294967295x") == UINT32_MAX);
  CheckRefused(ParsePasses("0.5x"), "UNIT_SYNTAX", "whole number");
  CheckRefused(ParsePasses("2"), "UNIT_SYNTAX", "\"x\"");
  CheckRefused(ParsePasses("2X"), "UNIT_SYNTAX", "\"X\" is not \"x\"");
  CheckRefused(ParsePasses("2 x"), "UNIT_SYNTAX", "is not \"x\"");
  CheckRefused(ParsePasses("02x"), "UNIT_SYNTAX", "leading zeros");
  CheckRefused(ParsePasses("x"), "UNIT_SYNTAX", "begin with a digit");
  CheckRefused(ParsePasses(""), "UNIT_SYNTAX", "1x or 2x");
  CheckRefused(ParsePasses("0x"), "UNIT_RANGE", "from 1 to 4294967295");
  CheckRefused(ParsePasses("4294967296x"), "UNIT_RANGE", "from 1 to 4294967295");
}

TEST_CASE("loads are streams and depth", "[units]") {
  CHECK(*ParseLoad("16T16Q") == Load{16, 16});
  CHECK(*ParseLoad("1T128Q") == Load{1, 128});
  CHECK(*ParseLoad("65535T65535Q") == Load{65535, 65535});
  for (const char* text : {"", "16", "16T", "16T16", "16Q16T", "16t16q", "16T16q", " 16T16Q", "16T16Q ", "16T 16Q",
                           "16Tx16Q", "T16Q", "16T16Q16", "016T1Q", "1T01Q", "1.5T2Q", "16x16"}) {
    INFO("<" << text << ">");
    CheckRefused(ParseLoad(text), "UNIT_SYNTAX", "16T16Q");
  }
  for (const char* text : {"0T1Q", "1T0Q", "65536T1Q", "1T65536Q", "99999999999999999999T1Q"}) {
    INFO(text);
    CheckRefused(ParseLoad(text), "UNIT_RANGE", "from 1 to 65535");
  }
}

TEST_CASE("formatted units", "[units]") {
  CHECK(FormatSize(0) == "0B");
  CHECK(FormatSize(512) == "512B");
  CHECK(FormatSize(4096) == "4KiB");
  CHECK(FormatSize(140'000'000'000) == "136718750KiB");
  CHECK(FormatSize(1'000'000'001) == "1000000001B");
  CHECK(FormatSize(uint64_t{3} << 50) == "3072TiB");
  CHECK(FormatSize(UINT64_MAX) == "18446744073709551615B");

  CHECK(FormatBytesHuman(0) == "0 B");
  CHECK(FormatBytesHuman(512) == "512 B");
  CHECK(FormatBytesHuman(456e3) == "456 kB");
  CHECK(FormatBytesHuman(1.234e9) == "1.23 GB");
  CHECK(FormatBytesHuman(9.996e6) == "10.0 MB");
  CHECK(FormatBytesHuman(99.96e6) == "100 MB");
  CHECK(FormatBytesHuman(999.6e3) == "1.00 MB");
  CHECK(FormatBytesHuman(-1.5e6) == "-1.50 MB");
  CHECK(FormatBytesHuman(std::nan("")) == "n/a");

  CHECK(FormatDuration(0) == "0s");
  CHECK(FormatDuration(90 * kSecond) == "1m30s");
  CHECK(FormatDuration(1500 * kMicrosecond) == "1500us");
  CHECK(FormatDuration(1500 * kMillisecond) == "1500ms");
  CHECK(FormatDuration(2 * kHour) == "2h");
  CHECK(FormatDuration(kHour + kSecond) == "1h1s");
  CHECK(FormatDuration(-90 * kSecond) == "-1m30s");
  CHECK(FormatDuration(INT64_MIN) == "-9223372036854775808ns");

  CHECK(FormatLatency(0) == "0 ns");
  CHECK(FormatLatency(512) == "512 ns");
  CHECK(FormatLatency(87'100) == "87.1 us");
  CHECK(FormatLatency(1.24e6) == "1.24 ms");
  CHECK(FormatLatency(999'600) == "1.00 ms");
  CHECK(FormatLatency(3e9) == "3.0 s");
  CHECK(FormatLatency(std::numeric_limits<double>::infinity()) == "n/a");

  CHECK(FormatLoad({16, 16}) == "16T16Q");
  CHECK(FormatPercent(0.7) == "70%");
  CHECK(FormatPercent(0.005) == "0.5%");
  CHECK(FormatPercent(1) == "100%");
  CHECK(FormatPercent(0) == "0%");
  CHECK(FormatPercent(0.99999) == "99.999%");
  CHECK(FormatPercent(1.0 / 3) == "33.3333%");
}

TEST_CASE("what is formatted parses back to the same value", "[units]") {
  Rng rng(7);
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t bytes = rng.Next() >> rng.Below(64);
    REQUIRE(*ParseSize(FormatSize(bytes)) == bytes);
    const uint64_t rounded = bytes >> 20 << 20;
    REQUIRE(*ParseSize(FormatSize(rounded)) == rounded);
    const Nanos scales[] = {1, kMicrosecond, kMillisecond, kSecond, kMinute, kHour};
    const Nanos scale = scales[rng.Below(6)];
    const auto nanos = static_cast<Nanos>(rng.Below(static_cast<uint64_t>(kNever / scale))) * scale;
    REQUIRE(*ParseDuration(FormatDuration(nanos)) == nanos);
    const Load load{1 + static_cast<uint32_t>(rng.Below(65535)), 1 + static_cast<uint32_t>(rng.Below(65535))};
    REQUIRE(*ParseLoad(FormatLoad(load)) == load);
    const auto share = static_cast<double>(rng.Below(1'000'001)) / 1e6;
    REQUIRE(*ParsePercent(FormatPercent(share)) == share);
  }
}

TEST_CASE("no text makes a parser do anything but answer", "[units]") {
  constexpr std::string_view kAlphabet = "0123456789.TQxKMGibBshmun%/ -+kyes";
  Rng rng(11);
  int accepted = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string text;
    for (uint64_t n = rng.Below(12); n > 0; --n) text.push_back(kAlphabet[rng.Below(kAlphabet.size())]);
    INFO(text);
    if (const auto size = ParseSize(text); size.ok()) {
      ++accepted;
      REQUIRE(*ParseSize(FormatSize(*size)) == *size);
    } else {
      REQUIRE_THAT(GetErrorInfo(size.status()).code, Catch::StartsWith("UNIT_"));
    }
    if (const auto duration = ParseDuration(text); duration.ok()) REQUIRE(*duration >= 0);
    if (const auto rate = ParseRate(text); rate.ok()) REQUIRE((*rate > 0 && *rate <= 1e9));
    if (const auto percent = ParsePercent(text); percent.ok()) REQUIRE((*percent >= 0 && *percent <= 1));
    if (const auto passes = ParsePasses(text); passes.ok()) REQUIRE(*passes >= 1);
    if (const auto load = ParseLoad(text); load.ok()) REQUIRE(FormatLoad(*load) == text);
  }
  CHECK(accepted > 100);
}

}  // namespace
}  // namespace muster
