#pragma once
#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/wire/grpc_status.h"
#include "common/wire/outbound_queue.h"

namespace muster {

// Server side of one bidirectional stream: the rules of gRPC's callback API kept in one place.
// - One write in flight: everything goes out through an OutboundQueue.
// - gRPC's Finish is called once, when no write is in flight, and nothing is started after it.
// - The reactor outlives OnDone for whoever still holds it: it owns itself until then, others hold a shared_ptr.
// - Nothing here blocks; OnMessage and OnOver run in gRPC's threads and must not block either.
template <typename In, typename Out>
class LinkStream : public grpc::ServerBidiReactor<In, Out>, public std::enable_shared_from_this<LinkStream<In, Out>> {
 public:
  explicit LinkStream(grpc::CallbackServerContext* context)
      : context_(context),
        out_(
            {}, [](const Out& m) { return m.ByteSizeLong(); }, [this](const Out& m) { this->StartWrite(&m); },
            [this] { FinishNow(); }) {}

  // From now on the stream owns itself until OnDone; `on_done` is called then.
  void Begin(std::function<void()> on_done) {
    self_ = this->shared_from_this();
    on_done_ = std::move(on_done);
    Read();
  }

  bool Push(Out message) { return out_.Push(std::move(message)); }

  // Reads the next message, unless the stream is ending. At most one read at a time: called once for each OnMessage.
  void Read() {
    std::lock_guard lock(life_);
    if (!finishing_ && !done_) this->StartRead(&in_);
  }

  // Ends the stream with `why`, the first one counts. What is queued still goes out unless `at_once`; then a write that
  // the peer does not take is cancelled.
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

 protected:
  virtual void OnMessage(const In& message, Nanos received) = 0;
  // The peer has ended or broken the stream. May come twice.
  virtual void OnOver() = 0;

 private:
  void OnReadDone(bool ok) final {
    const Nanos received = SteadyClock::Get().Now();
    if (ok) {
      OnMessage(in_, received);
      return;
    }
    OnOver();
    Close(absl::OkStatus(), /*at_once=*/true);
  }
  void OnWriteDone(bool ok) final { out_.OnWriteDone(ok); }
  void OnCancel() final {
    // A stream that is not reading (reports wait for the store) hears of its end here alone.
    OnOver();
    Close(absl::OkStatus(), /*at_once=*/true);
  }
  void OnDone() final {
    std::shared_ptr<LinkStream> self;
    {
      std::lock_guard lock(life_);
      done_ = true;
      self = std::move(self_);
    }
    if (on_done_) on_done_();
  }
  void FinishNow() {
    {
      std::lock_guard lock(life_);
      finishing_ = true;
    }
    this->Finish(ToGrpc(why_));  // OnDone cannot come before this
  }

  // Recursive: gRPC may run a callback inside the call that causes it.
  std::recursive_mutex life_;
  bool closing_ = false, finishing_ = false, done_ = false;
  absl::Status why_;
  grpc::CallbackServerContext* const context_;  // valid until done_
  In in_;
  OutboundQueue<Out> out_;
  std::shared_ptr<LinkStream> self_;
  std::function<void()> on_done_;
};

}  // namespace muster
