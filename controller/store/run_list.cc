#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "common/base/status.h"
#include "controller/store/run_store.h"

namespace muster {
namespace {

constexpr size_t kNear = 3;   // ids proposed
constexpr size_t kShown = 8;  // ids listed when a prefix fits several

bool Exists(const std::string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0;
}

std::vector<std::string> RunIds(const std::string& runs_dir) {
  std::vector<std::string> ids;
  std::error_code error;
  std::filesystem::directory_iterator at(runs_dir, error);
  const std::filesystem::directory_iterator end;
  while (!error && at != end) {
    const std::string id = at->path().filename().string();
    if (Exists(fmt::format("{}/{}/run.db", runs_dir, id))) ids.push_back(id);
    at.increment(error);
  }
  std::sort(ids.begin(), ids.end(), std::greater<>());  // ids begin with their time
  return ids;
}

// Levenshtein distance; ids are short.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

absl::Status Unknown(const std::string& runs_dir, const std::string& name, std::vector<std::string> ids) {
  std::string next = "There are no runs here.";
  if (!ids.empty()) {
    auto rank = [&](const std::string& id) {
      // Part of an id (a campaign's name, say) is nearer than a mistyped one.
      return id.find(name) != std::string::npos ? 0 : Distance(name, id.substr(0, name.size())) + 1;
    };
    std::stable_sort(ids.begin(), ids.end(),
                     [&](const std::string& a, const std::string& b) { return rank(a) < rank(b); });
    ids.resize(std::min(ids.size(), kNear));
    next = fmt::format("Near are: {}.", fmt::join(ids, ", "));
  }
  return MakeError(absl::StatusCode::kNotFound,
                   {.code = "RUN_UNKNOWN",
                    .place = runs_dir,
                    .message = name == "last" ? "there is no last run" : fmt::format("there is no run \"{}\"", name),
                    .next = next});
}

RunSummary Summarize(const std::string& runs_dir, const std::string& id) {
  const std::string path = runs_dir + "/" + id + "/run.db";
  auto damaged = [&](const absl::Status& status) {
    return RunSummary{
        .id = id, .path = path, .campaign_name = "", .outcome = "damaged", .message = FormatError(status)};
  };
  auto reader = RunReader::Open(path);
  if (!reader.ok()) return damaged(reader.status());
  auto summary = (*reader)->Summary();
  if (!summary.ok()) return damaged(summary.status());
  return *std::move(summary);
}

}  // namespace

std::string DefaultRunsDir() {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data != nullptr && data[0] == '/') return std::string(data) + "/muster/runs";
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') {
    // A service or a bare environment: the user's entry, not a shared directory.
    const passwd* const user = getpwuid(geteuid());
    home = user != nullptr && user->pw_dir != nullptr && user->pw_dir[0] == '/' ? user->pw_dir : "/var/lib";
  }
  return std::string(home) + "/.local/share/muster/runs";
}

absl::Status CheckRunsDir(const std::string& runs_dir) {
  std::error_code error;
  const std::filesystem::directory_iterator at(runs_dir, error);
  if (!error) return absl::OkStatus();
  const bool missing = error == std::errc::no_such_file_or_directory;
  return MakeError(missing ? absl::StatusCode::kNotFound : absl::StatusCode::kFailedPrecondition,
                   {.code = missing ? "RUNS_DIR_MISSING" : "RUNS_DIR_UNREADABLE",
                    .place = runs_dir,
                    .message = missing ? "there is no such directory"
                                       : fmt::format("runs cannot be looked for: {}", error.message()),
                    .next = "--runs names the directory that the runs were written to."});
}

std::vector<RunSummary> ListRuns(const std::string& runs_dir, size_t most) {
  std::vector<RunSummary> out;
  for (const std::string& id : RunIds(runs_dir)) {
    if (out.size() >= most) break;
    out.push_back(Summarize(runs_dir, id));
  }
  // Stable: damaged ones have no time of their own and go to the end, in the order of their names.
  std::stable_sort(out.begin(), out.end(), [](const RunSummary& a, const RunSummary& b) {
    return a.started_wall_micros > b.started_wall_micros;
  });
  return out;
}

absl::StatusOr<std::string> ResolveRun(const std::string& runs_dir, const std::string& name) {
  const std::vector<std::string> ids = RunIds(runs_dir);
  auto path_of = [&](const std::string& id) { return runs_dir + "/" + id + "/run.db"; };
  if (name == "last") {
    for (const RunSummary& run : ListRuns(runs_dir)) {
      if (run.outcome != "damaged") return run.path;
    }
    return Unknown(runs_dir, name, ids);
  }
  if (std::find(ids.begin(), ids.end(), name) != ids.end()) return path_of(name);
  if (name.find('/') != std::string::npos || Exists(name)) {
    struct stat st {};
    if (stat(name.c_str(), &st) == 0 && S_ISREG(st.st_mode)) return name;
    if (Exists(name + "/run.db")) return name + "/run.db";
  }
  std::vector<std::string> fits;
  for (const std::string& id : ids) {
    if (!name.empty() && id.compare(0, name.size(), name) == 0) fits.push_back(id);
  }
  if (fits.size() == 1) return path_of(fits.front());
  if (fits.empty()) return Unknown(runs_dir, name, ids);
  const size_t all = fits.size();
  fits.resize(std::min(all, kShown));
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.code = "RUN_AMBIGUOUS",
                    .place = runs_dir,
                    .message = fmt::format("{} runs begin with \"{}\": {}{}", all, name, fmt::join(fits, ", "),
                                           all > kShown ? ", ..." : ""),
                    .next = "Write more of the id."});
}

}  // namespace muster
