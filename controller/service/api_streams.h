#pragma once
#include <string>

#include "controller/service/run_feed.h"
#include "controller/service/write_stream.h"

namespace muster {

// WatchRun. Cut off when its queue is full or when it has not taken a message for kPatience: memory and the run do not
// wait for a client that does not read.
class WatchStream final : public WriteStream<v1::RunEvent>, public RunWatcher {
 public:
  static constexpr Nanos kPatience = 10 * kSecond;
  WatchStream(grpc::CallbackServerContext* context, std::string peer, bool detail)
      : WriteStream(context, {.messages = RunFeed::kHistory + 1024, .bytes = size_t{24} << 20}),
        peer_(std::move(peer)),
        detail_(detail) {}

  bool Offer(const SharedRunEvent& event) override;
  void CutOff() override;
  void End() override { Close(absl::OkStatus(), /*at_once=*/false); }
  bool detail() const override { return detail_; }
  bool gone() const override { return over(); }

 private:
  const std::string peer_;
  const bool detail_;
  std::string run_;  // named by the first event
};

// GetResult: the text in parts. RESULT_TOO_LARGE instead of what would not fit into memory twice.
class ResultStream final : public WriteStream<v1::ResultChunk> {
 public:
  static constexpr size_t kMaxText = size_t{128} << 20;
  static constexpr size_t kPart = size_t{256} << 10;
  explicit ResultStream(grpc::CallbackServerContext* context)
      : WriteStream(context, {.messages = 1024, .bytes = kMaxText + (size_t{1} << 20)}) {}
  void Send(const absl::StatusOr<std::string>& text);
};

}  // namespace muster
