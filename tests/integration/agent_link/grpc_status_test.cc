#include "common/wire/grpc_status.h"

#include <catch2/catch.hpp>

#include "common/base/status.h"

namespace muster {
namespace {

TEST_CASE("a typed error survives the end of a call") {
  const absl::Status status = MakeError(absl::StatusCode::kFailedPrecondition,
                                        {"TARGET_MOUNTED", "/dev/sdb", "mounted at /srv", "Unmount it."});
  const grpc::Status sent = ToGrpc(status);
  CHECK(sent.error_code() == grpc::StatusCode::FAILED_PRECONDITION);
  CHECK(sent.error_message().find("TARGET_MOUNTED") != std::string::npos);
  const absl::Status back = FromGrpc(sent);
  CHECK(back.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(GetErrorInfo(back).code == "TARGET_MOUNTED");
  CHECK(GetErrorInfo(back).place == "/dev/sdb");
  CHECK(GetErrorInfo(back).next == "Unmount it.");
  CHECK(ToGrpc(absl::OkStatus()).ok());
  CHECK(FromGrpc(grpc::Status::OK).ok());
}

TEST_CASE("gRPC's own ends become typed errors, damaged details too") {
  const absl::Status lost = FromGrpc({grpc::StatusCode::UNAVAILABLE, "connection refused"});
  CHECK(lost.code() == absl::StatusCode::kUnavailable);
  CHECK(GetErrorInfo(lost).code == "RPC_UNAVAILABLE");
  CHECK(GetErrorInfo(lost).message == "connection refused");
  CHECK(GetErrorInfo(FromGrpc({grpc::StatusCode::INTERNAL, "x", "\xff\xff\xff"})).code == "RPC_INTERNAL");
}

TEST_CASE("a typed error whose details were dropped on the way is read from its text") {
  const grpc::Status sent =
      ToGrpc(MakeError(absl::StatusCode::kPermissionDenied, {"ROLE_MISSING", "/a.B/C", "bob may not", "Ask alice."}));
  const absl::Status back = FromGrpc({sent.error_code(), sent.error_message()});
  CHECK(GetErrorInfo(back).code == "ROLE_MISSING");
  CHECK(FormatError(back) == sent.error_message());
  for (const char* text : {"x [y] z", "[CODE]", "a []", "a ] [B", "list[CODE]", "["}) {
    INFO(text);
    CHECK(GetErrorInfo(FromGrpc({grpc::StatusCode::INTERNAL, text})).code == "RPC_INTERNAL");
  }
}

TEST_CASE("the longest error fits into the trailing metadata of a call") {
  const std::string long_text(9'000, 'm');
  const grpc::Status sent = ToGrpc(MakeError(absl::StatusCode::kInternal, {"CODE", long_text, long_text, long_text}));
  // Details travel as base64, the message percent-encoded: threefold at worst.
  CHECK(sent.error_details().size() * 4 / 3 + sent.error_message().size() * 3 < 8 * 1024);
  CHECK(GetErrorInfo(FromGrpc(sent)).code == "CODE");
}

}  // namespace
}  // namespace muster
