#pragma once
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/wire/grpc_status.h"
#include "common/wire/outbound_queue.h"

namespace muster {

// Server side of a stream that only writes, by the rules of fleet/link_stream.h: one write in flight, Finish once when
// none is, the stream owns itself until OnDone. Thread-safe; no method blocks. Messages are shared between streams.
template <typename Out>
class WriteStream : public grpc::ServerWriteReactor<Out>, public std::enable_shared_from_this<WriteStream<Out>> {
 public:
  using Message = std::shared_ptr<const Out>;
  using Queue = OutboundQueue<Message>;

  WriteStream(grpc::CallbackServerContext* context, typename Queue::Limits limits)
      : context_(context),
        out_(
            limits, [](const Message& m) { return m->ByteSizeLong(); },
            [this](const Message& m) {
              since_ = SteadyClock::Get().Now();
              this->StartWrite(m.get());
            },
            [this] { this->Finish(ToGrpc(why_)); }) {}

  // From now on the stream owns itself until OnDone; `on_done` is called then.
  void Begin(std::function<void()> on_done) {
    self_ = this->shared_from_this();
    on_done_ = std::move(on_done);
  }

  // False: the queue is full, or the stream is ending.
  bool Push(Message message) { return out_.Push(std::move(message)); }

  // The peer has not taken a message for that long.
  bool Stuck(Nanos patience) const { return out_.size() > 0 && SteadyClock::Get().Now() - since_ > patience; }

  size_t size() const { return out_.size(); }
  bool over() const { return over_; }  // the peer has gone

  // Ends the stream with `why`, the first one counts. What is queued still goes out unless `at_once`; then a write that
  // the peer does not take is cancelled, and `why` with it.
  void Close(const absl::Status& why, bool at_once) {
    {
      std::lock_guard lock(life_);
      if (done_) return;
      if (!closing_) why_ = why;
      closing_ = true;
      if (at_once && out_.size() > 0) context_->TryCancel();
    }
    at_once ? out_.Abandon() : out_.Finish();
  }

 private:
  void OnWriteDone(bool ok) final { out_.OnWriteDone(ok); }
  void OnCancel() final {
    over_ = true;
    Close(absl::CancelledError("the client is gone"), /*at_once=*/true);
  }
  void OnDone() final {
    std::shared_ptr<WriteStream> self;
    {
      std::lock_guard lock(life_);
      done_ = true;
      self = std::move(self_);
    }
    if (on_done_) on_done_();
  }

  std::recursive_mutex life_;  // gRPC may run a callback inside the call that causes it
  bool closing_ = false, done_ = false;
  absl::Status why_;
  std::atomic<bool> over_{false};
  std::atomic<Nanos> since_{0};                 // the write in flight was started
  grpc::CallbackServerContext* const context_;  // valid until done_
  Queue out_;
  std::shared_ptr<WriteStream> self_;
  std::function<void()> on_done_;
};

}  // namespace muster
