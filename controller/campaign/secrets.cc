#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/base/status.h"
#include "controller/campaign/campaign.h"
#include "fmt/format.h"

namespace muster {
namespace {

constexpr size_t kLongest = 1024;

absl::Status Missing(const std::string& place, std::string message, std::string next) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.code = "SECRET_MISSING", .place = place, .message = std::move(message), .next = std::move(next)});
}

absl::StatusOr<std::string> ReadSecretFile(const std::string& path, const std::string& place) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat st {};
  if (fd < 0 || fstat(fd, &st) != 0) {
    const int err = errno;
    if (fd >= 0) close(fd);
    return Missing(place, fmt::format("cannot read the secret's file {}: {}", path, strerror(err)),
                   "Check the path and who may read it.");
  }
  if (!S_ISREG(st.st_mode)) {
    close(fd);
    return Missing(place, fmt::format("{} is no regular file", path), "Name a file that holds the secret alone.");
  }
  std::string text(kLongest + 2, 0);
  const ssize_t n = read(fd, text.data(), text.size());
  close(fd);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

absl::Status ResolveSecret(Secret& secret, const std::string& place) {
  if (secret.reference.empty()) return absl::OkStatus();
  if (secret.reference.starts_with("env:")) {
    const std::string name = secret.reference.substr(4);
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) {
      return Missing(place, fmt::format("the environment has no variable {}", name), "Set and export it.");
    }
    secret.value = value;
  } else {
    MUSTER_ASSIGN_OR_RETURN(secret.value, ReadSecretFile(secret.reference.substr(5), place));
  }
  if (secret.value.empty() || secret.value.size() > kLongest) {
    return Missing(place, fmt::format("{} holds {} bytes", secret.reference, secret.value.size()),
                   fmt::format("A secret has 1 to {} bytes.", kLongest));
  }
  // A core dump of this process would hold it.
  prctl(PR_SET_DUMPABLE, 0);
  return absl::OkStatus();
}

absl::Status ResolveSecrets(const LoadedCampaign& campaign, Plan& plan) {
  for (Target& target : plan.targets) {
    auto* iscsi = std::get_if<IscsiTarget>(&target.kind);
    if (iscsi == nullptr) continue;
    const std::string chap = "targets." + target.name + ".chap";
    MUSTER_RETURN_IF_ERROR(ResolveSecret(iscsi->secret, campaign.Place(chap + ".secret")));
    MUSTER_RETURN_IF_ERROR(ResolveSecret(iscsi->mutual_secret, campaign.Place(chap + ".mutual_secret")));
  }
  return absl::OkStatus();
}

}  // namespace muster
