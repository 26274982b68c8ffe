#pragma once
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/backend/iscsi/counters.h"
#include "agent/backend/iscsi/inspect.h"
#include "agent/backend/iscsi/session.h"

namespace muster {

// A session that comes back: logs in again after a loss, with a backoff, takes the LUNs' unit attentions before it is
// up again, and has one descriptor to wait for over all its sockets. It knows nothing of operations.
//
// One thread; only Open and Close may block.
class IscsiLink {
 public:
  IscsiLink(const IscsiConnectionSpec& spec, IscsiCounters& counters);
  ~IscsiLink();
  IscsiLink(const IscsiLink&) = delete;
  IscsiLink& operator=(const IscsiLink&) = delete;

  // Logs in and inspects every LUN of the spec. `answered` is called for commands from then on while the link is up.
  absl::StatusOr<std::vector<IscsiLunFacts>> Open(Nanos deadline, IscsiSession::Answered answered, void* owner);
  // Logs out if up and asked to, waiting at most 100 ms for the answer; ends the connection and closes descriptors.
  void Close(bool logout);

  bool up() const { return state_ == State::kUp; }
  // The session found its connection lost; the user ends his operations and calls Lose.
  bool broken() const { return session_.phase() != IscsiSession::Phase::kUp; }
  IscsiSession& session() { return session_; }
  const IscsiSession& session() const { return session_; }
  // Portal, names and what the first login agreed on.
  const std::vector<std::pair<std::string, std::string>>& parameters() const { return parameters_; }

  // Why the last attempt to log in again failed; OK if none did.
  const absl::Status& last_failure() const { return last_failure_; }

  // Takes what has come, while up (and sends what waits), or goes on with the login.
  void Drive(Nanos now);
  // Ends the connection, whatever its state. The next login begins now, or after the backoff.
  void Drop(Nanos now, bool login_now);

  // The next instant at which Drive has something to do by itself, while not up; kNever otherwise.
  Nanos NextTimer() const;
  // Readable when Drive has something to do, or the event is raised. Always the same.
  int WaitFd() const { return epoll_fd_; }
  // After every call that may have changed what the socket is to be waited for.
  void UpdateWait();
  void RaiseEvent();
  void ClearEvent();

 private:
  enum class State : uint8_t { kClosed, kWaiting, kLogin, kWaking, kUp };

  static void Answered(void* self, uint32_t id, const ScsiAnswer& answer);
  void StartLogin(Nanos now);
  void FailLogin(Nanos now, absl::Status why);
  void DriveLogin(Nanos now);
  void AskReady();

  const IscsiConnectionSpec& spec_;
  IscsiCounters& counters_;
  IscsiSession session_;
  std::string portal_;  // resolved, before redirects
  std::vector<std::pair<std::string, std::string>> parameters_;
  IscsiSession::Answered user_ = nullptr;
  void* user_owner_ = nullptr;

  State state_ = State::kClosed;
  Nanos login_at_ = kNever;
  Nanos login_deadline_ = kNever;
  Nanos backoff_ = 0;
  absl::Status last_failure_;
  size_t lun_ = 0;  // whose unit attentions are being taken
  int tries_ = 0;
  bool answered_ = false;
  ScsiAnswer answer_;

  int epoll_fd_ = -1;
  int event_fd_ = -1;
  bool event_raised_ = false;
  uint32_t watched_socket_ = 0;  // IscsiSession::generation
  int watched_fd_ = -1;
  uint32_t watched_events_ = 0;
};

}  // namespace muster
