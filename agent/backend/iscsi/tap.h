#pragma once
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "agent/backend/iscsi/tap_iser.h"

namespace muster {

// What libiscsi 1.19 does not tell or do, taken at the link: five of its calls are wrapped (-Wl,--wrap) and, while a
// tap is set on the calling thread, reported to it; without one they pass through.
//
// - connect: bind(2) to a source address and port before it, which libiscsi has no call for.
// - send: a header whose data follows by writev, and a command that others follow at once (`more`), wait in the socket
//   for what comes next, so that a batch is few segments and one wake-up of the target, not one each.
// - writev: write data goes out without SIGPIPE, which a connection the target has closed would raise.
// - iscsi_process_pdu, the one way of every PDU from the socket: ExpCmdSN and MaxCmdSN (RFC 7143 3.2.2.1: a command may
//   go out while CmdSN <= MaxCmdSN), the status and the text keys of login responses (11.13). The layout of its
//   argument is that of 1.19; CMake accepts no other version.
// - iscsi_reconnect, which libiscsi calls inside iscsi_service when a connection is lost: here it must not happen.
struct LibiscsiTap {
  // Bound to before a connect if its family is not AF_UNSPEC.
  sockaddr_storage source{};
  socklen_t source_bytes = 0;
  bool source_port_given = false;
  int bind_errno = 0;  // of a bind that failed; the connect was not tried then

  bool more = false;      // another command follows within this call of the user
  bool unpushed = false;  // the last send left something waiting for the next

  bool answered = false;  // a PDU has come in: the two numbers below are valid
  uint32_t exp_cmd_sn = 0;
  uint32_t max_cmd_sn = 0;
  uint32_t smallest_window = UINT32_MAX;  // of all answers since `measure_window`: MaxCmdSN - ExpCmdSN + 1
  uint32_t largest_window = 0;
  bool measure_window = false;

  uint16_t login_status = 0;  // class << 8 | detail of the last login response
  std::string login_keys;     // "Key=Value\0..." of all login responses, at most 8 KiB, without CHAP's

  bool lost = false;  // the library wanted to reconnect

  IserTap iser;
};

// Sets the tap of this thread for its lifetime, and restores the one before.
class TapScope {
 public:
  explicit TapScope(LibiscsiTap* tap);
  ~TapScope();
  TapScope(const TapScope&) = delete;
  TapScope& operator=(const TapScope&) = delete;

 private:
  LibiscsiTap* previous_;
};

// That of this thread; null: none.
LibiscsiTap* CurrentTap();

}  // namespace muster
