#include "agent/guard/dir_guard.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "common/base/status.h"
#include "tests/support/loop_fs.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using Access = DirGuard::Access;

std::string CodeOf(const absl::Status& status) {
  return GetErrorInfo(status).code;
}

struct Place {
  test::TempDir root{"muster-dir"};
  std::string dir = root.path() + "/bench";
  std::string data = dir + "/muster-data";
  std::vector<std::string> allow{root.path()};

  absl::StatusOr<std::unique_ptr<DirGuard>> Open(Access access) const { return DirGuard::Open(dir, allow, access); }
  // A directory as a run with the files `names` leaves it when it is killed.
  void LeaveAsCrashed(const std::set<std::string>& names) const {
    auto guard = Open(Access::kWrite);
    REQUIRE(guard.ok());
    REQUIRE((*guard)->Claim(names).ok());
    for (const std::string& name : names) REQUIRE((*guard)->CreateFile(name).ok());
  }
};

void Touch(const std::string& path, const std::string& text = "theirs") {
  std::ofstream(path) << text;
}

std::string TextOf(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_CASE("a path must be absolute, plain and below an allowed root") {
  const Place place;
  const std::string& root = place.root.path();
  const auto code = [&](const std::string& dir) { return CodeOf(LocateDir(dir, place.allow).status()); };
  CHECK(code("bench") == "PATH_INVALID");
  CHECK(code("") == "PATH_INVALID");
  CHECK(code(root + "/../etc") == "PATH_INVALID");
  CHECK(code(root + "/a/..") == "PATH_INVALID");
  CHECK(code("/etc") == "NOT_ALLOWED");
  CHECK(code(root + "x") == "NOT_ALLOWED");
  CHECK(code("/") == "NOT_ALLOWED");
  CHECK(CodeOf(LocateDir(root, {}).status()) == "NOT_ALLOWED");
  CHECK(code(root) == "OK");
  CHECK(code(root + "//bench/./") == "OK");
}

TEST_CASE("a missing parent is named, a file in the path too") {
  const Place place;
  const auto missing = LocateDir(place.dir + "/deeper", place.allow);
  CHECK(CodeOf(missing.status()) == "DIR_PARENT_MISSING");
  CHECK_THAT(std::string(missing.status().message()), Catch::Contains("mkdir -p " + place.dir));
  Touch(place.dir);
  CHECK(CodeOf(LocateDir(place.dir, place.allow).status()) == "DIR_NOT_A_DIRECTORY");
  CHECK(CodeOf(LocateDir(place.dir + "/x", place.allow).status()) == "DIR_NOT_A_DIRECTORY");
  CHECK(CodeOf(LocateDir(place.root.path() + "/no/no", {place.root.path() + "/no"}).status()) == "DIR_PARENT_MISSING");
}

TEST_CASE("a link in the path is refused wherever it stands and wherever it leads") {
  const Place place;
  fs::create_directories(place.root.path() + "/real/inner");
  fs::create_symlink(place.root.path() + "/real", place.dir);
  CHECK(CodeOf(place.Open(Access::kWrite).status()) == "DIR_SYMLINK");
  CHECK(CodeOf(LocateDir(place.dir + "/inner", place.allow).status()) == "DIR_SYMLINK");
  CHECK(CodeOf(LocateDir(place.dir, {place.dir}).status()) == "DIR_SYMLINK");
  CHECK(CodeOf(LocateDir(place.dir + "/inner", {place.dir}).status()) == "DIR_SYMLINK");
  CHECK(fs::is_empty(place.root.path() + "/real/inner"));
}

TEST_CASE("a run makes what is missing and takes it away again") {
  const Place place;
  {
    auto guard = place.Open(Access::kWrite);
    REQUIRE(guard.ok());
    CHECK_FALSE((*guard)->dir_exists());
    REQUIRE((*guard)->Claim({"data"}).ok());
    CHECK((*guard)->mark().generation == 1);
    REQUIRE((*guard)->CreateFile("data").ok());
    CHECK(fs::exists(place.data + "/data"));
    struct stat st {};
    REQUIRE(stat(place.data.c_str(), &st) == 0);
    CHECK((st.st_mode & 0777) == 0700);
    REQUIRE((*guard)->Finish({"data"}, false).ok());
    CHECK((*guard)->Finish({"data"}, false).ok());
  }
  CHECK(fs::is_empty(place.root.path()));
}

TEST_CASE("a directory that was there stays, with what is in it") {
  const Place place;
  fs::create_directory(place.dir);
  Touch(place.dir + "/thesis.tex");
  auto guard = place.Open(Access::kWrite);
  REQUIRE(guard.ok());
  REQUIRE((*guard)->Claim({"data"}).ok());
  REQUIRE((*guard)->Finish({"data"}, false).ok());
  CHECK(TextOf(place.dir + "/thesis.tex") == "theirs");
  CHECK_FALSE(fs::exists(place.data));
}

TEST_CASE("kept files outlive other runs, until a run that does not keep them") {
  const Place place;
  const auto run = [&](uint64_t generation, const std::string& name, bool exists, bool keep) {
    auto guard = place.Open(Access::kWrite);
    REQUIRE(guard.ok());
    const auto existing = (*guard)->StatFile(name);
    REQUIRE(existing.ok());
    CHECK(existing->has_value() == exists);
    REQUIRE((*guard)->Claim({name}).ok());
    CHECK((*guard)->mark().generation == generation);
    REQUIRE((*guard)->RemoveStale({name}).ok());
    if (!exists) REQUIRE((*guard)->CreateFile(name).ok());
    REQUIRE((*guard)->Finish({name}, keep).ok());
  };
  run(1, "data", false, true);
  run(2, "other", false, false);
  CHECK(fs::exists(place.data + "/data"));
  CHECK_FALSE(fs::exists(place.data + "/other"));
  run(3, "data", true, true);
  CHECK(fs::exists(place.data + "/data"));
  run(4, "data", true, false);
  CHECK(fs::is_empty(place.root.path()));
}

TEST_CASE("after a crash the directory is recognised, and what is stale is removed") {
  const Place place;
  place.LeaveAsCrashed({"data.0", "data.1"});
  REQUIRE(fs::exists(place.data + "/data.1"));
  auto guard = place.Open(Access::kWrite);
  REQUIRE(guard.ok());
  REQUIRE((*guard)->Claim({"data.0"}).ok());
  REQUIRE((*guard)->RemoveStale({"data.0"}).ok());
  CHECK(fs::exists(place.data + "/data.0"));
  CHECK_FALSE(fs::exists(place.data + "/data.1"));
  REQUIRE((*guard)->Finish({"data.0"}, false).ok());
  CHECK(fs::is_empty(place.root.path()));
}

TEST_CASE("an unmarked muster-data is refused and untouched") {
  const Place place;
  fs::create_directories(place.data);
  CHECK(CodeOf(place.Open(Access::kWrite).status()) == "DIR_NOT_OURS");
  Touch(place.data + "/data");
  CHECK(CodeOf(place.Open(Access::kWrite).status()) == "DIR_NOT_OURS");
  Touch(place.data + "/.muster", "muster directory mark 1\n");
  CHECK(CodeOf(place.Open(Access::kWrite).status()) == "DIR_NOT_OURS");
  CHECK(TextOf(place.data + "/data") == "theirs");
}

TEST_CASE("muster-data that is a link or a file is refused") {
  const Place place;
  fs::create_directories(place.dir);
  fs::create_directories(place.root.path() + "/elsewhere");
  fs::create_symlink(place.root.path() + "/elsewhere", place.data);
  CHECK(CodeOf(place.Open(Access::kWrite).status()) == "DIR_NOT_OURS");
  fs::remove(place.data);
  Touch(place.data);
  CHECK(CodeOf(place.Open(Access::kWrite).status()) == "DIR_NOT_OURS");
  CHECK(fs::is_empty(place.root.path() + "/elsewhere"));
}

TEST_CASE("a directory others may write to is refused") {
  const Place place;
  place.LeaveAsCrashed({"data"});
  REQUIRE(chmod(place.data.c_str(), 0777) == 0);
  CHECK(CodeOf(place.Open(Access::kWrite).status()) == "DIR_NOT_OURS");
}

TEST_CASE("a directory, mark or file of another user is refused") {
  if (geteuid() != 0) return;  // only root can make one
  const Place place;
  place.LeaveAsCrashed({"data"});
  REQUIRE(chown((place.data + "/data").c_str(), 12345, 0) == 0);
  CHECK(CodeOf((*place.Open(Access::kWrite))->StatFile("data").status()) == "FILE_NOT_OURS");
  REQUIRE(chown((place.data + "/.muster").c_str(), 12345, 0) == 0);
  CHECK(CodeOf(place.Open(Access::kWrite).status()) == "DIR_NOT_OURS");
  REQUIRE(chown((place.data + "/.muster").c_str(), 0, 0) == 0);
  REQUIRE(chown(place.data.c_str(), 12345, 0) == 0);
  CHECK(CodeOf(place.Open(Access::kWrite).status()) == "DIR_NOT_OURS");
}

TEST_CASE("foreign files among our own are left alone, and the mark stays with them") {
  const Place place;
  place.LeaveAsCrashed({"data"});
  Touch(place.data + "/notes");
  {
    auto guard = place.Open(Access::kWrite);
    REQUIRE(guard.ok());
    CHECK(CodeOf((*guard)->StatFile("notes").status()) == "FILE_NOT_OURS");
    CHECK(CodeOf((*guard)->CreateFile("notes").status()) == "FILE_NOT_OURS");
    CHECK(CodeOf((*guard)->OpenFile("notes", O_RDWR).status()) == "FILE_NOT_OURS");
    CHECK(CodeOf((*guard)->RemoveFile("notes")) == "FILE_NOT_OURS");
    REQUIRE((*guard)->Claim({"data"}).ok());
    REQUIRE((*guard)->Finish({"data"}, false).ok());
  }
  CHECK(TextOf(place.data + "/notes") == "theirs");
  CHECK_FALSE(fs::exists(place.data + "/data"));
  CHECK(place.Open(Access::kWrite).ok());
}

TEST_CASE("an own name that became a link or got a second name is refused") {
  const Place place;
  place.LeaveAsCrashed({"data.0", "data.1"});
  Touch(place.root.path() + "/victim");
  fs::remove(place.data + "/data.0");
  fs::create_symlink(place.root.path() + "/victim", place.data + "/data.0");
  fs::remove(place.data + "/data.1");
  fs::create_hard_link(place.root.path() + "/victim", place.data + "/data.1");
  auto guard = place.Open(Access::kWrite);
  REQUIRE(guard.ok());
  for (const char* name : {"data.0", "data.1"}) {
    CHECK(CodeOf((*guard)->OpenFile(name, O_RDWR).status()) == "FILE_NOT_OURS");
    CHECK(CodeOf((*guard)->RemoveFile(name)) == "FILE_NOT_OURS");
  }
  CHECK(TextOf(place.root.path() + "/victim") == "theirs");
}

TEST_CASE("file names that are paths or hidden are refused") {
  const Place place;
  auto guard = place.Open(Access::kWrite);
  REQUIRE(guard.ok());
  for (const char* name : {"../x", "/etc/passwd", "a/b", ".muster", "", "..", "x y"}) {
    INFO(name);
    CHECK(CodeOf((*guard)->StatFile(name).status()) == "FILE_NAME");
    CHECK(CodeOf((*guard)->OpenFile(name, O_RDONLY).status()) == "FILE_NAME");
  }
}

TEST_CASE("one writing run at a time; readers keep writers out and each other not") {
  const Place place;
  place.LeaveAsCrashed({"data"});
  {
    const auto writer = place.Open(Access::kWrite);
    REQUIRE(writer.ok());
    CHECK(CodeOf(place.Open(Access::kWrite).status()) == "TARGET_HELD");
    CHECK(CodeOf(place.Open(Access::kRead).status()) == "TARGET_HELD");
    CHECK(CodeOf(place.Open(Access::kInspect).status()) == "TARGET_HELD");
    CHECK(place.Open(Access::kFollow).ok());
    // The lock moves to the new mark with each change.
    REQUIRE((*writer)->Claim({"data", "more"}).ok());
    CHECK(CodeOf(place.Open(Access::kWrite).status()) == "TARGET_HELD");
  }
  {
    const auto reader = place.Open(Access::kRead);
    REQUIRE(reader.ok());
    CHECK(place.Open(Access::kRead).ok());
    CHECK(place.Open(Access::kInspect).ok());
    CHECK(CodeOf(place.Open(Access::kWrite).status()) == "TARGET_HELD");
  }
  CHECK(place.Open(Access::kWrite).ok());
}

TEST_CASE("looking creates nothing") {
  const Place place;
  for (const Access access : {Access::kInspect, Access::kRead, Access::kFollow, Access::kWrite}) {
    CHECK(place.Open(access).ok());
    CHECK(fs::is_empty(place.root.path()));
  }
}

TEST_CASE("a rollback restores what was there before") {
  const Place place;
  SECTION("nothing") {
    auto guard = place.Open(Access::kWrite);
    REQUIRE(guard.ok());
    REQUIRE((*guard)->Claim({"data"}).ok());
    REQUIRE((*guard)->CreateFile("data").ok());
    (*guard)->Rollback();
    CHECK(fs::is_empty(place.root.path()));
  }
  SECTION("a kept file") {
    {
      auto guard = place.Open(Access::kWrite);
      REQUIRE(guard.ok());
      REQUIRE((*guard)->Claim({"old"}).ok());
      REQUIRE((*guard)->CreateFile("old").ok());
      REQUIRE((*guard)->Finish({"old"}, true).ok());
    }
    const std::string mark = TextOf(place.data + "/.muster");
    {
      auto guard = place.Open(Access::kWrite);
      REQUIRE(guard.ok());
      REQUIRE((*guard)->Claim({"old", "new"}).ok());
      REQUIRE((*guard)->CreateFile("new").ok());
      (*guard)->Rollback();
    }
    CHECK(fs::exists(place.data + "/old"));
    CHECK_FALSE(fs::exists(place.data + "/new"));
    CHECK(TextOf(place.data + "/.muster") == mark);
  }
}

}  // namespace
}  // namespace muster
