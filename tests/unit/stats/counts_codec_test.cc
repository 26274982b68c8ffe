#include "common/stats/counts_codec.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/stats/layout.h"

namespace muster {
namespace {

std::string Encode(const std::vector<Counter>& counters) {
  CountsWriter writer;
  for (const Counter& counter : counters) writer.Add(counter.index, counter.count);
  return writer.Take();
}

void CheckCorrupt(std::string_view payload, const std::string& why) {
  INFO(why);
  const auto decoded = DecodeCounts(payload);
  REQUIRE_FALSE(decoded.ok());
  CHECK(GetErrorInfo(decoded.status()).code == "HISTOGRAM_CORRUPT");
  CHECK_THAT(GetErrorInfo(decoded.status()).message, Catch::Contains(why));
}

TEST_CASE("layout constants and index formulas", "[codec]") {
  CHECK(hist::kCounters == 33'792);
  CHECK(hist::IndexOf(0) == 0);
  CHECK(hist::IndexOf(2047) == 2047);
  CHECK(hist::IndexOf(2048) == 2048);
  CHECK(hist::IndexOf(2049) == 2048);
  CHECK(hist::IndexOf(hist::kHighest) == hist::kCounters - 1);
  // The counters tile 0 .. kHighest without gap or overlap.
  uint64_t next = 0;
  for (uint32_t index = 0; index < hist::kCounters; ++index) {
    REQUIRE(hist::LowestOf(index) == next);
    REQUIRE(hist::IndexOf(hist::LowestOf(index)) == index);
    REQUIRE(hist::IndexOf(hist::HighestOf(index)) == index);
    // Three significant digits: a counter is never wider than a thousandth of its values.
    REQUIRE((hist::HighestOf(index) - hist::LowestOf(index)) * 1000 <= hist::LowestOf(index));
    next = hist::HighestOf(index) + 1;
  }
  CHECK(next == hist::kHighest + 1);
}

TEST_CASE("only one layout is accepted", "[codec]") {
  CHECK(CheckLayout(3, 1, hist::kHighest).ok());
  const absl::Status unlike[] = {CheckLayout(2, 1, hist::kHighest), CheckLayout(3, 1000, hist::kHighest),
                                 CheckLayout(3, 1, hist::kHighest - 1), CheckLayout(0, 0, 0)};
  for (const absl::Status& status : unlike) {
    CHECK(GetErrorInfo(status).code == "HISTOGRAM_LAYOUT");
    CHECK_THAT(GetErrorInfo(status).message, Catch::Contains("expected 3 digits, 1 to 4398046511103 ns"));
  }
}

TEST_CASE("payload bytes are those of the V2 format", "[codec]") {
  CHECK(Encode({}).empty());
  CHECK(Encode({{0, 1}}) == std::string("\x02", 1));
  CHECK(Encode({{1, 1}}) == std::string("\x00\x02", 2));            // one zero is the word 0
  CHECK(Encode({{2, 1}}) == std::string("\x03\x02", 2));            // two are the word -2
  CHECK(Encode({{64, 1}}) == std::string("\x7f\x02", 2));           // -64 still fits a byte
  CHECK(Encode({{65, 64}}) == std::string("\x81\x01\x80\x01", 4));  // -65 and +64 do not
  CHECK(Encode({{0, INT64_MAX}}) == std::string("\xfe\xff\xff\xff\xff\xff\xff\xff\xff", 9));
}

TEST_CASE("counters survive encoding and decoding", "[codec]") {
  Rng rng(31);
  for (int round = 0; round < 300; ++round) {
    std::vector<Counter> counters;
    const uint64_t gap = uint64_t{1} << rng.Below(12);
    for (uint64_t index = rng.Below(gap); index < hist::kCounters; index += 1 + rng.Below(gap)) {
      counters.push_back({static_cast<uint32_t>(index), 1 + (rng.Next() >> 1 >> rng.Below(63))});
      if (counters.back().count > INT64_MAX) counters.back().count = INT64_MAX;
    }
    const std::string payload = Encode(counters);
    REQUIRE(payload.size() <= kMaxCountsPayload);
    const auto decoded = DecodeCounts(payload);
    REQUIRE(decoded.ok());
    REQUIRE(*decoded == counters);
  }
}

TEST_CASE("the largest payload there is fits the bound exactly", "[codec]") {
  std::vector<Counter> counters;
  for (uint32_t index = 0; index < hist::kCounters; ++index) counters.push_back({index, INT64_MAX});
  const std::string payload = Encode(counters);
  CHECK(payload.size() == kMaxCountsPayload);
  const auto decoded = DecodeCounts(payload);
  REQUIRE(decoded.ok());
  CHECK(*decoded == counters);
  CheckCorrupt(payload + '\x02', "at most 304128");
}

TEST_CASE("a writer that was taken from starts anew", "[codec]") {
  CountsWriter writer;
  writer.Add(100, 5);
  const std::string first = writer.Take();
  writer.Add(100, 5);
  CHECK(writer.Take() == first);
}

TEST_CASE("broken payloads are refused by what is wrong with them", "[codec]") {
  CheckCorrupt(std::string("\x80", 1), "word at byte 0 is cut short");
  CheckCorrupt(std::string("\x02\x02\xff\xff\xff", 5), "word at byte 2 is cut short");
  CheckCorrupt(std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8), "cut short");
  CheckCorrupt(std::string("\x82\x00", 2), "padded");
  CheckCorrupt(std::string("\x82\x80\x80\x80\x80\x80\x80\x80\x00", 9), "padded");
  CheckCorrupt(std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff", 9), "beyond counter 33791");  // -2^63
  CountsWriter writer;
  writer.Add(hist::kCounters - 1, 1);
  CheckCorrupt(writer.Take() + '\x02', "beyond counter 33791");
  CheckCorrupt(std::string("\x81\x90\x04", 3), "beyond counter 33791");  // a run of 33,793 zeros
}

TEST_CASE("zero words and runs up to the end are harmless", "[codec]") {
  const auto all_zero = DecodeCounts(std::string("\xff\x8f\x04", 3));  // a run of 33,792 zeros
  REQUIRE(all_zero.ok());
  CHECK(all_zero->empty());
  const auto trailing = DecodeCounts(std::string("\x02\x00\x00", 3));
  REQUIRE(trailing.ok());
  CHECK(*trailing == std::vector<Counter>{{0, 1}});
}

}  // namespace
}  // namespace muster
