#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/backend/iscsi/cdb.h"
#include "agent/backend/iscsi/connection_spec.h"
#include "agent/backend/iscsi/resolve.h"
#include "agent/backend/iscsi/sense.h"

namespace muster {

// One login over one libiscsi context, without waits, retries, timers or reconnects: those belong to its user. The only
// file that knows libiscsi's header is session.cc.
//
// One thread. Nothing here blocks. Life: Start, Step until phase() is kUp or kLost, Send and Step, Drop.
// Start may follow a Drop. A lost session keeps its context until Drop, so that nothing is freed inside a call.
class IscsiSession {
 public:
  enum class Phase : uint8_t { kIdle, kResolving, kConnecting, kLogin, kUp, kLost };
  static constexpr uint32_t kMaxCommands = 256;  // libiscsi's queues are lists, searched for every answer
  static constexpr int kMaxRedirects = 5;

  // The end of command `id`. Called from inside Send, Flush and Step; must not call back into the session.
  using Answered = void (*)(void* owner, uint32_t id, const ScsiAnswer& answer);

  explicit IscsiSession(const IscsiConnectionSpec& spec);  // `spec` outlives the session
  ~IscsiSession();
  IscsiSession(const IscsiSession&) = delete;
  IscsiSession& operator=(const IscsiSession&) = delete;

  void SetHandler(Answered answered, void* owner);

  // Begins to connect to an address ("10.0.0.5:3260", "[::1]:3260"). ISCSI_BIND, ISCSI_NO_RDMA, ISCSI_CONNECT where
  // that is known at once.
  absl::Status Start(const std::string& numeric_portal);
  // Takes what has come in, sends what waits. Follows at most kMaxRedirects redirects during the login; the name in one
  // is looked up beside (kResolving).
  void Step();
  // The error of a login that is not over at its deadline, `patience` after it began.
  absl::Status Overdue(Nanos patience) const;

  // Hands over a command; `id` < kMaxCommands and not in use. `data` stays the caller's until the answer or Drop.
  // Tries to send it; see sending(). False: not up, or the library is out of memory.
  bool Send(uint32_t id, const Cdb& cdb, uint16_t lun, uint8_t* data, uint32_t bytes);
  // Whether another command follows the next one at once: that one may wait in the socket for it. After the last,
  // Push sends what waits there, if anything does.
  void ExpectMore(bool more);
  void Push();
  // Tries again to send what is queued.
  void Flush();
  // True while something handed over has not gone to the socket.
  bool sending() const;
  // How many more commands the target takes now (MaxCmdSN - CmdSN + 1, RFC 7143 3.2.2.1).
  uint32_t room() const;

  Phase phase() const { return phase_; }
  // Why the phase is kLost.
  const absl::Status& failure() const { return failure_; }
  int lost_errno() const { return lost_errno_; }
  bool lost_by_digest() const { return lost_by_digest_; }

  int fd() const;  // -1: none
  // Another number for each socket: a new one may well have the descriptor of the one before.
  uint32_t generation() const { return generation_; }
  uint32_t events() const;  // POLLIN, POLLOUT to wait for
  // Ends the context and its connection, by a reset where one is up. Handed-over commands are forgotten: no answer will
  // be reported, no buffer touched any more.
  void Drop();
  // Tells the target, waits for its answer until `deadline` (absolute) and ends the context.
  void Logout(Nanos deadline);

  int redirects() const { return redirects_; }
  const std::string& portal() const { return portal_; }  // after redirects
  std::string isid() const;                              // 12 hex digits
  std::string source() const;                            // local address and port, empty if not connected
  // What the target answered in the login ("MaxBurstLength"); empty if it did not.
  std::string Negotiated(std::string_view key) const;
  // The command windows seen in answers since the login, and the last one; 0 before the first.
  struct Windows {
    uint32_t smallest = 0;
    uint32_t largest = 0;
    uint32_t last = 0;
  };
  Windows windows() const;

 private:
  struct Impl;

  absl::Status Begin(const std::string& numeric_portal);
  void Fail(absl::Status why, int err);
  void StepConnecting();
  void StepLogin();
  void FollowRedirect();
  void StepResolving();
  void AfterLogin();
  void Service(int events);

  const IscsiConnectionSpec& spec_;
  std::unique_ptr<Impl> impl_;
  Phase phase_ = Phase::kIdle;
  absl::Status failure_;
  int lost_errno_ = 0;
  bool lost_by_digest_ = false;
  int redirects_ = 0;  // since construction
  int hops_ = 0;       // of this login
  uint32_t generation_ = 0;
  std::string portal_;
  std::shared_ptr<const IscsiLookup> lookup_;  // of the name in a redirect, while kResolving
  std::string redirect_host_;
  int redirect_port_ = 0;
};

}  // namespace muster
