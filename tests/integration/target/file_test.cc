// File targets on real file systems.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "common/base/status.h"
#include "tests/integration/target/rig.h"

namespace muster::test {
namespace {

namespace fs = std::filesystem;

AttachRequest FileRequest(const std::string& dir, std::vector<ObjectSpec> objects, bool direct = true,
                          bool keep = false) {
  AttachRequest request;
  request.run = "test-run";
  request.target = {"scratch", FileTarget{.dir = dir, .direct = direct, .keep = keep}};
  request.objects = std::move(objects);
  request.writes = true;
  request.guard = true;
  return request;
}

std::string EvidenceOf(const AttachedTarget& attached, const std::string& name) {
  for (const auto& [key, value] : attached.Evidence()) {
    if (key == name) return value;
  }
  return "";
}

ino_t InodeOf(const std::string& path) {
  struct stat st {};
  REQUIRE(stat(path.c_str(), &st) == 0);
  return st.st_ino;
}

TEST_CASE("files are laid out whole, opened as asked and removed at the end") {
  RequireRootOrSkip();
  const auto [kind, size] = GENERATE(std::pair{FsKind::kExt4, 64 * kMiB}, std::pair{FsKind::kXfs, 320 * kMiB},
                                     std::pair{FsKind::kTmpfs, 64 * kMiB});
  INFO(std::string(FsName(kind)));
  const MountedFs mounted(kind, size);
  const std::string dir = mounted.path() + "/bench";
  const AllowList allow{{mounted.path()}, {}};
  const AttachRequest request = FileRequest(dir, {{0, "data.0", kMiB}, {1, "data.1", 2 * kMiB}});
  const TargetInspection inspection = Inspect(request.target, request.objects, true, allow);
  CHECK(inspection.writable);
  CHECK(inspection.found == "new directory");
  CHECK_FALSE(fs::exists(dir));
  {
    const auto attached = Attach(request, allow);
    REQUIRE(CodeOf(attached) == "OK");
    REQUIRE((*attached)->objects().size() == 2);
    for (size_t i = 0; i < 2; ++i) {
      const BackendObject& object = (*attached)->objects()[i];
      struct stat st {};
      REQUIRE(fstat(object.fd, &st) == 0);
      CHECK(st.st_size == static_cast<off_t>(request.objects[i].size));
      CHECK(static_cast<uint64_t>(st.st_blocks) * 512 >= request.objects[i].size);
      CHECK(object.base == 0);
      CHECK_FALSE(object.is_block_device);
      CHECK((fcntl(object.fd, F_GETFL) & (O_DIRECT | O_ACCMODE)) == (O_DIRECT | O_RDWR));
      CHECK((fcntl(object.fd, F_GETFL) & O_NONBLOCK) == 0);
    }
    CHECK(EvidenceOf(**attached, "file system") == FsName(kind));
    CHECK_THAT(EvidenceOf(**attached, "O_DIRECT"),
               kind == FsKind::kTmpfs ? Catch::StartsWith("not effective") : Catch::StartsWith("effective"));
    // A second run, and the agents of this one.
    CHECK(CodeOf(Attach(request, allow)) == "TARGET_HELD");
    AttachRequest follower = request;
    follower.guard = false;
    follower.generation = (*attached)->generation();
    const auto other = Attach(follower, allow);
    REQUIRE(CodeOf(other) == "OK");
    CHECK((*other)->objects().size() == 2);
    CHECK((*other)->Detach().ok());
    CHECK(fs::exists(dir + "/muster-data/data.0"));
    follower.generation += 1;
    CHECK(CodeOf(Attach(follower, allow)) == "LABEL_CHANGED");
    CHECK((*attached)->Detach().ok());
    CHECK((*attached)->Detach().ok());
  }
  CHECK_FALSE(fs::exists(dir));
}

TEST_CASE("what O_DIRECT leaves out of the page cache, buffered reads leave in it") {
  RequireRootOrSkip();
  const MountedFs mounted(FsKind::kExt4, 64 * kMiB);
  const AllowList allow{{mounted.path()}, {}};
  AttachRequest request = FileRequest(mounted.path() + "/b", {{0, "data", kMiB}}, false);
  const auto attached = Attach(request, allow);
  REQUIRE(CodeOf(attached) == "OK");
  CHECK((fcntl((*attached)->objects()[0].fd, F_GETFL) & O_DIRECT) == 0);
  CHECK((*attached)->objects()[0].logical_block == 1);
  CHECK(EvidenceOf(**attached, "O_DIRECT") == "not asked");
}

TEST_CASE("a block that O_DIRECT cannot do is refused and nothing stays behind") {
  RequireRootOrSkip();
  const MountedFs mounted(FsKind::kExt4, 64 * kMiB);
  const AllowList allow{{mounted.path()}, {}};
  AttachRequest request = FileRequest(mounted.path() + "/b", {{0, "data", kMiB}});
  request.min_block = 100;
  CHECK(CodeOf(Attach(request, allow)) == "BLOCK_ALIGNMENT");
  CHECK_FALSE(fs::exists(mounted.path() + "/b"));
  request.target = FileRequest(mounted.path() + "/b", {}, false).target;
  CHECK(CodeOf(Attach(request, allow)) == "OK");
}

TEST_CASE("a full disk is told before anything is made, with both numbers") {
  RequireRootOrSkip();
  const FsKind kind = GENERATE(FsKind::kTmpfs, FsKind::kExt4);
  const MountedFs mounted(kind, 32 * kMiB);
  const AllowList allow{{mounted.path()}, {}};
  const std::string dir = mounted.path() + "/b";
  for (const uint64_t size : {32 * kMiB, 1024 * kMiB, uint64_t{1} << 62}) {
    const AttachRequest request = FileRequest(
        dir, {{0, "data.0", size}, {1, "data.1", size}, {2, "data.2", size}, {3, "data.3", size}, {4, "data.4", size}});
    INFO(size);
    const TargetInspection inspection = Inspect(request.target, request.objects, true, allow);
    CHECK(CodeOf(inspection.refusal) == "NO_SPACE");
    CHECK_FALSE(inspection.writable);
    const auto attached = Attach(request, allow);
    CHECK(CodeOf(attached) == "NO_SPACE");
    if (size == 32 * kMiB)
      CHECK_THAT(std::string(attached.status().message()), Catch::Contains(std::to_string(5 * size)));
    CHECK_FALSE(fs::exists(dir));
  }
  // What fits is still accepted.
  CHECK(CodeOf(Attach(FileRequest(dir, {{0, "data", 8 * kMiB}}), allow)) == "OK");
}

TEST_CASE("where nothing can be written, looking says so before a run does") {
  RequireRootOrSkip();
  const MountedFs mounted(FsKind::kTmpfs, 32 * kMiB);
  const AllowList allow{{mounted.path()}, {}};
  const AttachRequest request = FileRequest(mounted.path() + "/b", {{0, "data", kMiB}});
  CHECK(Inspect(request.target, request.objects, true, allow).writable);
  REQUIRE(mount(nullptr, mounted.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0);
  const TargetInspection inspection = Inspect(request.target, request.objects, true, allow);
  CHECK_FALSE(inspection.writable);
  CHECK(CodeOf(inspection.refusal) == "SYS_EROFS");
  CHECK(CodeOf(Attach(request, allow)) == "SYS_EROFS");
  CHECK(Inspect(request.target, request.objects, false, allow).would_write == "nothing");
}

TEST_CASE("a kept file of the right size is used again, one of another size is made anew") {
  const TempDir root("muster-files");
  const AllowList allow{{root.path()}, {}};
  const std::string dir = root.path() + "/b";
  const std::string file = dir + "/muster-data/data";
  const auto run = [&](uint64_t size, bool keep) {
    const auto attached = Attach(FileRequest(dir, {{0, "data", size}}, false, keep), allow);
    REQUIRE(CodeOf(attached) == "OK");
    const ino_t inode = InodeOf(file);
    CHECK(fs::file_size(file) == size);
    CHECK((*attached)->Detach().ok());
    return inode;
  };
  run(kMiB, true);
  { std::ofstream(file, std::ios::in) << "filled"; }
  const ino_t inode = run(kMiB, true);
  std::string text(6, ' ');
  std::ifstream(file).read(text.data(), 6);
  CHECK(text == "filled");
  CHECK(InodeOf(file) == inode);
  run(2 * kMiB, true);
  std::ifstream(file).read(text.data(), 6);
  CHECK(text == std::string(6, '\0'));
  CHECK(fs::file_size(file) == 2 * kMiB);
  run(2 * kMiB, false);
  CHECK(fs::is_empty(root.path()));
}

TEST_CASE("reading alone makes nothing and needs the files") {
  const TempDir root("muster-files");
  const AllowList allow{{root.path()}, {}};
  const std::string dir = root.path() + "/b";
  AttachRequest reader = FileRequest(dir, {{0, "data", kMiB}}, false);
  reader.writes = false;
  CHECK(CodeOf(Attach(reader, allow)) == "FILE_MISSING");
  CHECK(CodeOf(Inspect(reader.target, reader.objects, false, allow).refusal) == "FILE_MISSING");
  CHECK(fs::is_empty(root.path()));
  REQUIRE((*Attach(FileRequest(dir, {{0, "data", kMiB}}, false, true), allow))->Detach().ok());
  {
    const auto attached = Attach(reader, allow);
    REQUIRE(CodeOf(attached) == "OK");
    CHECK((fcntl((*attached)->objects()[0].fd, F_GETFL) & O_ACCMODE) == O_RDONLY);
    CHECK(CodeOf(Attach(reader, allow)) == "OK");
    CHECK(CodeOf(Attach(FileRequest(dir, {{0, "data", kMiB}}, false), allow)) == "TARGET_HELD");
    CHECK((*attached)->Detach().ok());
  }
  CHECK(fs::exists(dir + "/muster-data/data"));
  reader.objects[0].size = kMiB + 1;
  CHECK(CodeOf(Attach(reader, allow)) == "TARGET_TOO_SMALL");
}

TEST_CASE("paths that lead elsewhere are refused and nothing is made") {
  const TempDir root("muster-files");
  const TempDir outside("muster-outside");
  const AllowList allow{{root.path()}, {}};
  fs::create_symlink(outside.path(), root.path() + "/link");
  const auto refuses = [&](const std::string& dir, const std::string& code) {
    const AttachRequest request = FileRequest(dir, {{0, "data", kMiB}});
    INFO(dir);
    CHECK(CodeOf(Attach(request, allow)) == code);
    const TargetInspection inspection = Inspect(request.target, request.objects, true, allow);
    CHECK(CodeOf(inspection.refusal) == code);
    CHECK_FALSE(inspection.writable);
    CHECK_FALSE(GetErrorInfo(inspection.refusal).next.empty());
  };
  refuses(root.path() + "/link", "DIR_SYMLINK");
  refuses(root.path() + "/link/deeper", "DIR_SYMLINK");
  refuses(root.path() + "/../" + fs::path(outside.path()).filename().string(), "PATH_INVALID");
  refuses(outside.path(), "NOT_ALLOWED");
  refuses(root.path() + "/no/such", "DIR_PARENT_MISSING");
  fs::create_directories(root.path() + "/taken/muster-data");
  refuses(root.path() + "/taken", "DIR_NOT_OURS");
  const AttachRequest evil = FileRequest(root.path() + "/b", {{0, "../escape", kMiB}});
  CHECK(CodeOf(Attach(evil, allow)) == "FILE_NAME");
  CHECK(fs::is_empty(outside.path()));
  CHECK_FALSE(fs::exists(root.path() + "/b"));
}

TEST_CASE("objects out of order or of one name are refused") {
  const TempDir root("muster-files");
  const AllowList allow{{root.path()}, {}};
  CHECK(CodeOf(Attach(FileRequest(root.path() + "/b", {{1, "data", kMiB}}), allow)) == "OBJECTS_INVALID");
  CHECK(CodeOf(Attach(FileRequest(root.path() + "/b", {{0, "data", kMiB}, {1, "data", kMiB}}), allow)) ==
        "OBJECTS_INVALID");
  CHECK(fs::is_empty(root.path()));
}

TEST_CASE("a null target has objects without descriptors") {
  AttachRequest request;
  request.target = {"cal", NullTarget{}};
  request.objects = {{0, "", 140'000'000'000}};
  const auto attached = Attach(request, {});
  REQUIRE(CodeOf(attached) == "OK");
  REQUIRE((*attached)->objects().size() == 1);
  CHECK((*attached)->objects()[0].fd == -1);
  CHECK((*attached)->objects()[0].size == 140'000'000'000);
  CHECK(Inspect(request.target, request.objects, true, {}).writable);
  request.target = {"cal", NullTarget{.size = 4096}};
  CHECK(CodeOf(Attach(request, {})) == "TARGET_TOO_SMALL");
}

}  // namespace
}  // namespace muster::test
