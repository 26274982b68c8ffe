#include "agent/backend/uring_backend.h"

#include <fcntl.h>
#include <liburing.h>
#include <linux/falloc.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <mutex>

#include "agent/backend/errno_outcome.h"
#include "agent/backend/transfer.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace muster {
namespace {

constexpr uint32_t kMaxEntries = 32'768;          // the kernel's IORING_MAX_ENTRIES
constexpr uint64_t kCancelMark = UINT64_MAX - 1;  // user data of Abort's own request (liburing reserves -1)
constexpr int kMaxSubmitCalls = 4;                // in one go, when the kernel takes a batch in parts
constexpr Nanos kLongestWait = kSecond;           // the caller loops anyway
constexpr uint32_t kNoSlot = UINT32_MAX;
// O_DIRECT: the kernel plugs the requests of one system call and lets the device see them at its end. In portions the
// device works on the first ones while the next are prepared: measured at 4K QD 32, 15-25 % more IOPS than one
// call of up to 32 at the same or less CPU an operation. Page-cache reads finish inside the call: there fewer calls
// win.
constexpr uint32_t kDirectBatch = 4;

// An accepted operation, until it is reaped.
struct Slot {
  Transfer transfer;
  uint32_t next_free = kNoSlot;
};

struct RingMode {
  unsigned flags;
  const char* name;
};
// SUBMIT_ALL: a bad operation must not keep those behind it from being submitted by the same call.
constexpr RingMode kModes[] = {
    {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL,
     "SINGLE_ISSUER|DEFER_TASKRUN|TASKRUN_FLAG|SUBMIT_ALL"},
    {IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL,
     "COOP_TASKRUN|TASKRUN_FLAG|SUBMIT_ALL"},
    {0, "none"},
};

std::string YesOr(int err) {
  return err == 0 ? "yes" : fmt::format("no: {}", strerrorname_np(err));
}

class UringBackend final : public Backend {
 public:
  explicit UringBackend(const UringOptions& options) : options_(options) {}
  ~UringBackend() override { Close(); }
  UringBackend(const UringBackend&) = delete;
  UringBackend& operator=(const UringBackend&) = delete;

  absl::Status Open(std::span<const BackendObject> objects, std::span<const BufferRegion> buffers,
                    const BackendLimits& limits, Nanos /*deadline*/) override {
    if (limits.depth == 0) {
      return MakeError(absl::StatusCode::kInvalidArgument,
                       {"BACKEND_DEPTH", "io_uring", "depth 0 asked", "Ask for a queue depth of at least 1."});
    }
    for (size_t i = 0; i < objects.size(); ++i) {
      const int status_flags = fcntl(objects[i].fd, F_GETFL);
      if (status_flags < 0) {
        return MakeError(absl::StatusCode::kInvalidArgument,
                         {"BAD_DESCRIPTOR", fmt::format("object {}", i),
                          fmt::format("descriptor {} is not open", objects[i].fd), "Attach the target again."});
      }
      objects_.push_back({objects[i].fd, (status_flags & O_DIRECT) != 0 ? std::max(objects[i].logical_block, 1u) : 1,
                          objects[i].base, objects[i].base > 0 ? objects[i].size : UINT64_MAX});
      direct_ = direct_ || (status_flags & O_DIRECT) != 0;
    }
    capacity_ = std::min(limits.depth, kMaxEntries);
    MUSTER_RETURN_IF_ERROR(SetUpRing());
    RegisterRing();
    RegisterFiles();
    RegisterBuffers(buffers);
    slots_.resize(capacity_);
    for (uint32_t i = 0; i < capacity_; ++i) slots_[i].next_free = i + 1 < capacity_ ? i + 1 : kNoSlot;
    free_head_ = 0;
    refused_.reserve(capacity_);
    return absl::OkStatus();
  }

  BackendDescription Describe() const override {
    BackendDescription d;
    d.max_outstanding = capacity_;
    d.submit_batch = direct_ ? kDirectBatch : 0;
    d.registered_buffers = !regions_.empty();
    d.registered_files = fixed_files_;
    d.parameters = {{"kind", "io_uring"},
                    {"ring flags", mode_},
                    {"ring entries", fmt::format("{}", ring_ ? ring_->sq.ring_entries : 0)},
                    {"registered ring", ring_note_},
                    {"registered files", files_note_},
                    {"registered buffers", buffers_note_},
                    {"timed wait", timed_wait_ ? "EXT_ARG" : "poll"},
                    {"submit batch", direct_ ? fmt::format("{}", kDirectBatch) : "all that is free"}};
    return d;
  }

  size_t Submit(std::span<const IoOp> ops, Nanos /*now*/) override {
    const size_t accepted = std::min<size_t>(ops.size(), capacity_ - outstanding_);
    for (size_t i = 0; i < accepted; ++i) {
      const IoOp& op = ops[i];
      if (__builtin_expect(op.object >= objects_.size(), 0)) {
        Refuse(op, EBADF);
        continue;
      }
      // Beyond the usable area of a labelled device lies its reserve, which nothing may touch.
      const uint64_t limit = objects_[op.object].limit;
      if (__builtin_expect(op.bytes > limit || op.offset > limit - op.bytes, 0)) {
        Refuse(op, EINVAL);
        continue;
      }
      const uint32_t index = free_head_;
      Slot& slot = slots_[index];
      free_head_ = slot.next_free;
      slot.transfer.Begin(op);
      Prepare(slot.transfer, index);
    }
    outstanding_ += static_cast<uint32_t>(accepted);
    if (accepted > 0) Flush();
    return accepted;
  }

  size_t Reap(std::span<IoCompletion> out, Nanos /*now*/) override {
    size_t n = 0;
    if (__builtin_expect(event_fd_ >= 0, 0)) DrainEvent();
    if (__builtin_expect(!refused_.empty(), 0)) {
      while (n < out.size() && !refused_.empty()) {
        out[n++] = refused_.back();
        refused_.pop_back();
      }
    }
    if (CompletionsReady() == 0) {
      if (io_uring_sq_ready(ring_.get()) > 0) Flush();
      if ((IO_URING_READ_ONCE(*ring_->sq.kflags) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0) {
        io_uring_get_events(ring_.get());
      }
    }
    bool continued = false;
    unsigned head = 0;
    unsigned seen = 0;
    io_uring_cqe* cqe = nullptr;
    io_uring_for_each_cqe(ring_.get(), head, cqe) {
      if (n == out.size()) break;
      ++seen;
      if (cqe->user_data == kCancelMark) continue;
      const auto index = static_cast<uint32_t>(cqe->user_data);
      Slot& slot = slots_[index];
      const uint32_t alignment = objects_[slot.transfer.op.object].alignment;
      if (__builtin_expect(!slot.transfer.Ended(cqe->res, alignment, !aborted_, out[n]), 0)) {
        Prepare(slot.transfer, index);
        continued = true;
        continue;
      }
      ++n;
      slot.next_free = free_head_;
      free_head_ = index;
    }
    io_uring_cq_advance(ring_.get(), seen);
    outstanding_ -= static_cast<uint32_t>(n);
    if (__builtin_expect(aborted_, 0) && outstanding_ == 0) aborted_ = false;
    if (__builtin_expect(continued, 0)) Flush();
    if (__builtin_expect(event_fd_ >= 0, 0) && (!refused_.empty() || CompletionsReady() > 0)) RaiseEvent();
    return n;
  }

  void WaitUntil(Nanos deadline) override {
    if (!refused_.empty() || CompletionsReady() > 0) return;
    const Nanos now = SteadyClock::Get().Now();
    const Nanos wait = std::min(deadline - now, kLongestWait);
    if (io_uring_sq_ready(ring_.get()) > 0) Flush();
    if (wait <= 0) return;
    if (timed_wait_) {
      __kernel_timespec ts{.tv_sec = wait / kSecond, .tv_nsec = wait % kSecond};
      io_uring_getevents_arg arg{
          .sigmask = 0, .sigmask_sz = _NSIG / 8, .pad = 0, .ts = reinterpret_cast<uint64_t>(&ts)};
      const unsigned registered = fixed_ring_ ? IORING_ENTER_REGISTERED_RING : 0;
      io_uring_enter2(static_cast<unsigned>(ring_->enter_ring_fd), 0, 1,
                      IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG | registered, reinterpret_cast<sigset_t*>(&arg),
                      sizeof(arg));
    } else {
      pollfd p{.fd = ring_->ring_fd, .events = POLLIN, .revents = 0};
      const timespec ts{.tv_sec = wait / kSecond, .tv_nsec = wait % kSecond};
      ppoll(&p, 1, &ts, nullptr);
    }
  }

  // The ring's own descriptor never wakes epoll under DEFER_TASKRUN, a registered eventfd does. Made when first asked
  // for: a sole instance waits in the ring and must not pay for it.
  int WaitFd() const override {
    if (event_fd_ >= 0 || !ring_) return event_fd_;
    const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0) return -1;
    if (io_uring_register_eventfd(ring_.get(), fd) != 0) {
      close(fd);
      return -1;
    }
    event_fd_ = fd;
    RaiseEvent();  // something may have finished before
    return fd;
  }

  Nanos NextTimer() const override { return kNever; }

  void Abort() override {
    if (!ring_ || outstanding_ == 0) return;
    aborted_ = true;
    io_uring_sqe* sqe = io_uring_get_sqe(ring_.get());
    if (sqe == nullptr) return;  // cannot be: the queue is empty between calls and has more entries than operations
    io_uring_prep_cancel64(sqe, 0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
    io_uring_sqe_set_data64(sqe, kCancelMark);
    Flush();
  }

  uint32_t outstanding() const override { return outstanding_; }

  bool Close() override {
    if (!ring_) return !leaked_;
    if (outstanding_ > refused_.size()) {
      // The kernel still writes to the completion queue and to the buffers: the mapping must live on.
      static auto* const abandoned = new std::vector<io_uring*>;  // never destroyed, and no leak to a leak checker
      static auto* const abandoned_mutex = new std::mutex;
      const std::lock_guard lock(*abandoned_mutex);
      abandoned->push_back(ring_.release());
      leaked_ = true;
      return false;
    }
    // Unregistered here, not by the ring's deferred tear-down, so that a file system can be unmounted right after.
    if (fixed_files_) io_uring_unregister_files(ring_.get());
    if (!regions_.empty()) io_uring_unregister_buffers(ring_.get());
    io_uring_queue_exit(ring_.get());
    ring_.reset();
    if (event_fd_ >= 0) close(event_fd_);
    event_fd_ = -1;
    outstanding_ = 0;
    return true;
  }

 private:
  struct Object {
    int fd;
    uint32_t alignment;  // of a continued transfer
    uint64_t base;       // added to every offset
    uint64_t limit;      // no operation ends beyond it
  };

  absl::Status SetUpRing() {
    int err = 0;
    for (size_t i = options_.defer_taskrun && options_.taskrun_flags ? 0
                    : options_.taskrun_flags                         ? 1
                                                                     : 2;
         i < std::size(kModes); ++i) {
      auto ring = std::make_unique<io_uring>();
      io_uring_params params{};
      params.flags = kModes[i].flags;
      err = -io_uring_queue_init_params(std::bit_ceil(capacity_), ring.get(), &params);
      if (err == 0) {
        ring_ = std::move(ring);
        mode_ = kModes[i].name;
        timed_wait_ = (params.features & IORING_FEAT_EXT_ARG) != 0;
        return absl::OkStatus();
      }
      if (err != EINVAL) break;  // an older kernel knows fewer flags; anything else does not get better
    }
    return MakeError(absl::StatusCode::kUnavailable,
                     {"RING_SETUP", "io_uring",
                      fmt::format("setting up a ring of {} entries failed: {}", capacity_, strerrordesc_np(err)),
                      "Check that the kernel has io_uring and that sysctl kernel.io_uring_disabled is 0."});
  }

  void RegisterRing() {
    if (!options_.registered_ring) {
      ring_note_ = "no: switched off";
      return;
    }
    const int result = io_uring_register_ring_fd(ring_.get());
    fixed_ring_ = result == 1;
    ring_note_ = YesOr(fixed_ring_ ? 0 : -result);
  }

  void RegisterFiles() {
    if (!options_.registered_files || objects_.empty()) {
      files_note_ = objects_.empty() ? "no: no objects" : "no: switched off";
      return;
    }
    std::vector<int> fds;
    for (const Object& object : objects_) fds.push_back(object.fd);
    const int result = io_uring_register_files(ring_.get(), fds.data(), static_cast<unsigned>(fds.size()));
    fixed_files_ = result == 0;
    files_note_ = YesOr(-result);
  }

  void RegisterBuffers(std::span<const BufferRegion> buffers) {
    if (!options_.registered_buffers || buffers.empty()) {
      buffers_note_ = buffers.empty() ? "no: no buffers" : "no: switched off";
      return;
    }
    std::vector<iovec> vectors;
    for (const BufferRegion& region : buffers) vectors.push_back({region.base, region.bytes});
    const int result = io_uring_register_buffers(ring_.get(), vectors.data(), static_cast<unsigned>(vectors.size()));
    if (result == 0) regions_.assign(buffers.begin(), buffers.end());
    buffers_note_ = YesOr(-result);
  }

  // Of a registered region, whole; anything else goes the plain way rather than failing with EFAULT.
  bool InRegion(const uint8_t* begin, uint32_t bytes, uint32_t index) const {
    if (index >= regions_.size()) return false;
    const BufferRegion& region = regions_[index];
    return begin >= region.base && begin + bytes <= region.base + region.bytes;
  }

  // Queues what is left of an operation. There is always an entry: a queued operation holds a slot, and the
  // ring has at least as many entries as there are slots.
  void Prepare(const Transfer& transfer, uint32_t index) {
    const IoOp& op = transfer.op;
    io_uring_sqe* sqe = io_uring_get_sqe(ring_.get());
    const int fd = fixed_files_ ? static_cast<int>(op.object) : objects_[op.object].fd;
    uint8_t* const buffer = op.buffer + transfer.done;
    const uint32_t bytes = op.bytes - transfer.done;
    const uint64_t start = objects_[op.object].base + op.offset;
    const uint64_t offset = start + transfer.done;
    switch (op.kind) {
      case IoKind::kRead:
      case IoKind::kWrite: {
        const bool fixed = InRegion(buffer, bytes, op.buffer_index);
        const int opcode = op.kind == IoKind::kRead ? (fixed ? IORING_OP_READ_FIXED : IORING_OP_READ)
                                                    : (fixed ? IORING_OP_WRITE_FIXED : IORING_OP_WRITE);
        io_uring_prep_rw(opcode, sqe, fd, buffer, bytes, offset);
        if (fixed) sqe->buf_index = static_cast<uint16_t>(op.buffer_index);
        if (op.kind == IoKind::kWrite && (op.flags & kIoFua) != 0) sqe->rw_flags = RWF_DSYNC;
        break;
      }
      case IoKind::kFlush:
        io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
        break;
      case IoKind::kTrim:
        io_uring_prep_fallocate(sqe, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(start),
                                static_cast<off_t>(op.bytes));
        break;
    }
    sqe->user_data = index;
    if (fixed_files_) sqe->flags |= IOSQE_FIXED_FILE;
  }

  // Submits all that is queued. What the kernel does not take now (out of memory, completion backlog) stays queued
  // for the next call of Submit, Reap or WaitUntil; its time in the queue counts as service, so nothing is hidden.
  void Flush() {
    for (int i = 0; i < kMaxSubmitCalls && io_uring_sq_ready(ring_.get()) > 0; ++i) {
      if (io_uring_submit(ring_.get()) < 0) io_uring_get_events(ring_.get());
    }
  }

  // Completes through Reap what cannot be started.
  void Refuse(const IoOp& op, int err) {
    refused_.push_back({op.tag, OutcomeOfErrno(err), err, 0});
    if (event_fd_ >= 0) RaiseEvent();
  }

  unsigned CompletionsReady() const { return io_uring_cq_ready(ring_.get()); }

  void RaiseEvent() const {
    if (eventfd_write(event_fd_, 1) != 0) return;  // the counter is full: readable already
  }
  void DrainEvent() const {
    eventfd_t value = 0;
    if (eventfd_read(event_fd_, &value) != 0) return;  // nothing had been raised
  }

  const UringOptions options_;
  std::unique_ptr<io_uring> ring_;
  const char* mode_ = "none";
  std::string ring_note_, files_note_, buffers_note_;
  bool fixed_ring_ = false;
  bool fixed_files_ = false;
  bool timed_wait_ = false;
  bool direct_ = false;  // an object bypasses the page cache
  bool aborted_ = false;
  bool leaked_ = false;
  mutable int event_fd_ = -1;
  std::vector<Object> objects_;
  std::vector<BufferRegion> regions_;  // registered ones; empty: none
  std::vector<Slot> slots_;
  std::vector<IoCompletion> refused_;
  uint32_t free_head_ = kNoSlot;
  uint32_t capacity_ = 0;
  uint32_t outstanding_ = 0;  // refused ones included
};

}  // namespace

std::unique_ptr<Backend> MakeUringBackend(const UringOptions& options) {
  return std::make_unique<UringBackend>(options);
}

}  // namespace muster
