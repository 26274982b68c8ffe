#include "controller/cli/probe_text.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/base/status.h"

namespace muster {
namespace {

using Catch::Contains;

TargetView View() {
  TargetView view{.agent = "local-1", .host = "here", .target = "luns", .place = "192.0.2.10:3260 iqn.a:b"};
  view.notes = {"target on the same host"};
  TargetProbe probe;
  probe.session = {{"portal", "192.0.2.10:3260"}, {"command window", "512"}};
  probe.luns_reported = 300;
  ProbedLun blank{.lun = 1, .used = true, .vendor = "IET", .product = "VIRTUAL-DISK", .revision = "0001"};
  blank.serial = "beaf11";
  blank.wwids = {"naa.6001", "t10.IET"};
  blank.size = 1 << 30;
  blank.block = 4096;
  blank.physical_block = 8192;
  blank.write_protected = false;
  blank.write_cache = true;
  blank.fua = false;
  blank.unmap = true;
  blank.reads_zeroes = true;
  blank.max_unmap = 1 << 20;
  blank.max_unmap_ranges = 32;
  blank.unmap_granularity = 4096;
  blank.max_transfer = 8 << 20;
  blank.found = "blank";
  ProbedLun silent{.lun = 2, .vendor = "X"};
  silent.size = 1 << 20;
  silent.block = 512;
  silent.physical_block = 512;
  silent.found = "ext4 file system \"a\x1b[31m\"";
  silent.refusal = MakeError(absl::StatusCode::kFailedPrecondition,
                             {"TARGET_HAS_DATA", "LUN 2", "the device is not blank", "Clear it."});
  ProbedLun none{.lun = 9};
  none.refusal = MakeError(absl::StatusCode::kNotFound, {"ISCSI_NO_LUN", "LUN 9", "not a disk", "Name another."});
  probe.luns = {blank, silent, none};
  view.probe = probe;
  return view;
}

TEST_CASE("for people: session, a table of all LUNs, details, and that nothing was written") {
  const std::string text = ProbeText(View());
  INFO(text);
  for (const char* words :
       {"192.0.2.10:3260 iqn.a:b seen from here; read only, nothing was written", "note: target on the same host",
        "  portal          192.0.2.10:3260", "  command window  512", "300 LUNs reported, the first 3 told",
        "LUN 1, used", "1073741824 B, 262144 blocks of 4096 B, physical 8192 B", "naa.6001", "t10.IET", "beaf11",
        "largest 8MiB, best not told", "largest 1MiB, ranges 32, granularity 4KiB, unmapped blocks read as zeroes",
        "may be written", "REFUSED TARGET_HAS_DATA: the device is not blank", "REFUSED ISCSI_NO_LUN: not a disk",
        "[TARGET_HAS_DATA] Clear it."}) {
    CHECK_THAT(text, Contains(words));
  }
  CHECK_THAT(text, Catch::Matches(
                       "[^]*\\n +\\*1  IET VIRTUAL-DISK 0001 +1GiB +4096  allowed +on +no +yes +8MiB  blank\\n[^]*"));
  CHECK_THAT(text, Catch::Matches("[^]*\\n +2  X +1MiB +512  not told +not told +not told +no +not told  REFUSED[^]*"));
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("as JSON: what is not told is null") {
  const auto json = nlohmann::json::parse(JsonProbe(View()));
  CHECK(json["event"] == "probe");
  CHECK(json["read_only"] == true);
  CHECK(json["notes"][0] == "target on the same host");
  CHECK(json["session"]["command window"] == "512");
  CHECK(json["luns_reported"] == 300);
  const auto& blank = json["luns"][0];
  CHECK(blank["used"] == true);
  CHECK(blank["writable"] == true);
  CHECK(blank["refusal"].is_null());
  CHECK(blank["write_cache"] == true);
  CHECK(blank["fua"] == false);
  CHECK(blank["max_unmap"] == 1 << 20);
  CHECK(blank["optimal_transfer"].is_null());
  const auto& silent = json["luns"][1];
  CHECK(silent["write_protected"].is_null());
  CHECK(silent["max_transfer"].is_null());
  CHECK(silent["refusal"]["code"] == "TARGET_HAS_DATA");
  CHECK(json["luns"][2]["disk"] == false);
}

TEST_CASE("a target without LUNs is told as `plan` tells it") {
  TargetView view{.agent = "local-1", .host = "here", .target = "disk", .place = "/dev/sdz"};
  view.identity = "naa.1";
  view.size = 4096;
  view.found = "blank";
  view.verdict = "blank, or it carries muster's label";
  std::string text = ProbeText(view);
  for (const char* words : {"/dev/sdz seen from here; read only", "naa.1", "4096 B", "blank, or it carries"})
    CHECK_THAT(text, Contains(words));
  view.refusal =
      MakeError(absl::StatusCode::kFailedPrecondition, {"TARGET_MOUNTED", "/dev/sdz", "mounted", "Unmount it."});
  CHECK_THAT(ProbeText(view), Contains("REFUSED /dev/sdz: mounted [TARGET_MOUNTED] Unmount it."));
  const auto json = nlohmann::json::parse(JsonProbe(view));
  CHECK(json["luns"].is_null());
  CHECK(json["refusal"]["code"] == "TARGET_MOUNTED");
}

}  // namespace
}  // namespace muster
