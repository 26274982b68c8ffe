#include "controller/service/api_streams.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/logging.h"
#include "common/base/status.h"

namespace muster {

bool WatchStream::Offer(const SharedRunEvent& event) {
  if (event->has_planned()) run_ = event->planned().run();
  return !Stuck(kPatience) && Push(event);
}

void WatchStream::CutOff() {
  const absl::Status why =
      MakeError(absl::StatusCode::kResourceExhausted,
                {.code = "WATCHER_TOO_SLOW",
                 .place = "run " + run_,
                 .message = fmt::format("the watching client does not read: {} messages wait", size()),
                 .next = "The run goes on; `muster watch` shows it again."});
  // One that has gone by itself needs no words.
  if (!over()) Log(LogLevel::kWarning, "run={} watcher {} cut off: {}", run_, peer_, FormatError(why));
  Close(why, /*at_once=*/true);
}

void ResultStream::Send(const absl::StatusOr<std::string>& text) {
  if (!text.ok()) return Close(text.status(), /*at_once=*/false);
  if (text->size() > kMaxText) {
    return Close(MakeError(absl::StatusCode::kResourceExhausted,
                           {.code = "RESULT_TOO_LARGE",
                            .place = "result",
                            .message = fmt::format("it has {} bytes, more than {}", text->size(), kMaxText),
                            .next = "Use `muster results export` on the controller's host."}),
                 /*at_once=*/false);
  }
  for (size_t at = 0; at < text->size(); at += kPart) {
    auto chunk = std::make_shared<v1::ResultChunk>();
    chunk->set_data(text->substr(at, kPart));
    if (!Push(std::move(chunk))) return Close(absl::CancelledError("the client is gone"), /*at_once=*/true);
  }
  Close(absl::OkStatus(), /*at_once=*/false);
}

}  // namespace muster
