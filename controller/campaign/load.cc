#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/status.h"
#include "controller/campaign/binder.h"
#include "controller/campaign/campaign.h"
#include "controller/campaign/problems.h"
#include "controller/campaign/yaml_tree.h"
#include "fmt/format.h"

namespace muster {
namespace {

absl::Status Unreadable(const std::string& path, std::string message) {
  return MakeError(absl::StatusCode::kNotFound, {.code = "CAMPAIGN_UNREADABLE",
                                                 .place = path,
                                                 .message = std::move(message),
                                                 .next = "Name a readable campaign file."});
}

class OpenFile {
 public:
  // O_NONBLOCK: opening a pipe nobody writes to must not wait.
  explicit OpenFile(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~OpenFile() {
    if (fd_ >= 0) close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

absl::StatusOr<std::string> ReadCampaignFile(const std::string& path) {
  const OpenFile file(path);
  if (file.fd() < 0) return Unreadable(path, fmt::format("cannot be opened: {}", strerrordesc_np(errno)));
  struct stat info = {};
  if (fstat(file.fd(), &info) != 0) return Unreadable(path, strerrordesc_np(errno));
  if (!S_ISREG(info.st_mode)) return Unreadable(path, "is not a regular file");
  // One byte beyond the limit is enough to tell that it is passed.
  std::string text(kYamlMaxBytes + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(file.fd(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Unreadable(path, fmt::format("cannot be read: {}", strerrordesc_np(errno)));
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return text;
}

// "steps[0].workload.size" -> "steps[0].workload" -> "steps[0]" -> "steps" -> "".
std::string_view Enclosing(std::string_view path) {
  const size_t end = path.find_last_of(".[");
  return end == std::string_view::npos ? std::string_view() : path.substr(0, end);
}

SourcePosition Find(const std::map<std::string, SourcePosition, std::less<>>& positions, std::string_view path) {
  for (;; path = Enclosing(path)) {  // ends: the path gets shorter each time
    if (const auto it = positions.find(path); it != positions.end()) return it->second;
    if (path.empty()) return {1, 1};
  }
}

}  // namespace

SourcePosition LoadedCampaign::At(std::string_view field_path) const {
  return Find(positions, field_path);
}
SourcePosition LoadedCampaign::KeyAt(std::string_view field_path) const {
  return Find(keys, field_path);
}

std::string LoadedCampaign::Place(std::string_view field_path) const {
  const SourcePosition at = At(field_path);
  return fmt::format("{}:{}:{}", file, at.line, at.column);
}

std::map<std::string, std::string> LoadedCampaign::TargetPlaces() const {
  std::map<std::string, std::string> places;
  for (const auto& [name, target] : message.targets()) {
    const SourcePosition at = KeyAt("targets." + name);
    places[name] = fmt::format("{}:{}:{}", file, at.line, at.column);
  }
  return places;
}

absl::StatusOr<LoadedCampaign> LoadCampaign(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadCampaignFile(path));
  return LoadCampaignText(path, text);
}

absl::StatusOr<LoadedCampaign> LoadCampaignText(const std::string& file, const std::string& text) {
  Problems problems(file);
  LoadedCampaign campaign;
  campaign.file = file;
  campaign.text = text;
  const std::optional<YamlNode> root = ParseYaml(text, problems);
  // What a broken file lacks is mostly what could not be read of it: only whole trees are bound.
  if (root.has_value() && !problems.full()) BindCampaign(*root, campaign, problems);
  if (!problems.empty()) return problems.ToStatus();
  return campaign;
}

}  // namespace muster
