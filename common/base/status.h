#pragma once
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster {

// A typed error: an absl::Status that carries a stable upper-case code ("TARGET_MOUNTED"), the place it is about
// ("campaign.yaml:12:7", "/dev/sdb on host nas1", "agent local-2") and the next step a user can take.
// The code, not the text, is what tests and scripts match on.
struct ErrorInfo {
  std::string code;     // [A-Z0-9_]+, stable across releases
  std::string place;    // file:line:column, path, device, host or agent; may be empty
  std::string message;  // one sentence: what is wrong
  std::string next;     // one sentence: what to do; may be empty
};

// Makes the status. `kind` is the canonical class (kInvalidArgument for input, kFailedPrecondition for a refused
// target, kUnavailable for a lost peer, kDeadlineExceeded, kInternal ...).
absl::Status MakeError(absl::StatusCode kind, ErrorInfo info);

// The parts of a typed error; a status made otherwise yields its canonical name as code and its message.
ErrorInfo GetErrorInfo(const absl::Status& status);

// "place: message [CODE] next", one line, for people.
std::string FormatError(const absl::Status& status);

// The same error with the place set (an existing place is kept after it: "outer: inner").
absl::Status AtPlace(const absl::Status& status, std::string_view place);

// A typed error for a failed system call: code "SYS_<ERRNO NAME>", message "<what>: <strerror>".
absl::Status ErrnoError(int err, std::string_view what, std::string_view place, std::string_view next = {});

#define MUSTER_CONCAT_(a, b) a##b
#define MUSTER_CONCAT(a, b) MUSTER_CONCAT_(a, b)
#define MUSTER_RETURN_IF_ERROR(expr)                                  \
  do {                                                                \
    if (absl::Status status_ = (expr); !status_.ok()) return status_; \
  } while (false)
#define MUSTER_ASSIGN_OR_RETURN(lhs, expr) MUSTER_ASSIGN_OR_RETURN_(MUSTER_CONCAT(statusor_, __LINE__), lhs, expr)
#define MUSTER_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return tmp.status();            \
  lhs = std::move(tmp).value()

}  // namespace muster
