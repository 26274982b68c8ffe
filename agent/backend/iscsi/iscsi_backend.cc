#include "agent/backend/iscsi/iscsi_backend.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include "agent/backend/iscsi/counters.h"
#include "agent/backend/iscsi/errors.h"
#include "agent/backend/iscsi/inspect.h"
#include "agent/backend/iscsi/op_plan.h"
#include "agent/backend/iscsi/probe.h"
#include "agent/backend/iscsi/session.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace muster {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr uint32_t kMaxCommands = IscsiSession::kMaxCommands;
constexpr uint32_t kTcpTransfer = 1 << 20;     // as kernel initiators split
constexpr uint32_t kIserTransfer = 256 << 10;  // libiscsi's iSER messages end at 512 KiB
constexpr Nanos kFirstBusyDelay = kMillisecond;
constexpr Nanos kLastBusyDelay = 100 * kMillisecond;
constexpr int kMaxUnitAttentions = 8;  // in a row, of one LUN after a login
constexpr Nanos kLogoutPatience = 100 * kMillisecond;
constexpr Nanos kLongestWait = kSecond;  // the caller loops anyway

// An accepted operation until all its commands have ended.
struct Op {
  IoOp op;
  OpPlan plan;
  uint32_t next_part = 0;  // the first that has not been handed to the session
  uint32_t ended = 0;
  uint32_t missing = 0;  // bytes that well-ended commands did not transfer
  IoOutcome outcome = IoOutcome::kOk;
  int32_t native = 0;
  Nanos deadline = 0;
  uint32_t older = kNone;  // by acceptance, so by deadline; `newer` also links free ones
  uint32_t newer = kNone;
};

struct Command {
  uint32_t op = kNone;
  uint32_t part = 0;
  bool attention_taken = false;
  Nanos busy_delay = 0;
  Nanos retry_at = 0;
  std::array<uint8_t, kUnmapParameterBytes> unmap{};
};

enum class Link : uint8_t { kClosed, kWaiting, kLogin, kWaking, kUp };

class IscsiBackend final : public Backend {
 public:
  explicit IscsiBackend(IscsiConnectionSpec spec) : spec_(std::move(spec)), session_(spec_) {}
  ~IscsiBackend() override { Close(); }
  IscsiBackend(const IscsiBackend&) = delete;
  IscsiBackend& operator=(const IscsiBackend&) = delete;

  absl::Status Open(std::span<const BackendObject> objects, std::span<const BufferRegion> /*buffers*/,
                    const BackendLimits& limits, Nanos deadline) override {
    if (limits.depth == 0 || spec_.luns.empty() || (!objects.empty() && objects.size() != spec_.luns.size())) {
      return MakeError(
          absl::StatusCode::kInvalidArgument,
          {"BACKEND_DEPTH", PlaceOf(spec_),
           fmt::format("depth {}, {} LUNs and {} objects", limits.depth, spec_.luns.size(), objects.size()),
           "Ask for a queue depth of at least 1 and an object for each LUN."});
    }
    capacity_ = std::min(limits.depth, kMaxCommands);
    if (spec_.queue_limit != 0) capacity_ = std::min(capacity_, spec_.queue_limit);
    op_timeout_ = limits.op_timeout;
    now_ = SteadyClock::Get().Now();
    const absl::Status status = LogInAndInspect(objects, std::min(deadline, now_ + spec_.login_timeout));
    if (!status.ok()) {
      session_.Drop();
      return status;
    }
    session_.SetHandler(Answered, this);
    ops_.resize(capacity_);
    for (uint32_t i = 0; i < capacity_; ++i) ops_[i].newer = i + 1 < capacity_ ? i + 1 : kNone;
    free_op_ = 0;
    commands_.resize(kMaxCommands);
    retries_.reserve(kMaxCommands);
    ResetCommands();
    ready_.resize(capacity_);
    epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
    event_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    epoll_event event{.events = EPOLLIN, .data = {.fd = event_fd_}};
    if (epoll_fd_ < 0 || event_fd_ < 0 || epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, event_fd_, &event) != 0) {
      const absl::Status error = ErrnoError(errno, "epoll", PlaceOf(spec_));
      Close();
      return error;
    }
    link_ = Link::kUp;
    UpdateEpoll();
    return absl::OkStatus();
  }

  BackendDescription Describe() const override {
    BackendDescription d;
    d.max_outstanding = capacity_;
    d.max_transfer = 0;  // larger operations go out as several commands
    d.parameters = {{"kind", "iscsi"}};
    d.parameters.insert(d.parameters.end(), session_parameters_.begin(), session_parameters_.end());
    for (size_t i = 0; i < facts_.size(); ++i) {
      auto lun = DescribeLun(facts_[i]);
      d.parameters.insert(d.parameters.end(), lun.begin(), lun.end());
      d.parameters.emplace_back(fmt::format("LUN {} bytes a command", facts_[i].lun),
                                fmt::format("{}", geometry_[i].max_transfer));
    }
    return d;
  }

  size_t Submit(std::span<const IoOp> ops, Nanos now) override {
    now_ = now;
    if (link_ != Link::kUp) return 0;
    size_t accepted = 0;
    while (accepted < ops.size() && outstanding_ < capacity_ && MayAccept(ops[accepted])) {
      Accept(ops[accepted++]);
      if (__builtin_expect(session_.phase() == IscsiSession::Phase::kLost, 0)) {
        LoseConnection();
        break;
      }
    }
    if (__builtin_expect(ready_count_ > 0, 0)) RaiseEvent();
    UpdateEpoll();
    return accepted;
  }

  size_t Reap(std::span<IoCompletion> out, Nanos now) override {
    now_ = now;
    if (__builtin_expect(event_raised_, 0)) ClearEvent();
    Drive();
    size_t n = 0;
    while (n < out.size() && ready_count_ > 0) {
      out[n++] = ready_[ready_head_];
      ready_head_ = ready_head_ + 1 == capacity_ ? 0 : ready_head_ + 1;
      --ready_count_;
    }
    outstanding_ -= static_cast<uint32_t>(n);
    if (__builtin_expect(ready_count_ > 0, 0)) RaiseEvent();
    UpdateEpoll();
    return n;
  }

  void WaitUntil(Nanos deadline) override {
    if (ready_count_ > 0 || epoll_fd_ < 0) return;
    const Nanos now = SteadyClock::Get().Now();
    const Nanos wait = std::min({deadline, NextTimer(), now + kLongestWait}) - now;
    if (wait <= 0) return;
    const timespec ts{.tv_sec = wait / kSecond, .tv_nsec = wait % kSecond};
    epoll_event event;
    epoll_pwait2(epoll_fd_, &event, 1, &ts, nullptr);
  }

  int WaitFd() const override { return epoll_fd_; }

  Nanos NextTimer() const override {
    switch (link_) {
      case Link::kClosed:
        return kNever;
      case Link::kWaiting:
        return retry_login_at_;
      case Link::kLogin:
      case Link::kWaking:
        return login_deadline_;
      case Link::kUp:
        break;
    }
    return std::min(oldest_ == kNone ? kNever : ops_[oldest_].deadline, next_retry_);
  }

  void Abort() override {
    if (oldest_ == kNone) return;
    now_ = SteadyClock::Get().Now();
    for (uint32_t i = oldest_; i != kNone; i = ops_[i].newer) ++counters_.aborted;
    TearDown(IoOutcome::kAborted, ECANCELED);
    StartLogin();
    RaiseEvent();
    UpdateEpoll();
  }

  uint32_t outstanding() const override { return outstanding_; }

  std::vector<std::pair<std::string, uint64_t>> Counters() const override {
    IscsiCounters all = counters_;
    const IscsiSession::Windows windows = session_.windows();
    all.Windows(windows.smallest, windows.largest);
    auto list = all.List(now_);
    if (session_.redirects() > 0) list.emplace_back("redirects", session_.redirects());
    return list;
  }

  Nanos down_time() const override { return counters_.down.TotalAt(now_); }

  bool Close() override {
    if (link_ == Link::kUp && outstanding_ == 0) {
      session_.Logout(SteadyClock::Get().Now() + kLogoutPatience);
    } else {
      session_.Drop();
    }
    link_ = Link::kClosed;
    oldest_ = newest_ = pumped_ = kNone;
    outstanding_ = ready_count_ = 0;
    if (event_fd_ >= 0) close(event_fd_);
    if (epoll_fd_ >= 0) close(epoll_fd_);
    event_fd_ = epoll_fd_ = -1;
    return true;
  }

 private:
  absl::Status LogInAndInspect(std::span<const BackendObject> objects, Nanos deadline) {
    MUSTER_ASSIGN_OR_RETURN(portal_, IscsiSession::Resolve(spec_));
    IscsiInspector inspector(spec_, session_);
    MUSTER_RETURN_IF_ERROR(session_.Start(portal_));
    MUSTER_RETURN_IF_ERROR(inspector.WaitForLogin(deadline));
    for (size_t i = 0; i < spec_.luns.size(); ++i) {
      MUSTER_ASSIGN_OR_RETURN(const IscsiLunFacts facts, inspector.Inspect(spec_.luns[i], deadline));
      if (spec_.writes && facts.mode.write_protected) return ReadOnlyError(spec_, facts.lun);
      LunGeometry geometry = GeometryOf(facts);
      if (!objects.empty()) {
        const BackendObject& object = objects[i];
        if (object.logical_block % geometry.block_bytes != 0) {
          return BlockSizeError(spec_, facts.lun, geometry.block_bytes, object.logical_block);
        }
        if (object.size > facts.bytes() || object.base > facts.bytes() - object.size) {
          return LunSizeError(spec_, facts.lun, facts.bytes(), object.base + object.size);
        }
        geometry.base = object.base;
        if (object.base > 0) geometry.limit = object.size;
      }
      facts_.push_back(facts);
      geometry_.push_back(geometry);
    }
    session_parameters_ = DescribeSession(spec_, session_);
    return absl::OkStatus();
  }

  LunGeometry GeometryOf(const IscsiLunFacts& facts) const {
    LunGeometry g;
    g.lun = facts.lun;
    g.block_bytes = facts.capacity.block_bytes;
    g.blocks = facts.capacity.blocks;
    uint64_t transfer = spec_.transport == IscsiTransport::kTcp ? kTcpTransfer : kIserTransfer;
    if (spec_.max_transfer != 0) transfer = std::min<uint64_t>(transfer, spec_.max_transfer);
    if (facts.limits.max_transfer_blocks != 0) {
      transfer = std::min<uint64_t>(transfer, uint64_t{facts.limits.max_transfer_blocks} * g.block_bytes);
    }
    g.max_transfer = static_cast<uint32_t>(std::max<uint64_t>(transfer / g.block_bytes, 1) * g.block_bytes);
    if (facts.provisioning.unmap) {
      // No limit told is no limit known: 1 GiB a command is what every target takes.
      const uint32_t modest = static_cast<uint32_t>((uint64_t{1} << 30) / g.block_bytes);
      g.max_unmap_blocks =
          facts.limits.max_unmap_blocks == 0 ? modest : std::min(facts.limits.max_unmap_blocks, modest);
    }
    return g;
  }

  // Whether the next operation may go out now; counts what is in the way. A refused operation needs nothing.
  bool MayAccept(const IoOp& op) {
    if (__builtin_expect(session_.sending(), 0)) session_.Flush();
    if (__builtin_expect(session_.sending(), 0)) {
      counters_.behind_socket.Start(now_);
      return false;
    }
    counters_.behind_socket.Stop(now_);
    if (pumped_ != kNone || session_.phase() == IscsiSession::Phase::kLost) return false;
    if (__builtin_expect(op.object >= geometry_.size(), 0)) return true;
    const uint32_t parts = std::max(PlanOp(op, geometry_[op.object]).parts, 1u);
    // More commands than ever fit at once: alone it may begin.
    const uint32_t needed = commands_out_ == 0 ? 1 : parts;
    if (session_.room() < needed) {
      counters_.behind_window.Start(now_);
      return false;
    }
    counters_.behind_window.Stop(now_);
    return kMaxCommands - commands_out_ >= needed;
  }

  void Accept(const IoOp& op) {
    ++outstanding_;
    if (__builtin_expect(op.object >= geometry_.size(), 0)) {
      Ready({op.tag, IoOutcome::kOther, EBADF, 0});
      return;
    }
    const OpPlan plan = PlanOp(op, geometry_[op.object]);
    if (__builtin_expect(plan.parts == 0, 0)) {
      Ready({op.tag, plan.outcome, plan.err, 0});
      return;
    }
    const uint32_t index = free_op_;
    Op& entry = ops_[index];
    free_op_ = entry.newer;
    entry = Op{};
    entry.op = op;
    entry.plan = plan;
    entry.deadline = now_ + op_timeout_;
    entry.older = newest_;
    (newest_ == kNone ? oldest_ : ops_[newest_].newer) = index;
    newest_ = index;
    pumped_ = index;
    Pump();
  }

  // Hands over the commands of the operation that has some left, as far as they fit.
  void Pump() {
    while (pumped_ != kNone) {
      Op& op = ops_[pumped_];
      if (op.next_part == op.plan.parts || op.outcome != IoOutcome::kOk) {
        // After a failure the rest is not sent; it has ended with the operation.
        const uint32_t index = pumped_;
        pumped_ = kNone;
        op.ended += op.plan.parts - op.next_part;
        op.next_part = op.plan.parts;
        if (op.ended == op.plan.parts) Finish(index);
        return;
      }
      if (free_command_ == kMaxCommands || session_.room() == 0 || session_.sending()) return;
      const uint32_t id = free_commands_[free_command_++];
      Command& command = commands_[id];
      command.op = pumped_;
      command.part = op.next_part++;
      command.attention_taken = false;
      command.busy_delay = kFirstBusyDelay;
      ++commands_out_;
      if (!SendCommand(id)) return;
    }
  }

  bool SendCommand(uint32_t id) {
    Command& command = commands_[id];
    const Op& op = ops_[command.op];
    const LunGeometry& lun = geometry_[op.op.object];
    const PartPlan part = PlanPart(op.op, lun, op.plan, command.part);
    uint8_t* data = op.op.buffer + part.at;
    uint32_t bytes = part.bytes;
    if (op.op.kind == IoKind::kTrim) {
      FillUnmapParameters(part.block, part.blocks, command.unmap);
      data = command.unmap.data();
      bytes = kUnmapParameterBytes;
    } else if (op.op.kind == IoKind::kFlush) {
      data = nullptr;
    }
    ++counters_.commands;
    if (session_.Send(id, part.cdb, lun.lun, data, bytes)) return true;
    if (session_.phase() != IscsiSession::Phase::kLost) EndCommand(id, {.delivered = false, .transport_errno = ENOMEM});
    return false;
  }

  static void Answered(void* self, uint32_t id, const ScsiAnswer& answer) {
    static_cast<IscsiBackend*>(self)->OnAnswer(id, answer);
  }

  // Inside a call of the session: it must not be called back from here.
  void OnAnswer(uint32_t id, const ScsiAnswer& answer) {
    if (__builtin_expect(link_ == Link::kWaking, 0)) {
      wake_answer_ = answer;
      wake_answered_ = true;
      return;
    }
    if (__builtin_expect(!answer.delivered || answer.status != kScsiGood, 0)) {
      counters_.Event(NativeCodeOf(answer));
      Command& command = commands_[id];
      const ScsiAction action = JudgeScsi(answer).action;
      if (action == ScsiAction::kRetryOnce && !command.attention_taken) {
        command.attention_taken = true;
        ++counters_.attention_retries;
        RetryAt(id, now_);
        return;
      }
      // Past the deadline the retry does not happen: the operation's timeout comes first.
      if (action == ScsiAction::kRetryLater) {
        ++counters_.busy_retries;
        RetryAt(id, now_ + command.busy_delay);
        command.busy_delay = std::min(2 * command.busy_delay, kLastBusyDelay);
        return;
      }
    }
    EndCommand(id, answer);
  }

  void RetryAt(uint32_t id, Nanos when) {
    commands_[id].retry_at = when;
    retries_.push_back(id);
    next_retry_ = std::min(next_retry_, when);
  }

  void EndCommand(uint32_t id, const ScsiAnswer& answer) {
    const uint32_t index = commands_[id].op;
    commands_[id].op = kNone;
    free_commands_[--free_command_] = id;
    --commands_out_;
    Op& op = ops_[index];
    const ScsiVerdict verdict = JudgeScsi(answer);
    if (verdict.action == ScsiAction::kDone) {
      if (op.op.kind == IoKind::kRead || op.op.kind == IoKind::kWrite) op.missing += answer.residual;
    } else if (op.outcome == IoOutcome::kOk) {
      op.outcome = verdict.outcome;
      op.native = NativeCodeOf(answer);
    }
    if (++op.ended == op.plan.parts) Finish(index);
  }

  void Finish(uint32_t index) {
    Op& op = ops_[index];
    IoCompletion c{op.op.tag, op.outcome, op.native, 0};
    if (op.outcome == IoOutcome::kOk) {
      c.bytes = op.plan.wire_bytes - std::min(op.missing, op.plan.wire_bytes);
      if (op.op.kind != IoKind::kFlush && c.bytes < op.op.bytes) c.outcome = IoOutcome::kShort;
    }
    (op.older == kNone ? oldest_ : ops_[op.older].newer) = op.newer;
    (op.newer == kNone ? newest_ : ops_[op.newer].older) = op.older;
    if (pumped_ == index) pumped_ = kNone;
    op.newer = free_op_;
    free_op_ = index;
    Ready(c);
  }

  void Ready(const IoCompletion& completion) {
    ready_[(ready_head_ + ready_count_) % capacity_] = completion;
    ++ready_count_;
  }

  void Drive() {
    switch (link_) {
      case Link::kClosed:
        return;
      case Link::kWaiting:
        if (now_ >= retry_login_at_) StartLogin();
        return;
      case Link::kLogin:
      case Link::kWaking:
        DriveLogin();
        return;
      case Link::kUp:
        break;
    }
    session_.Step();
    if (__builtin_expect(session_.phase() != IscsiSession::Phase::kUp, 0)) return LoseConnection();
    if (__builtin_expect(counters_.behind_window.running() && session_.room() > 0, 0)) {
      counters_.behind_window.Stop(now_);
    }
    if (__builtin_expect(now_ >= next_retry_, 0)) SendRetries();
    if (__builtin_expect(pumped_ != kNone, 0)) Pump();
    if (__builtin_expect(session_.phase() != IscsiSession::Phase::kUp, 0)) return LoseConnection();
    if (__builtin_expect(oldest_ != kNone && now_ >= ops_[oldest_].deadline, 0)) TimeOut();
  }

  void SendRetries() {
    std::vector<uint32_t>& list = retries_;
    next_retry_ = kNever;
    size_t kept = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      const uint32_t id = list[i];
      if (commands_[id].retry_at <= now_ && session_.room() > 0 && !session_.sending()) {
        SendCommand(id);
        continue;
      }
      // Due but held up by window or socket: their opening makes WaitFd readable.
      if (commands_[id].retry_at > now_) next_retry_ = std::min(next_retry_, commands_[id].retry_at);
      list[kept++] = id;
    }
    list.resize(kept);
    if (kept > 0 && next_retry_ == kNever) next_retry_ = now_ + kMillisecond;
  }

  void TimeOut() {
    while (oldest_ != kNone && now_ >= ops_[oldest_].deadline) {
      Op& op = ops_[oldest_];
      op.outcome = IoOutcome::kTimeout;
      op.native = ETIMEDOUT;
      ++counters_.timed_out;
      counters_.Event(ETIMEDOUT);
      Finish(oldest_);
    }
    TearDown(IoOutcome::kAborted, ECONNABORTED);
    StartLogin();
  }

  void LoseConnection() {
    ++counters_.connections_lost;
    if (session_.lost_by_digest()) ++counters_.bad_digests;
    const int err = session_.lost_errno();
    counters_.Event(err);
    TearDown(IoOutcome::kIo, err);
    retry_login_at_ = now_ + backoff_;
  }

  // Ends the connection and with it every operation.
  void TearDown(IoOutcome outcome, int err) {
    const IscsiSession::Windows windows = session_.windows();
    counters_.Windows(windows.smallest, windows.largest);
    session_.Drop();
    while (oldest_ != kNone) {
      Op& op = ops_[oldest_];
      if (op.outcome == IoOutcome::kOk) {
        op.outcome = outcome;
        op.native = err;
      }
      Finish(oldest_);
    }
    ResetCommands();
    counters_.behind_window.Stop(now_);
    counters_.behind_socket.Stop(now_);
    counters_.down.Start(now_);
    backoff_ = spec_.first_backoff;
    link_ = Link::kWaiting;
  }

  void ResetCommands() {
    for (uint32_t i = 0; i < kMaxCommands; ++i) {
      free_commands_[i] = i;
      commands_[i].op = kNone;
    }
    free_command_ = 0;
    commands_out_ = 0;
    retries_.clear();
    next_retry_ = kNever;
    pumped_ = kNone;
  }

  void StartLogin() {
    login_deadline_ = now_ + spec_.login_timeout;
    link_ = Link::kLogin;
    if (!session_.Start(portal_).ok()) FailLogin();
  }

  void FailLogin() {
    ++counters_.failed_attempts;
    session_.Drop();
    link_ = Link::kWaiting;
    retry_login_at_ = now_ + backoff_;
    backoff_ = std::min(2 * backoff_, spec_.max_backoff);
  }

  void DriveLogin() {
    session_.Step();
    if (session_.phase() == IscsiSession::Phase::kLost || now_ >= login_deadline_) return FailLogin();
    if (session_.phase() != IscsiSession::Phase::kUp) return;
    if (link_ == Link::kLogin) {
      link_ = Link::kWaking;
      wake_lun_ = 0;
      wake_tries_ = 0;
      AskReady();
    }
    // A new session's unit attentions are taken before an operation meets them.
    while (wake_answered_ && link_ == Link::kWaking) {
      const bool attention = JudgeScsi(wake_answer_).action == ScsiAction::kRetryOnce;
      if (attention) counters_.Event(NativeCodeOf(wake_answer_));
      if (!attention || ++wake_tries_ == kMaxUnitAttentions) {
        wake_tries_ = 0;
        if (++wake_lun_ == spec_.luns.size()) {
          link_ = Link::kUp;
          ++counters_.reconnects;
          counters_.down.Stop(now_);
          backoff_ = spec_.first_backoff;
          RaiseEvent();  // whoever waits may submit again
          return;
        }
      }
      AskReady();
    }
    if (session_.phase() == IscsiSession::Phase::kLost) FailLogin();
  }

  void AskReady() {
    wake_answered_ = false;
    session_.Send(0, TestUnitReadyCdb(), spec_.luns[wake_lun_], nullptr, 0);
  }

  void UpdateEpoll() {
    if (epoll_fd_ < 0) return;
    const int fd = link_ == Link::kWaiting ? -1 : session_.fd();
    if (fd < 0) return;                         // a closed descriptor leaves the set by itself
    const uint32_t events = session_.events();  // POLLIN and POLLOUT have the values of EPOLLIN and EPOLLOUT
    const bool known = session_.generation() == watched_socket_;
    if (__builtin_expect(known && events == watched_events_, 1)) return;
    epoll_event event{.events = events, .data = {.fd = fd}};
    epoll_ctl(epoll_fd_, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
    watched_socket_ = session_.generation();
    watched_events_ = events;
  }

  void RaiseEvent() {
    if (event_raised_ || event_fd_ < 0) return;
    event_raised_ = eventfd_write(event_fd_, 1) == 0;
  }
  void ClearEvent() {
    eventfd_t ignored = 0;
    eventfd_read(event_fd_, &ignored);
    event_raised_ = false;
  }

  const IscsiConnectionSpec spec_;
  IscsiSession session_;
  std::string portal_;
  std::vector<IscsiLunFacts> facts_;
  std::vector<LunGeometry> geometry_;
  std::vector<std::pair<std::string, std::string>> session_parameters_;
  Nanos op_timeout_ = 0;
  Nanos now_ = 0;

  uint32_t capacity_ = 0;
  uint32_t outstanding_ = 0;
  std::vector<Op> ops_;
  uint32_t free_op_ = kNone;
  uint32_t oldest_ = kNone;
  uint32_t newest_ = kNone;
  uint32_t pumped_ = kNone;  // the operation that has commands left to hand over
  std::vector<Command> commands_;
  std::array<uint32_t, kMaxCommands> free_commands_{};  // those from free_command_ on are free
  uint32_t free_command_ = 0;
  uint32_t commands_out_ = 0;  // handed over, or waiting for their retry
  std::vector<uint32_t> retries_;
  Nanos next_retry_ = kNever;
  std::vector<IoCompletion> ready_;  // a ring
  uint32_t ready_head_ = 0;
  uint32_t ready_count_ = 0;

  Link link_ = Link::kClosed;
  Nanos retry_login_at_ = kNever;
  Nanos login_deadline_ = kNever;
  Nanos backoff_ = 0;
  size_t wake_lun_ = 0;
  int wake_tries_ = 0;
  bool wake_answered_ = false;
  ScsiAnswer wake_answer_;

  int epoll_fd_ = -1;
  int event_fd_ = -1;
  bool event_raised_ = false;
  uint32_t watched_socket_ = 0;  // generation
  uint32_t watched_events_ = 0;
  IscsiCounters counters_;
};

}  // namespace

std::unique_ptr<Backend> MakeIscsiBackend(IscsiConnectionSpec spec) {
  return std::make_unique<IscsiBackend>(std::move(spec));
}

}  // namespace muster
