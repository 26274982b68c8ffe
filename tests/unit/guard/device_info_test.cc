#include "agent/guard/device_info.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "common/base/status.h"
#include "tests/support/loop_fs.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// A host of made-up files: sda with two partitions, sda2 part of an LVM volume.
class FakeHost {
 public:
  FakeHost() {
    Write("sys/devices/sda/dev", "8:0\n");
    Write("sys/devices/sda/diskseq", "17\n");
    Write("sys/devices/sda/wwid", "t10.ATA     Example  123 \n");
    Write("sys/devices/sda/device/vpd_pg80", std::string("\0\x80\0\x0c  SERIAL-9  ", 16));
    Write("sys/devices/sda/sda1/dev", "8:1\n");
    Write("sys/devices/sda/sda1/partition", "1\n");
    Write("sys/devices/sda/sda2/dev", "8:2\n");
    Write("sys/devices/sda/sda2/partition", "2\n");
    for (const char* name : {"sda", "sda1", "sda2"})
      fs::create_directories(Path("sys/class/block/") + name + "/holders");
    Link("sys/block/sda", "sys/devices/sda");
    Link("sys/dev/block/8:0", "sys/devices/sda");
    Link("sys/dev/block/8:1", "sys/devices/sda/sda1");
    Link("sys/dev/block/8:2", "sys/devices/sda/sda2");
    Write("proc/swaps", "Filename Type Size Used Priority\n");
    Mounts("");
  }
  void Mounts(const std::string& lines) {
    Write("proc/self/mountinfo", "21 1 0:5 / / rw - ext4 /dev/root rw\n" + lines);
  }
  void Write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(Path(path)).parent_path());
    std::ofstream(Path(path), std::ios::binary) << text;
  }
  HostPaths paths() const { return {Path("sys"), Path("proc"), Path("dev")}; }
  std::string Path(const std::string& path) const { return dir_.path() + "/" + path; }

 private:
  void Link(const std::string& link, const std::string& to) const {
    fs::create_directories(fs::path(Path(link)).parent_path());
    fs::create_symlink(Path(to), Path(link));
  }
  test::TempDir dir_{"muster-host"};
};

std::string CodeOf(const absl::Status& status) {
  return GetErrorInfo(status).code;
}

TEST_CASE("a disk's family is its partitions, a partition's is its disk") {
  const FakeHost host;
  const DeviceFamily disk = FindFamily(makedev(8, 0), host.paths());
  CHECK(disk.name == "sda");
  CHECK(disk.whole == "sda");
  CHECK(disk.partition == 0);
  CHECK(disk.members == std::vector<std::pair<std::string, dev_t>>{
                            {"sda", makedev(8, 0)}, {"sda1", makedev(8, 1)}, {"sda2", makedev(8, 2)}});
  CHECK(DiskSequence(disk, host.paths()) == 17);
  const DeviceFamily part = FindFamily(makedev(8, 2), host.paths());
  CHECK(part.whole == "sda");
  CHECK(part.partition == 2);
  CHECK(part.members == std::vector<std::pair<std::string, dev_t>>{{"sda2", makedev(8, 2)}, {"sda", makedev(8, 0)}});
}

TEST_CASE("identities are collapsed, and a partition's carries its number") {
  const FakeHost host;
  using List = std::vector<std::pair<std::string, std::string>>;
  CHECK(Identities(FindFamily(makedev(8, 0), host.paths()), host.paths()) ==
        List{{"wwid", "t10.ATA Example 123"}, {"serial", "SERIAL-9"}});
  CHECK(Identities(FindFamily(makedev(8, 1), host.paths()), host.paths()) ==
        List{{"wwid", "t10.ATA Example 123-part1"}, {"serial", "SERIAL-9-part1"}});
}

TEST_CASE("mounts of any member count, siblings of a partition do not") {
  FakeHost host;
  const DeviceFamily disk = FindFamily(makedev(8, 0), host.paths());
  const DeviceFamily part1 = FindFamily(makedev(8, 1), host.paths());
  const DeviceFamily part2 = FindFamily(makedev(8, 2), host.paths());
  CHECK(CheckNotInUse(disk, "d", host.paths()).ok());
  host.Mounts("40 21 8:1 / /mnt/with\\040blank rw,relatime shared:1 master:2 - xfs /dev/sda1 rw\n");
  const absl::Status mounted = CheckNotInUse(disk, "/dev/sda", host.paths());
  CHECK(CodeOf(mounted) == "TARGET_MOUNTED");
  CHECK_THAT(std::string(mounted.message()), Catch::Contains("sda1 is mounted on /mnt/with blank (xfs)"));
  CHECK(CodeOf(CheckNotInUse(part1, "d", host.paths())) == "TARGET_MOUNTED");
  CHECK(CheckNotInUse(part2, "d", host.paths()).ok());
  host.Mounts("40 21 8:0 / /mnt rw - ext4 /dev/sda rw\n");
  CHECK(CodeOf(CheckNotInUse(part2, "d", host.paths())) == "TARGET_MOUNTED");
}

TEST_CASE("without a mount table nothing is taken for free") {
  const FakeHost host;
  const DeviceFamily disk = FindFamily(makedev(8, 0), host.paths());
  fs::remove(host.Path("proc/self/mountinfo"));
  CHECK(CodeOf(CheckNotInUse(disk, "d", host.paths())) == "TARGET_MOUNTED");
}

TEST_CASE("holders of any member count") {
  const FakeHost host;
  fs::create_directories(host.Path("sys/class/block/sda2/holders/dm-3"));
  const absl::Status held = CheckNotInUse(FindFamily(makedev(8, 0), host.paths()), "/dev/sda", host.paths());
  CHECK(CodeOf(held) == "TARGET_HELD");
  CHECK_THAT(std::string(held.message()), Catch::Contains("sda2 is part of dm-3"));
  CHECK(CodeOf(CheckNotInUse(FindFamily(makedev(8, 2), host.paths()), "d", host.paths())) == "TARGET_HELD");
  CHECK(CheckNotInUse(FindFamily(makedev(8, 1), host.paths()), "d", host.paths()).ok());
}

TEST_CASE("a loop device is held while its file is behind another one, unless in another part") {
  const FakeHost host;
  const auto loop = [&](int n, const std::string& file, uint64_t offset, uint64_t sectors) {
    const std::string at = fmt::format("sys/block/loop{}", n);
    host.Write(at + "/loop/backing_file", file + "\n");
    host.Write(at + "/loop/offset", fmt::format("{}\n", offset));
    host.Write(at + "/size", fmt::format("{}\n", sectors));
  };
  const auto check = [&] {
    const DeviceFamily family{.name = "loop0", .whole = "loop0", .partition = 0, .members = {{"loop0", makedev(7, 0)}}};
    return CheckNotInUse(family, "/dev/loop0", host.paths());
  };
  host.Write("image", "x");
  host.Write("other", "x");
  fs::create_hard_link(host.Path("image"), host.Path("same"));
  loop(0, host.Path("image"), 0, 2048);
  CHECK(check().ok());
  loop(1, host.Path("other"), 0, 2048);
  CHECK(check().ok());
  loop(1, host.Path("image"), 2048 * 512, 2048);  // the part behind it
  CHECK(check().ok());
  loop(1, host.Path("image"), 2047 * 512, 2048);
  CHECK(CodeOf(check()) == "TARGET_HELD");
  loop(1, host.Path("same"), 0, 2048);  // another name of the file
  CHECK(CodeOf(check()) == "TARGET_HELD");
  CHECK_THAT(std::string(check().message()), Catch::Contains("/dev/loop1"));
  loop(0, "/gone (deleted)", 0, 2048);
  loop(1, "/gone (deleted)", 0, 2048);
  CHECK(CodeOf(check()) == "TARGET_HELD");
}

TEST_CASE("escapes of /proc are undone, halves of them are left") {
  CHECK(UnescapeOctal("/a\\040b\\011c\\134d") == "/a b\tc\\d");
  CHECK(UnescapeOctal("\\04") == "\\04");
  CHECK(UnescapeOctal("x\\089") == "x\\089");
  CHECK(UnescapeOctal("") == "");
}

TEST_CASE("blanks are collapsed") {
  CHECK(CollapseBlanks("  a \t b\n") == "a b");
  CHECK(CollapseBlanks(std::string("a\0\0", 3)) == "a");
  CHECK(CollapseBlanks("   ") == "");
}

}  // namespace
}  // namespace muster
