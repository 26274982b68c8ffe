#include "common/base/log_file.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "common/base/logging.h"
#include "common/base/status.h"

namespace muster {
namespace {

std::vector<std::string> LinesOf(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

struct Dir {
  Dir() {
    std::string name = (std::filesystem::temp_directory_path() / "muster-log-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Dir() {
    InitLogging("test", LogLevel::kOff);
    std::filesystem::remove_all(path);
  }
  std::string path;
};

TEST_CASE("log lines go to the file, with date, time zone and level, and below it nothing") {
  Dir dir;
  InitLogging("prog", LogLevel::kInfo);
  REQUIRE(LogToFile(dir.path + "/log").ok());
  Log(LogLevel::kInfo, "run={} one", 7);
  Log(LogLevel::kDebug, "not shown");
  Log(LogLevel::kWarning, "two");
  const auto lines = LinesOf(dir.path + "/log");
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[0], Catch::Matches(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z prog info run=7 one)"));
  CHECK(lines[1].ends_with(" prog warning two"));
}

TEST_CASE("a file that was moved away is followed by a new one, and no line is lost while both are written") {
  Dir dir;
  const std::string path = dir.path + "/log";
  InitLogging("prog", LogLevel::kInfo);
  REQUIRE(LogToFile(path).ok());
  constexpr int kLines = 2'000;
  std::thread writer([] {
    for (int i = 0; i < kLines; ++i) Log(LogLevel::kInfo, "line {}", i);
  });
  for (int i = 0; i < 5; ++i) {
    std::filesystem::rename(path, path + "." + std::to_string(i));
    CHECK(ReopenLogFile().ok());
  }
  writer.join();
  size_t found = LinesOf(path).size();
  for (int i = 0; i < 5; ++i) found += LinesOf(path + "." + std::to_string(i)).size();
  CHECK(found == kLines);
}

TEST_CASE("a file that cannot be opened is a typed error and leaves the old one in use") {
  Dir dir;
  InitLogging("prog", LogLevel::kInfo);
  CHECK(GetErrorInfo(LogToFile(dir.path + "/none/log")).code == "LOG_FILE");
  std::filesystem::create_directory(dir.path + "/sub");
  REQUIRE(LogToFile(dir.path + "/sub/log").ok());
  std::filesystem::rename(dir.path + "/sub", dir.path + "/moved");
  CHECK(GetErrorInfo(ReopenLogFile()).code == "LOG_FILE");
  Log(LogLevel::kInfo, "still here");
  CHECK(LinesOf(dir.path + "/moved/log").size() == 1);
}

}  // namespace
}  // namespace muster
