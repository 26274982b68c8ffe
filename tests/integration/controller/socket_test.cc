#include <sys/stat.h>

#include <fstream>

#include "tests/integration/controller/fixture.h"

namespace muster::test {
namespace {

std::string ListenCode(const std::string& path) {
  const auto server = ControllerServer::Listen({.listen = {.socket_path = path}});
  return server.ok() ? "" : GetErrorInfo(server.status()).code;
}

TEST_CASE("the socket is made in a directory of this user alone") {
  TempDir dir("muster-sock");
  const std::string mine = dir.path() + "/mine";
  CHECK(ListenCode(mine + "/a.sock").empty());
  struct stat st = {};
  REQUIRE(stat(mine.c_str(), &st) == 0);
  CHECK((st.st_mode & 07777) == 0700);

  const std::string open = dir.path() + "/open";
  REQUIRE(mkdir(open.c_str(), 0755) == 0);
  REQUIRE(chmod(open.c_str(), 0755) == 0);
  CHECK(ListenCode(open + "/a.sock") == "SOCKET_DIRECTORY");
  REQUIRE(symlink(mine.c_str(), (dir.path() + "/link").c_str()) == 0);
  CHECK(ListenCode(dir.path() + "/link/a.sock") == "SOCKET_DIRECTORY");
  CHECK(ListenCode(dir.path() + "/not/there/a.sock") == "SOCKET_DIRECTORY");
  CHECK(ListenCode(mine + "/" + std::string(120, 'x')) == "SOCKET_PATH_TOO_LONG");
}

TEST_CASE("a socket in use is refused, one left behind is taken over") {
  TempDir dir("muster-sock");
  const std::string path = dir.path() + "/s/a.sock";
  {
    const auto first = ControllerServer::Listen({.listen = {.socket_path = path}});
    REQUIRE(first.ok());
    CHECK(ListenCode(path) == "SOCKET_IN_USE");
    struct stat st = {};
    REQUIRE(stat(path.c_str(), &st) == 0);
    CHECK((st.st_mode & 0777) == 0600);
  }
  CHECK(ListenCode(path).empty());
  std::ofstream(path) << "not a socket";
  CHECK(ListenCode(path) == "SOCKET_IN_USE");
}

TEST_CASE("waiting for agents ends by count, cancel or deadline") {
  Fixture f;
  f.Add();
  CHECK(f.server->WaitForAgents(1, kPatience, f.cancel).ok());
  const absl::Status late = f.server->WaitForAgents(3, 20 * kMillisecond, f.cancel);
  CHECK(f.Code(late) == "AGENTS_MISSING");
  CHECK_THAT(FormatError(late), Catch::Contains("1 of 3") && Catch::Contains("agent-0 on host-a"));
  f.cancel = 1;
  CHECK(f.Code(f.server->WaitForAgents(3, kPatience, f.cancel)) == "CANCELLED");
}

}  // namespace
}  // namespace muster::test
