#include "common/stats/paged_recorder.h"

#include <sys/mman.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/stats/op_stats.h"

namespace muster {
namespace {

TEST_CASE("a paged recorder says what a plain histogram says", "[paged]") {
  PagePool pool(hist::kOctaves);
  PagedHistogram paged(&pool);
  Histogram plain;
  Rng rng(41);
  for (int i = 0; i < 50'000; ++i) {
    const uint64_t value = rng.Next() >> (20 + rng.Below(44));  // up to 2^44: some beyond the range
    paged.Record(value);
    plain.Record(value);
  }
  CHECK(plain.moments().overflow > 0);
  CHECK(paged.moments() == plain.moments());
  CHECK(paged.Encode() == plain.Encode());
  Histogram sum;
  REQUIRE(paged.AddTo(sum).ok());
  CHECK(sum == plain);
  REQUIRE(paged.AddTo(sum).ok());
  CHECK(sum.count() == 2 * plain.count());
}

TEST_CASE("pages are taken on first touch and kept over intervals", "[paged]") {
  PagePool pool(4);
  PagedHistogram paged(&pool);
  CHECK(paged.pages() == 0);
  CHECK(paged.empty());
  paged.Record(10);
  paged.Record(1'023);
  CHECK(paged.pages() == 1);
  paged.Record(1'024);
  CHECK(paged.pages() == 2);
  CHECK(pool.used() == 2);
  paged.Clear();
  CHECK(paged.empty());
  CHECK(paged.pages() == 2);
  CHECK(paged.Encode() == EncodedHistogram{});
  // The second interval sees nothing of the first, on a page that was and on one that was not touched again.
  paged.Record(11);
  Histogram expected;
  expected.Record(11);
  CHECK(paged.Encode() == expected.Encode());
  CHECK(pool.used() == 2);
}

TEST_CASE("an exhausted pool loses no moments and the loss shows", "[paged]") {
  PagePool pool(1);
  PagedHistogram paged(&pool);
  paged.Record(10);
  paged.Record(1'000'000);
  CHECK(paged.lost() == 1);
  CHECK(paged.moments().count == 2);
  CHECK(paged.moments().max == 1'000'000);
  CHECK(pool.used() == pool.capacity());
  // Counters and count disagree, so no decoder takes it for whole.
  CHECK(GetErrorInfo(Histogram::Decode(paged.Encode()).status()).code == "HISTOGRAM_CORRUPT");
  paged.Clear();
  CHECK(paged.lost() == 0);
}

TEST_CASE("recorders of one pool do not share pages", "[paged]") {
  PagePool pool(2);
  PagedHistogram a(&pool);
  PagedHistogram b(&pool);
  a.Record(5);
  b.Record(5);
  b.Record(6);
  CHECK(pool.used() == 2);
  CHECK(a.Encode().moments.count == 1);
  Histogram expected;
  expected.Record(5);
  CHECK(a.Encode() == expected.Encode());
}

TEST_CASE("adding to a histogram that is full is refused whole", "[paged]") {
  PagePool pool(1);
  PagedHistogram paged(&pool);
  paged.Record(1);
  Histogram full;
  REQUIRE(full.RecordMany(1, INT64_MAX).ok());
  const Histogram before = full;
  CHECK(GetErrorInfo(paged.AddTo(full)).code == "HISTOGRAM_OVERFLOW");
  CHECK(full == before);
}

TEST_CASE("a pool holds memory for its resident pages and keeps ahead of those taken", "[paged]") {
  constexpr size_t kPages = 8192;  // 32 MiB
  PagePool pool(kPages, 16);
  uint32_t* const first = pool.Take();
  const auto held = [&] {
    std::vector<unsigned char> there(kPages);
    REQUIRE(mincore(first, kPages * PagePool::kPageBytes, there.data()) == 0);
    return static_cast<size_t>(std::count_if(there.begin(), there.end(), [](unsigned char c) { return (c & 1) != 0; }));
  };
  // Where memory comes in huge pages, up to two of them are begun.
  constexpr size_t kSlack = 1024;
  CHECK(held() >= 16);
  CHECK(held() <= 16 + kSlack);
  first[0] = 7;
  pool.KeepAhead();
  CHECK(pool.resident() == 1 + PagePool::kAhead);
  CHECK(held() <= 1 + PagePool::kAhead + kSlack);
  CHECK(first[0] == 7);
  while (pool.used() < kPages) {
    if (pool.used() % PagePool::kAhead == 0) pool.KeepAhead();
    REQUIRE(pool.used() < pool.resident());
    uint32_t* const page = pool.Take();
    REQUIRE(page == first + (pool.used() - 1) * hist::kOctave);
    CHECK(page[hist::kOctave - 1] == 0);
  }
  CHECK(pool.Take() == nullptr);
  pool.KeepAhead();
  CHECK(pool.resident() == kPages);
}

TEST_CASE("payload sizes of an interval stay near those the report bound was made for", "[paged]") {
  // 30,000 log-normal-like operations in an interval: MEASUREMENT allows 8 KiB for two kinds.
  PagePool pool(hist::kOctaves);
  PagedHistogram paged(&pool);
  Rng rng(43);
  for (int i = 0; i < 15'000; ++i) {
    double exponent = 0;
    for (int k = 0; k < 12; ++k) exponent += rng.Unit();
    paged.Record(static_cast<uint64_t>(100'000 * std::exp(0.5 * (exponent - 6))));
  }
  CHECK(paged.Encode().counts.size() < 4'096);
}

TEST_CASE("names of op kinds and outcomes are distinct", "[paged]") {
  CHECK(OpKindName(OpKind::kRead) == "read");
  CHECK(OpKindName(OpKind::kTrim) == "trim");
  for (int a = 0; a < kOutcomes; ++a) {
    CHECK(OutcomeName(static_cast<Outcome>(a)) != "unknown");
    for (int b = 0; b < a; ++b) CHECK(OutcomeName(static_cast<Outcome>(a)) != OutcomeName(static_cast<Outcome>(b)));
  }
  for (int a = 0; a < kOpKinds; ++a) CHECK(OpKindName(static_cast<OpKind>(a)) != "unknown");
}

}  // namespace
}  // namespace muster
