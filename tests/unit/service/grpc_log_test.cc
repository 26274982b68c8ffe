#include "controller/service/grpc_log.h"

#include <catch2/catch.hpp>

namespace muster {
namespace {

TEST_CASE("of gRPC's log, refusals are told with the reason and the address where there is one") {
  // As gRPC 1.51 says them.
  CHECK(RefusalIn("Handshaking failed: UNKNOWN:Handshake read failed {created_time:\"2026\", children:[INTERNAL:Socket "
                  "closed {target_address:\"ipv4:127.0.0.1:36698\", fd:9}]}") ==
        "connection of ipv4:127.0.0.1:36698 refused: Handshake read failed");
  CHECK(RefusalIn("Handshaking failed: UNKNOWN:Ssl handshake failed: SSL_ERROR_SSL: error:0A000086:SSL "
                  "routines::certificate verify failed {created_time:\"2026\"}") ==
        "connection refused: Ssl handshake failed: SSL_ERROR_SSL: error:0A000086:SSL routines::certificate verify "
        "failed");
  CHECK(RefusalIn("Handshaking failed: as no version says it") ==
        "connection refused: Handshaking failed: as no version says it");
  CHECK(RefusalIn("UNKNOWN:Received message larger than max (33554432 vs. 16777216) {grpc_status:8, file_line:201}") ==
        "call refused: a message of 33554432 bytes is beyond the limit of 16777216 [MESSAGE_TOO_LARGE]");
  const auto full =
      RefusalIn("UNKNOWN:Error received from peer ipv4:127.0.0.1:44798 {grpc_message:\"Buffers full\", grpc_status:8}");
  REQUIRE(full);
  CHECK_THAT(*full, Catch::StartsWith("call of ipv4:127.0.0.1:44798 refused: ") && Catch::Contains("[BUFFERS_FULL]"));
}

TEST_CASE("what else gRPC says is no refusal") {
  for (const char* line :
       {"", "set_final_status SVR", "Using polling engine: epoll1",
        "UNKNOWN:Error received from peer ipv4:127.0.0.1:1 {grpc_message:\"CANCELLED\", grpc_status:1}"}) {
    CHECK_FALSE(RefusalIn(line));
  }
}

}  // namespace
}  // namespace muster
