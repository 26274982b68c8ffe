// Commands as bytes, answers, verdicts and names.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>

#include "agent/backend/iscsi/cdb.h"
#include "agent/backend/iscsi/counters.h"
#include "agent/backend/iscsi/sense.h"
#include "common/base/native_code.h"

namespace muster {
namespace {

std::vector<uint8_t> Bytes(const Cdb& cdb) {
  return {cdb.bytes.begin(), cdb.bytes.begin() + cdb.size};
}

ScsiAnswer Check(uint8_t key, uint16_t asc_ascq) {
  return {.delivered = true, .status = kScsiCheckCondition, .sense_key = key, .asc_ascq = asc_ascq};
}

TEST_CASE("READ and WRITE take the short form where block and count fit") {
  CHECK(Bytes(ReadCdb(0x01020304, 8, false)) == std::vector<uint8_t>{0x28, 0, 1, 2, 3, 4, 0, 0, 8, 0});
  CHECK(Bytes(WriteCdb(5, 0xffff, true)) == std::vector<uint8_t>{0x2a, 8, 0, 0, 0, 5, 0, 0xff, 0xff, 0});
  CHECK(Bytes(ReadCdb(UINT32_MAX - 8, 8, false)).size() == 10);
  CHECK(Bytes(ReadCdb(UINT32_MAX - 7, 8, false)) ==
        std::vector<uint8_t>{0x88, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xf8, 0, 0, 0, 8, 0, 0});
  CHECK(Bytes(WriteCdb(0, 0x10000, true)) == std::vector<uint8_t>{0x8a, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0});
}

TEST_CASE("flush and unmap") {
  CHECK(Bytes(SynchronizeCacheCdb(uint64_t{1} << 32)).size() == 10);
  CHECK(Bytes(SynchronizeCacheCdb((uint64_t{1} << 32) + 1)).at(0) == 0x91);
  std::array<uint8_t, kUnmapParameterBytes> parameters{};
  FillUnmapParameters(0x1122334455, 0x66, parameters);
  CHECK(
      std::vector<uint8_t>(parameters.begin(), parameters.end()) ==
      std::vector<uint8_t>{0, 22, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0, 0, 0, 0x66, 0, 0, 0, 0});
}

TEST_CASE("answers are read within their bounds") {
  std::vector<uint8_t> capacity(32, 0);
  capacity[6] = 0xff;
  capacity[7] = 0xff;
  capacity[10] = 0x10;
  capacity[13] = 3;
  capacity[14] = 0xc0;
  CapacityFacts c;
  REQUIRE(ParseCapacity16(capacity, c));
  CHECK(c.blocks == 0x10000);
  CHECK(c.block_bytes == 4096);
  CHECK(c.physical_exponent == 3);
  CHECK(c.provisioned);
  CHECK(c.reads_zeroes);
  CHECK_FALSE(ParseCapacity16(std::span(capacity).first(15), c));

  std::vector<uint16_t> luns;
  std::vector<uint8_t> report(8 + 32, 0);
  report[3] = 32;
  report[8 + 1] = 9;
  report[16] = 0x41;
  report[17] = 0x02;  // flat space
  report[24] = 0xc1;  // well known
  report[33] = 1;
  REQUIRE(ParseReportLuns(report, luns));
  CHECK(luns == std::vector<uint16_t>{1, 9, 0x102});
  luns.clear();
  report[3] = 255;  // tells more than it holds
  REQUIRE(ParseReportLuns(std::span(report).first(20), luns));
  CHECK(luns == std::vector<uint16_t>{9});

  ModeFacts mode;
  REQUIRE(ParseModeSense6(std::vector<uint8_t>{0x17, 0, 0x90, 0, 8, 0x12, 4}, mode));
  CHECK(mode.write_protected);
  CHECK(mode.dpofua);
  CHECK(mode.has_caching);
  CHECK(mode.write_cache);
  ModeFacts cut;
  REQUIRE(ParseModeSense6(std::vector<uint8_t>{0x17, 0, 0, 255, 8}, cut));
  CHECK_FALSE(cut.has_caching);

  std::vector<std::string> ids;
  const std::vector<uint8_t> page = {0, 0x83, 0, 14, 1, 3, 0, 2, 0x60, 0x01, 1, 0x93, 0, 1, 7, 1, 2, 0};
  REQUIRE(ParseDeviceIds(page, ids));
  CHECK(ids == std::vector<std::string>{"naa.6001"});
  for (size_t n = 0; n <= page.size(); ++n) ParseDeviceIds(std::span(page).first(n), ids);
  CHECK(PrintableText(std::vector<uint8_t>{' ', 'a', 1, 'b', ' ', ' '}) == "a?b");
}

TEST_CASE("verdicts") {
  const auto judge = [](const ScsiAnswer& answer) { return JudgeScsi(answer); };
  const auto status = [](uint8_t s) { return ScsiAnswer{.delivered = true, .status = s}; };
  CHECK(judge(status(kScsiGood)).action == ScsiAction::kDone);
  CHECK(judge(status(kScsiBusy)).action == ScsiAction::kRetryLater);
  CHECK(judge(status(kScsiTaskSetFull)).action == ScsiAction::kRetryLater);
  CHECK(judge(status(kScsiReservationConflict)).outcome == IoOutcome::kOther);
  CHECK(judge(status(kScsiTaskAborted)).outcome == IoOutcome::kAborted);
  CHECK(judge(status(0x7e)).outcome == IoOutcome::kIo);
  CHECK(judge(Check(0x1, 0x1701)).action == ScsiAction::kDone);
  CHECK(judge(Check(0x6, 0x2900)).action == ScsiAction::kRetryOnce);
  CHECK(judge(Check(0x3, 0x1100)).outcome == IoOutcome::kIo);
  CHECK(judge(Check(0x5, 0x2000)).outcome == IoOutcome::kUnsupported);
  CHECK(judge(Check(0x5, 0x2500)).outcome == IoOutcome::kIo);
  CHECK(judge(Check(0x7, 0x2700)).outcome == IoOutcome::kOther);
  CHECK(judge(Check(0x7, 0x2707)).outcome == IoOutcome::kNoSpace);
  CHECK(judge({.delivered = false, .transport_errno = EPROTO}).outcome == IoOutcome::kIo);
  for (uint8_t key = 0; key < 16; ++key) CHECK(judge(Check(key, 0)).action <= ScsiAction::kFail);
}

TEST_CASE("names of native codes") {
  CHECK(NativeCodeName(NativeCodeOf(Check(0x6, 0x2900))) == "UNIT ATTENTION 29/00 power on, reset or bus device reset");
  CHECK(NativeCodeName(NativeCodeOf(Check(0x4, 0x44f1))) == "HARDWARE ERROR 44/F1");
  CHECK(NativeCodeName(NativeCodeOf({.delivered = true, .status = kScsiTaskSetFull})) == "TASK SET FULL");
  CHECK(NativeCodeName(NativeCodeOf({.delivered = true, .status = 0x7e})) == "SCSI status 7Eh");
  CHECK(NativeCodeName(ECONNRESET) == "ECONNRESET");
  CHECK(NativeCodeName(0) == "no code");
  CHECK(NativeCodeName(-5) == "code -5");
  CHECK(NativeCodeName(4000) == "code 4000");
  CHECK(NativeCodeOf(Check(0xf, 0xffff)) > 0);
}

TEST_CASE("counting by code is bounded, and nothing is lost") {
  IscsiCounters counters;
  for (uint32_t i = 0; i < 100; ++i) counters.Event(NativeCodeOf(Check(0x4, static_cast<uint16_t>(i))));
  counters.Event(NativeCodeOf(Check(0x4, 0)));
  uint64_t sum = 0;
  for (const auto& [name, count] : counters.List(0)) {
    if (name.find("HARDWARE") != std::string::npos || name == "other events") sum += count;
  }
  CHECK(sum == 101);
}

TEST_CASE("a stopwatch adds up its stretches") {
  IscsiStopwatch watch;
  watch.Stop(5);
  CHECK(watch.TotalAt(10) == 0);
  watch.Start(10);
  watch.Start(15);
  CHECK(watch.TotalAt(17) == 7);
  watch.Stop(20);
  watch.Start(30);
  CHECK(watch.TotalAt(31) == 11);
}

}  // namespace
}  // namespace muster
