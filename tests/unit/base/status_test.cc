#include "common/base/status.h"

#include <errno.h>

#include <catch2/catch.hpp>

namespace muster {
namespace {

TEST_CASE("a typed error gives its parts back", "[status]") {
  const absl::Status status = MakeError(
      absl::StatusCode::kFailedPrecondition,
      {.code = "TARGET_MOUNTED", .place = "/dev/sdb on host nas1", .message = "It is mounted.", .next = "Unmount it."});
  CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
  const ErrorInfo info = GetErrorInfo(status);
  CHECK(info.code == "TARGET_MOUNTED");
  CHECK(info.place == "/dev/sdb on host nas1");
  CHECK(info.message == "It is mounted.");
  CHECK(info.next == "Unmount it.");
  CHECK(FormatError(status) == "/dev/sdb on host nas1: It is mounted. [TARGET_MOUNTED] Unmount it.");
  CHECK(std::string(status.message()) == FormatError(status));
}

TEST_CASE("empty parts stay empty", "[status]") {
  const absl::Status status = MakeError(absl::StatusCode::kInternal, {.code = "X", .message = "m"});
  const ErrorInfo info = GetErrorInfo(status);
  CHECK(info.place.empty());
  CHECK(info.next.empty());
  CHECK(FormatError(status) == "m [X]");
}

TEST_CASE("a status made elsewhere yields its canonical name", "[status]") {
  const ErrorInfo info = GetErrorInfo(absl::NotFoundError("gone"));
  CHECK(info.code == "NOT_FOUND");
  CHECK(info.message == "gone");
}

TEST_CASE("places nest from the outside in and change nothing else", "[status]") {
  const absl::Status inner =
      MakeError(absl::StatusCode::kInvalidArgument, {.code = "UNIT_SYNTAX", .message = "m", .next = "n"});
  const absl::Status placed = AtPlace(inner, "12:7");
  CHECK(GetErrorInfo(placed).place == "12:7");
  const absl::Status nested = AtPlace(placed, "campaign.yaml");
  const ErrorInfo info = GetErrorInfo(nested);
  CHECK(info.place == "campaign.yaml: 12:7");
  CHECK(info.code == "UNIT_SYNTAX");
  CHECK(info.next == "n");
  CHECK(nested.code() == absl::StatusCode::kInvalidArgument);
  CHECK(AtPlace(absl::OkStatus(), "x").ok());
}

TEST_CASE("system errors carry their name and class", "[status]") {
  const absl::Status status = ErrnoError(ENOSPC, "write", "/tmp/f", "Free some space.");
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  const ErrorInfo info = GetErrorInfo(status);
  CHECK(info.code == "SYS_ENOSPC");
  CHECK_THAT(info.message, Catch::StartsWith("write: "));
  CHECK(info.next == "Free some space.");
  CHECK(ErrnoError(ENOENT, "open", "p").code() == absl::StatusCode::kNotFound);
  CHECK(ErrnoError(EACCES, "open", "p").code() == absl::StatusCode::kPermissionDenied);
  CHECK(ErrnoError(EBUSY, "open", "p").code() == absl::StatusCode::kFailedPrecondition);
  CHECK(GetErrorInfo(ErrnoError(99'999, "open", "p")).code == "SYS_99999");
}

absl::StatusOr<int> Positive(int value) {
  if (value <= 0) return MakeError(absl::StatusCode::kOutOfRange, {.code = "NOT_POSITIVE", .message = "m"});
  return value;
}

absl::Status Sum(int a, int b, int& out) {
  MUSTER_ASSIGN_OR_RETURN(const int x, Positive(a));
  MUSTER_ASSIGN_OR_RETURN(const int y, Positive(b));
  MUSTER_RETURN_IF_ERROR(Positive(x + y).status());
  out = x + y;
  return absl::OkStatus();
}

TEST_CASE("the return macros pass a typed error on whole", "[status]") {
  int out = 0;
  CHECK(Sum(1, 2, out).ok());
  CHECK(out == 3);
  CHECK(GetErrorInfo(Sum(1, -2, out)).code == "NOT_POSITIVE");
  CHECK(out == 3);
}

}  // namespace
}  // namespace muster
