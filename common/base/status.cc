#include "common/base/status.h"

#include <cstring>
#include <optional>

#include "absl/strings/cord.h"

namespace muster {
namespace {

constexpr char kPayload[] = "muster.error";
// Fields are joined by the unit separator, which no message contains.
constexpr char kSeparator = '\x1f';

std::string Render(const ErrorInfo& info) {
  std::string text;
  if (!info.place.empty()) text += info.place + ": ";
  text += info.message;
  if (!info.code.empty()) text += " [" + info.code + "]";
  if (!info.next.empty()) text += " " + info.next;
  return text;
}

absl::StatusCode KindOf(int err) {
  switch (err) {
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case EACCES:
    case EPERM:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return absl::StatusCode::kResourceExhausted;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case EBUSY:
      return absl::StatusCode::kFailedPrecondition;
    case EINVAL:
      return absl::StatusCode::kInvalidArgument;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): callers build it in place and move it
absl::Status MakeError(absl::StatusCode kind, ErrorInfo info) {
  absl::Status status(kind, Render(info));
  std::string payload = info.code + kSeparator + info.place + kSeparator + info.message + kSeparator + info.next;
  status.SetPayload(kPayload, absl::Cord(payload));
  return status;
}

ErrorInfo GetErrorInfo(const absl::Status& status) {
  ErrorInfo info;
  auto payload = status.GetPayload(kPayload);
  if (!payload.has_value()) {
    info.code = absl::StatusCodeToString(status.code());
    info.message = std::string(status.message());
    return info;
  }
  std::string text(*payload);
  std::string* fields[] = {&info.code, &info.place, &info.message, &info.next};
  size_t field = 0;
  for (char c : text) {
    if (c == kSeparator && field < 3) {
      ++field;
    } else {
      fields[field]->push_back(c);
    }
  }
  return info;
}

std::string FormatError(const absl::Status& status) {
  return Render(GetErrorInfo(status));
}

absl::Status AtPlace(const absl::Status& status, std::string_view place) {
  if (status.ok()) return status;
  ErrorInfo info = GetErrorInfo(status);
  info.place = info.place.empty() ? std::string(place) : std::string(place) + ": " + info.place;
  return MakeError(status.code(), std::move(info));
}

absl::Status ErrnoError(int err, std::string_view what, std::string_view place, std::string_view next) {
  const char* name = strerrorname_np(err);
  return MakeError(KindOf(err), {.code = std::string("SYS_") + (name ? name : std::to_string(err).c_str()),
                                 .place = std::string(place),
                                 .message = std::string(what) + ": " + strerror(err),
                                 .next = std::string(next)});
}

}  // namespace muster
