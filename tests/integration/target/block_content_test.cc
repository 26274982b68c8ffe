// What the write guard makes of a device's content.
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "agent/guard/block_guard.h"
#include "common/base/status.h"
#include "tests/integration/target/rig.h"

namespace muster::test {
namespace {

AttachRequest WithOverwrite(const DeviceRig& rig, const std::string& id, uint64_t size) {
  AttachRequest request = rig.Request();
  std::get<BlockTarget>(request.target.kind).overwrite = Overwrite{id, size};
  return request;
}

void MakeGpt(const std::string& device) {
  RunProgram(
      {"/bin/sh", "-c",
       "printf 'label: gpt\\nstart=2048,size=2048\\n' | /usr/sbin/sfdisk -q --no-reread --no-tell-kernel " + device});
}

TEST_CASE("a blank device is accepted, labelled, and accepted again with the next generation") {
  const DeviceRig rig;
  CHECK(rig.Look().writable);
  CHECK(rig.Look().found == "blank");
  std::string first;
  for (uint64_t generation = 1; generation <= 3; ++generation) {
    const auto attached = rig.AttachGuard();
    REQUIRE(CodeOf(attached) == "OK");
    CHECK((*attached)->generation() == generation);
    REQUIRE((*attached)->objects().size() == 1);
    const BackendObject& object = (*attached)->objects()[0];
    CHECK(object.base == kMiB);
    CHECK(object.size == rig.size() - 2 * kMiB);
    CHECK(object.logical_block == 512);
    CHECK(object.is_block_device);
    CHECK((*attached)->Detach().ok());
    CHECK((*attached)->Detach().ok());
    const std::string bytes = rig.Get(0, kLabelBytes);
    const auto label = DecodeLabel({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
    REQUIRE(label.has_value());
    CHECK(label->generation == generation);
    CHECK(label->device_size == rig.size());
    CHECK_THAT(label->created_by, Catch::StartsWith("run test-run on host "));
    if (first.empty()) first = FormatUuid(label->uuid);
    CHECK(FormatUuid(label->uuid) == first);
    // Nothing but the label was written.
    const bool rest_blank =
        rig.Get(kLabelBytes, rig.size() - kLabelBytes) == std::string(rig.size() - kLabelBytes, '\0');
    CHECK(rest_blank);
    CHECK(rig.Look().found == "muster label, generation " + std::to_string(generation));
  }
}

TEST_CASE("looking at a blank device writes nothing") {
  const DeviceRig rig;
  CHECK(rig.Look(true).writable);
  CHECK(rig.Look(false).refusal.ok());
  const bool blank = rig.All() == std::string(rig.size(), '\0');
  CHECK(blank);
}

TEST_CASE("a labelled device keeps its working set over runs") {
  const DeviceRig rig;
  REQUIRE(rig.AttachGuard().ok());
  rig.Put(kMiB, "filled");
  REQUIRE(rig.AttachGuard().ok());
  CHECK(rig.Get(kMiB, 6) == "filled");
}

TEST_CASE("file systems, swap and partition tables are named and refused") {
  const DeviceRig rig;
  SECTION("ext4") {
    RunProgram({"/usr/sbin/mkfs.ext4", "-q", "-F", "-L", "precious", rig.path()});
    rig.Refuses("TARGET_HAS_DATA", "ext4 file system \"precious\"");
  }
  SECTION("swap space") {
    RunProgram({"/usr/sbin/mkswap", rig.path()});
    rig.Refuses("TARGET_HAS_DATA", "swap area");
  }
  SECTION("MBR") {
    RunProgram({"/bin/sh", "-c",
                "echo 'start=2048,size=8192' | /usr/sbin/sfdisk -q --no-reread --no-tell-kernel " + rig.path()});
    rig.Refuses("TARGET_HAS_DATA", "MBR partition table");
  }
  SECTION("GPT") {
    MakeGpt(rig.path());
    rig.Refuses("TARGET_HAS_DATA", "GPT partition table");
  }
  SECTION("GPT whose first copy is gone") {
    MakeGpt(rig.path());
    rig.Put(0, std::string(kMiB, '\0'));
    rig.Refuses("TARGET_HAS_DATA", "GPT partition table");
  }
  SECTION("two signatures at once") {
    RunProgram({"/usr/sbin/mkfs.ext4", "-q", "-F", rig.path()});
    const std::string swap_page = [&] {
      const DeviceRig other;
      RunProgram({"/usr/sbin/mkswap", other.path()});
      return other.Get(4086, 10);
    }();
    rig.Put(4086, swap_page);
    rig.Refuses("TARGET_HAS_DATA");
  }
}

TEST_CASE("a file system of 4096-byte sectors is seen too") {
  const DeviceRig rig(24 * kMiB, 4096);
  MakeGpt(rig.path());
  rig.Refuses("TARGET_HAS_DATA", "partition table");
}

TEST_CASE("bytes that nobody knows are not blank") {
  const DeviceRig rig;
  for (const uint64_t at : {uint64_t{0}, uint64_t{700'001}, 8 * kMiB - 1, rig.size() - 8 * kMiB, rig.size() - 1}) {
    INFO(at);
    rig.Put(at, "x");
    rig.Refuses("TARGET_HAS_DATA", "unknown data at offset " + std::to_string(at));
    rig.Put(at, std::string(1, '\0'));
  }
  CHECK(rig.Look().writable);
}

TEST_CASE("a label that is damaged, of another size, or not alone is refused") {
  const DeviceRig rig;
  REQUIRE(rig.AttachGuard().ok());
  SECTION("damaged") {
    rig.Put(100, "x");
    rig.Refuses("TARGET_HAS_DATA", "unknown data at offset 0");
  }
  SECTION("copied to a device of another size") {
    const DeviceRig larger(32 * kMiB);
    larger.Put(0, rig.Get(0, kLabelBytes));
    larger.Refuses("TARGET_HAS_DATA", "muster label of a device of " + std::to_string(rig.size()) + " bytes");
  }
  SECTION("with something else beside it at the start") {
    rig.Put(64 * 1024, "x");
    rig.Refuses("TARGET_HAS_DATA", "something else wrote at offset 65536");
  }
  SECTION("with something else at the end") {
    rig.Put(rig.size() - 4096, "x");
    rig.Refuses("TARGET_HAS_DATA", "something else wrote at offset " + std::to_string(rig.size() - 4096));
  }
}

TEST_CASE("overwriting needs identity and size, both right") {
  const DeviceRig rig;
  RunProgram({"/usr/sbin/mkfs.ext4", "-q", "-F", rig.path()});
  rig.Put(rig.size() - 100, "tail");
  rig.Put(2 * kMiB, "middle");
  SECTION("wrong identity") {
    rig.Refuses(WithOverwrite(rig, "naa.5000c500a1b2c3d4", rig.size()), rig.Allow(), "TARGET_WRONG_ID", rig.image());
    rig.Refuses(WithOverwrite(rig, "", rig.size()), rig.Allow(), "TARGET_WRONG_ID");
    rig.Refuses(WithOverwrite(rig, rig.path(), rig.size()), rig.Allow(), "TARGET_WRONG_ID");
  }
  SECTION("wrong size") {
    rig.Refuses(WithOverwrite(rig, rig.image(), rig.size() - 512), rig.Allow(), "TARGET_WRONG_SIZE",
                std::to_string(rig.size() - 512));
    rig.Refuses(WithOverwrite(rig, rig.image(), 0), rig.Allow(), "TARGET_WRONG_SIZE");
  }
  SECTION("right") {
    const AttachRequest request = WithOverwrite(rig, rig.image(), rig.size());
    const TargetInspection inspection = rig.Look(request);
    CHECK(inspection.writable);
    CHECK_THAT(inspection.would_write, Catch::Contains("it now holds: ext4"));
    const auto attached = Attach(request, rig.Allow());
    REQUIRE(CodeOf(attached) == "OK");
    CHECK((*attached)->generation() == 1);
    REQUIRE((*attached)->Detach().ok());
    const bool head_clear = rig.Get(kLabelBytes, kMiB - kLabelBytes) == std::string(kMiB - kLabelBytes, '\0');
    CHECK(head_clear);
    const bool tail_clear = rig.Get(rig.size() - kMiB, kMiB) == std::string(kMiB, '\0');
    CHECK(tail_clear);
    CHECK(rig.Look(request).found == "muster label, generation 1");
    // Now it is ours: the next run needs no permission.
    const auto again = rig.AttachGuard();
    REQUIRE(CodeOf(again) == "OK");
    CHECK((*again)->generation() == 2);
  }
}

TEST_CASE("a signature outside the reserved ends is wiped as well") {
  const DeviceRig rig;
  // VMFS volume member: magic 0d d0 01 c0 at 1 MiB (libblkid superblocks/vmfs.c).
  rig.Put(kMiB, std::string("\x0d\xd0\x01\xc0", 4) + std::string(1024, '\x01'));
  rig.Refuses("TARGET_HAS_DATA", "VMFS_volume_member");
  const auto attached = Attach(WithOverwrite(rig, rig.image(), rig.size()), rig.Allow());
  REQUIRE(CodeOf(attached) == "OK");
  CHECK(rig.Get(kMiB, 4) == std::string(4, '\0'));
}

TEST_CASE("a campaign that names a device refuses another one in its place, blank or not") {
  const DeviceRig rig;
  rig.Refuses(WithOverwrite(rig, "naa.5000c500a1b2c3d4", rig.size()), rig.Allow(), "TARGET_WRONG_ID");
  CHECK(rig.Look(WithOverwrite(rig, rig.image(), rig.size())).writable);
}

TEST_CASE("what changes between check and claim is seen before the first write") {
  DeviceRig rig;
  BlockGuardRequest guard;
  guard.target.device = rig.path();
  guard.allow_devices = {rig.path()};
  guard.needed = 4 * kMiB;
  guard.created_by = "test";
  BlockFindings seen;
  REQUIRE(CheckBlockDevice(guard, seen).ok());
  SECTION("content at the start") {
    rig.Put(512, "EFI PART");
    const std::string before = rig.All();
    CHECK(CodeOf(ClaimBlockDevice(guard, seen)) == "TARGET_HAS_DATA");
    const bool unchanged = rig.All() == before;
    CHECK(unchanged);
  }
  SECTION("one byte at the end") {
    rig.Put(rig.size() - 1, "x");
    CHECK(CodeOf(ClaimBlockDevice(guard, seen)) == "TARGET_HAS_DATA");
    CHECK(rig.Get(0, 16) == std::string(16, '\0'));
  }
  SECTION("a file system that was mounted") {
    RunProgram({"/usr/sbin/mkfs.ext4", "-q", "-F", rig.path()});
    const Mount mount(rig.path());
    const std::string code = CodeOf(ClaimBlockDevice(guard, seen));
    CHECK((code == "TARGET_HELD" || code == "TARGET_MOUNTED"));
  }
  SECTION("another device under the same name") {
    rig.Replace();
    if (rig.path() != guard.target.device) {
      WARN("the kernel gave the new loop device another number; not covered this time");
      return;
    }
    CHECK(CodeOf(ClaimBlockDevice(guard, seen)) == "TARGET_CHANGED");
    const bool blank = rig.All() == std::string(rig.size(), '\0');
    CHECK(blank);
  }
  SECTION("nothing") {
    const auto claim = ClaimBlockDevice(guard, seen);
    REQUIRE(CodeOf(claim) == "OK");
    CHECK(claim->label().generation == 1);
  }
}

}  // namespace
}  // namespace muster::test
