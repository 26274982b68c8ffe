#include "agent/backend/iscsi/iscsi_backend.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include "agent/backend/iscsi/counters.h"
#include "agent/backend/iscsi/errors.h"
#include "agent/backend/iscsi/link.h"
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
// libiscsi's iSER has 256 descriptors a session, takes one for each command, login and logout, and does not look
// whether there is one left.
constexpr uint32_t kIserCommands = 128;
constexpr Nanos kFirstBusyDelay = kMillisecond;
constexpr Nanos kLastBusyDelay = 100 * kMillisecond;
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

class IscsiBackend final : public Backend {
 public:
  explicit IscsiBackend(IscsiConnectionSpec spec) : spec_(std::move(spec)), link_(spec_, counters_) {}
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
    capacity_ = std::min(limits.depth, command_limit_);
    if (spec_.queue_limit != 0) capacity_ = std::min(capacity_, spec_.queue_limit);
    op_timeout_ = limits.op_timeout;
    now_ = SteadyClock::Get().Now();
    auto luns = link_.Open(std::min(deadline, now_ + spec_.login_timeout), Answered, this);
    absl::Status status = luns.ok() ? TakeLuns(std::move(*luns), objects) : luns.status();
    if (!status.ok()) {
      link_.Close(luns.ok());
      return status;
    }
    ops_.resize(capacity_);
    for (uint32_t i = 0; i < capacity_; ++i) ops_[i].newer = i + 1 < capacity_ ? i + 1 : kNone;
    free_op_ = 0;
    commands_.resize(kMaxCommands);
    retries_.reserve(kMaxCommands);
    ResetCommands();
    ready_.resize(capacity_);
    return absl::OkStatus();
  }

  BackendDescription Describe() const override {
    BackendDescription d;
    d.max_outstanding = capacity_;
    d.max_transfer = 0;  // larger operations go out as several commands
    d.parameters = {{"kind", "iscsi"}};
    d.parameters.insert(d.parameters.end(), link_.parameters().begin(), link_.parameters().end());
    for (size_t i = 0; i < facts_.size(); ++i) {
      // Of a sole LUN the number is a value, so that connections to unlike LUNs can be told side by side.
      const std::string prefix = facts_.size() == 1 ? "LUN" : fmt::format("LUN {}", facts_[i].lun);
      if (facts_.size() == 1) d.parameters.emplace_back(prefix, fmt::format("{}", facts_[i].lun));
      auto lun = DescribeLun(facts_[i], prefix);
      d.parameters.insert(d.parameters.end(), lun.begin(), lun.end());
      d.parameters.emplace_back(prefix + " bytes a command", fmt::format("{}", geometry_[i].max_transfer));
    }
    if (!link_.last_failure().ok()) {
      d.parameters.emplace_back("last failed reconnect", FormatError(link_.last_failure()));
    }
    return d;
  }

  size_t Submit(std::span<const IoOp> ops, Nanos now) override {
    now_ = now;
    if (!link_.up()) return 0;
    size_t accepted = 0;
    while (accepted < ops.size() && outstanding_ < capacity_ && MayAccept(ops[accepted])) {
      session_.ExpectMore(accepted + 1 < ops.size() && outstanding_ + 1 < capacity_);
      Accept(ops[accepted++]);
    }
    session_.Push();
    if (__builtin_expect(link_.broken(), 0)) LoseConnection();
    if (__builtin_expect(ready_count_ > 0, 0)) link_.RaiseEvent();
    link_.UpdateWait();
    return accepted;
  }

  size_t Reap(std::span<IoCompletion> out, Nanos now) override {
    now_ = now;
    link_.ClearEvent();
    Drive();
    size_t n = 0;
    while (n < out.size() && ready_count_ > 0) {
      out[n++] = ready_[ready_head_];
      ready_head_ = ready_head_ + 1 == capacity_ ? 0 : ready_head_ + 1;
      --ready_count_;
    }
    outstanding_ -= static_cast<uint32_t>(n);
    if (__builtin_expect(ready_count_ > 0, 0)) link_.RaiseEvent();
    link_.UpdateWait();
    return n;
  }

  void WaitUntil(Nanos deadline) override {
    if (ready_count_ > 0 || link_.WaitFd() < 0) return;
    const Nanos now = SteadyClock::Get().Now();
    const Nanos wait = std::min({deadline, NextTimer(), now + kLongestWait}) - now;
    if (wait <= 0) return;
    const timespec ts{.tv_sec = wait / kSecond, .tv_nsec = wait % kSecond};
    epoll_event event;
    epoll_pwait2(link_.WaitFd(), &event, 1, &ts, nullptr);
  }

  int WaitFd() const override { return link_.WaitFd(); }

  Nanos NextTimer() const override {
    if (!link_.up()) return link_.NextTimer();
    return std::min(oldest_ == kNone ? kNever : ops_[oldest_].deadline, next_retry_);
  }

  void Abort() override {
    if (oldest_ == kNone) return;
    now_ = SteadyClock::Get().Now();
    for (uint32_t i = oldest_; i != kNone; i = ops_[i].newer) ++counters_.aborted;
    TearDown(IoOutcome::kAborted, ECANCELED, true);
    link_.RaiseEvent();
    link_.UpdateWait();
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
    link_.Close(outstanding_ == 0);
    oldest_ = newest_ = pumped_ = kNone;
    outstanding_ = ready_count_ = 0;
    return true;
  }

 private:
  absl::Status TakeLuns(std::vector<IscsiLunFacts> all, std::span<const BackendObject> objects) {
    for (size_t i = 0; i < all.size(); ++i) {
      const IscsiLunFacts& facts = all[i];
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
      geometry_.push_back(geometry);
    }
    facts_ = std::move(all);
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

  // Whether the next operation may go out now, and its plan; counts what is in the way. A refused one needs no room.
  bool MayAccept(const IoOp& op) {
    if (__builtin_expect(session_.sending(), 0)) session_.Flush();
    if (__builtin_expect(session_.sending(), 0)) {
      counters_.behind_socket.Start(now_);
      return false;
    }
    counters_.behind_socket.Stop(now_);
    if (pumped_ != kNone || link_.broken()) return false;
    plan_ = op.object < geometry_.size() ? PlanOp(op, geometry_[op.object]) : OpPlan{0, 0, IoOutcome::kOther, EBADF};
    if (__builtin_expect(plan_.parts == 0, 0)) return true;
    // More commands than ever fit at once: alone it may begin.
    const uint32_t needed = commands_out_ == 0 ? 1 : plan_.parts;
    if (session_.room() < needed) {
      counters_.behind_window.Start(now_);
      return false;
    }
    counters_.behind_window.Stop(now_);
    return command_limit_ - commands_out_ >= needed;
  }

  void Accept(const IoOp& op) {
    ++outstanding_;
    if (__builtin_expect(plan_.parts == 0, 0)) {
      Ready({op.tag, plan_.outcome, plan_.err, 0});
      return;
    }
    const uint32_t index = free_op_;
    Op& entry = ops_[index];
    free_op_ = entry.newer;
    entry = Op{};
    entry.op = op;
    entry.plan = plan_;
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
      if (commands_out_ >= command_limit_ || session_.room() == 0 || session_.sending()) return;
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
    if (!link_.broken()) EndCommand(id, {.delivered = false, .transport_errno = ENOMEM});
    return false;
  }

  static void Answered(void* self, uint32_t id, const ScsiAnswer& answer) {
    static_cast<IscsiBackend*>(self)->OnAnswer(id, answer);
  }

  // Inside a call of the session: it must not be called back from here.
  void OnAnswer(uint32_t id, const ScsiAnswer& answer) {
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
    const bool was_up = link_.up();
    link_.Drive(now_);
    if (__builtin_expect(!was_up, 0)) return;
    if (__builtin_expect(link_.broken(), 0)) return LoseConnection();
    if (__builtin_expect(counters_.behind_window.running() && session_.room() > 0, 0)) {
      counters_.behind_window.Stop(now_);
    }
    if (__builtin_expect(now_ >= next_retry_, 0)) SendRetries();
    if (__builtin_expect(pumped_ != kNone, 0)) Pump();
    if (__builtin_expect(link_.broken(), 0)) return LoseConnection();
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
    // Failed, not aborted: nobody asked for their end, and aborted ones are not held against the target.
    TearDown(IoOutcome::kIo, ECONNABORTED, true);
  }

  void LoseConnection() {
    ++counters_.connections_lost;
    if (session_.lost_by_digest()) ++counters_.bad_digests;
    const int err = session_.lost_errno();
    counters_.Event(err);
    TearDown(IoOutcome::kIo, err, false);
  }

  // Ends the connection and with it every operation.
  void TearDown(IoOutcome outcome, int err, bool login_now) {
    link_.Drop(now_, login_now);
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

  const IscsiConnectionSpec spec_;
  IscsiCounters counters_;
  IscsiLink link_;
  IscsiSession& session_ = link_.session();
  std::vector<IscsiLunFacts> facts_;
  std::vector<LunGeometry> geometry_;
  Nanos op_timeout_ = 0;
  Nanos now_ = 0;

  const uint32_t command_limit_ = spec_.transport == IscsiTransport::kTcp ? kMaxCommands : kIserCommands;
  uint32_t capacity_ = 0;
  uint32_t outstanding_ = 0;
  OpPlan plan_;  // of the operation that is being offered
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
};

}  // namespace

std::unique_ptr<Backend> MakeIscsiBackend(IscsiConnectionSpec spec) {
  return std::make_unique<IscsiBackend>(std::move(spec));
}

}  // namespace muster
