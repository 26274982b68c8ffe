#include "agent/backend/iscsi/link.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "agent/backend/iscsi/errors.h"
#include "agent/backend/iscsi/probe.h"
#include "common/base/status.h"

namespace muster {
namespace {

constexpr int kMaxUnitAttentions = 8;  // in a row, of one LUN after a login
constexpr Nanos kLogoutPatience = 100 * kMillisecond;

}  // namespace

IscsiLink::IscsiLink(const IscsiConnectionSpec& spec, IscsiCounters& counters)
    : spec_(spec), counters_(counters), session_(spec) {}

IscsiLink::~IscsiLink() {
  Close(false);
}

absl::StatusOr<std::vector<IscsiLunFacts>> IscsiLink::Open(Nanos deadline, IscsiSession::Answered answered,
                                                           void* owner) {
  MUSTER_ASSIGN_OR_RETURN(portal_, ResolvePortal(spec_, deadline));
  IscsiInspector inspector(spec_, session_);
  MUSTER_RETURN_IF_ERROR(session_.Start(portal_));
  MUSTER_RETURN_IF_ERROR(inspector.WaitForLogin(deadline));
  std::vector<IscsiLunFacts> facts;
  for (const uint16_t lun : spec_.luns) {
    MUSTER_ASSIGN_OR_RETURN(IscsiLunFacts one, inspector.Inspect(lun, deadline));
    facts.push_back(std::move(one));
  }
  parameters_ = DescribeSession(spec_, session_);
  user_ = answered;
  user_owner_ = owner;
  session_.SetHandler(answered, owner);
  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  event_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  epoll_event event{.events = EPOLLIN, .data = {.fd = event_fd_}};
  if (epoll_fd_ < 0 || event_fd_ < 0 || epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, event_fd_, &event) != 0) {
    return ErrnoError(errno, "epoll", PlaceOf(spec_));
  }
  backoff_ = spec_.first_backoff;
  state_ = State::kUp;
  UpdateWait();
  return facts;
}

void IscsiLink::Close(bool logout) {
  if (up() && logout) {
    session_.Logout(SteadyClock::Get().Now() + kLogoutPatience);
  } else {
    session_.Drop();
  }
  state_ = State::kClosed;
  if (event_fd_ >= 0) close(event_fd_);
  if (epoll_fd_ >= 0) close(epoll_fd_);
  event_fd_ = epoll_fd_ = -1;
  event_raised_ = false;
}

void IscsiLink::Drive(Nanos now) {
  switch (state_) {
    case State::kClosed:
      return;
    case State::kWaiting:
      if (now >= login_at_) StartLogin(now);
      return;
    case State::kLogin:
    case State::kWaking:
      return DriveLogin(now);
    case State::kUp:
      session_.Step();
      if (__builtin_expect(session_.sending(), 0)) session_.Flush();  // data the target has just asked for
      return;
  }
}

void IscsiLink::Drop(Nanos now, bool login_now) {
  const IscsiSession::Windows windows = session_.windows();
  counters_.Windows(windows.smallest, windows.largest);
  session_.Drop();
  counters_.down.Start(now);
  backoff_ = spec_.first_backoff;
  state_ = State::kWaiting;
  login_at_ = now + (login_now ? 0 : backoff_);
  if (login_now) StartLogin(now);
}

void IscsiLink::StartLogin(Nanos now) {
  login_deadline_ = now + spec_.login_timeout;
  state_ = State::kLogin;
  session_.SetHandler(Answered, this);
  if (absl::Status started = session_.Start(portal_); !started.ok()) FailLogin(now, std::move(started));
}

void IscsiLink::FailLogin(Nanos now, absl::Status why) {
  last_failure_ = std::move(why);
  ++counters_.failed_attempts;
  session_.Drop();
  state_ = State::kWaiting;
  login_at_ = now + backoff_;
  backoff_ = std::min(2 * backoff_, spec_.max_backoff);
}

void IscsiLink::Answered(void* self, uint32_t /*id*/, const ScsiAnswer& answer) {
  auto& link = *static_cast<IscsiLink*>(self);
  link.answer_ = answer;
  link.answered_ = true;
}

void IscsiLink::DriveLogin(Nanos now) {
  session_.Step();
  if (session_.phase() == IscsiSession::Phase::kLost) return FailLogin(now, session_.failure());
  if (now >= login_deadline_) return FailLogin(now, session_.Overdue(spec_.login_timeout));
  if (session_.phase() != IscsiSession::Phase::kUp) return;
  if (state_ == State::kLogin) {
    state_ = State::kWaking;
    lun_ = 0;
    tries_ = 0;
    AskReady();
  }
  // A new session's unit attentions are taken before an operation meets them.
  while (answered_) {
    const bool attention = JudgeScsi(answer_).action == ScsiAction::kRetryOnce;
    if (attention) counters_.Event(NativeCodeOf(answer_));
    if (!attention || ++tries_ == kMaxUnitAttentions) {
      tries_ = 0;
      if (++lun_ == spec_.luns.size()) {
        session_.SetHandler(user_, user_owner_);
        state_ = State::kUp;
        ++counters_.reconnects;
        counters_.down.Stop(now);
        backoff_ = spec_.first_backoff;
        RaiseEvent();  // whoever waits may submit again
        return;
      }
    }
    AskReady();
  }
  if (session_.phase() == IscsiSession::Phase::kLost) FailLogin(now, session_.failure());
}

void IscsiLink::AskReady() {
  answered_ = false;
  session_.Send(0, TestUnitReadyCdb(), spec_.luns[lun_], nullptr, 0);
}

Nanos IscsiLink::NextTimer() const {
  switch (state_) {
    case State::kWaiting:
      return login_at_;
    case State::kLogin:
    case State::kWaking:
      return login_deadline_;
    case State::kClosed:
    case State::kUp:
      break;
  }
  return kNever;
}

void IscsiLink::UpdateWait() {
  const int fd = session_.fd();
  const uint32_t events = session_.events();  // POLLIN and POLLOUT have the values of EPOLLIN and EPOLLOUT
  // iSER changes its descriptor within a login.
  const bool known = session_.generation() == watched_socket_ && fd == watched_fd_;
  if (__builtin_expect(known && events == watched_events_, 1)) return;
  if (epoll_fd_ < 0) return;
  // A socket that was closed has left the set by itself; a lookup that others wait for has not.
  if (!known && watched_fd_ >= 0) epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, std::exchange(watched_fd_, -1), nullptr);
  if (fd < 0) return;
  epoll_event event{.events = events, .data = {.fd = fd}};
  epoll_ctl(epoll_fd_, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
  watched_socket_ = session_.generation();
  watched_fd_ = fd;
  watched_events_ = events;
}

void IscsiLink::RaiseEvent() {
  if (event_raised_ || event_fd_ < 0) return;
  event_raised_ = eventfd_write(event_fd_, 1) == 0;
}

void IscsiLink::ClearEvent() {
  if (__builtin_expect(!event_raised_, 1)) return;
  eventfd_t ignored = 0;
  eventfd_read(event_fd_, &ignored);
  event_raised_ = false;
}

}  // namespace muster
