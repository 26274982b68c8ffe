#include "controller/top/feed.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/base/thread.h"
#include "controller/cli/remote.h"

namespace muster {
namespace {

constexpr Nanos kPoll = kSecond;
constexpr Nanos kConnect = kSecond;           // of each attempt to find it again
constexpr Nanos kGlance = 50 * kMillisecond;  // without events the end is looked at so often

}  // namespace

TopFeed::TopFeed(std::unique_ptr<ControllerClient> client, ControllerReach reach, std::string run, TopModel& model,
                 std::mutex& mutex, const Clock& clock)
    : reach_(std::move(reach)),
      fixed_(std::move(run)),
      model_(model),
      mutex_(mutex),
      clock_(clock),
      client_(std::move(client)) {
  thread_ = std::thread([this] {
    SetThreadName("top");
    Loop();
  });
}

TopFeed::~TopFeed() {
  {
    std::lock_guard lock(own_);
    stop_ = true;
    if (client_ != nullptr) client_->Abort();
  }
  changed_.notify_all();
  thread_.join();
}

bool TopFeed::Stopped() {
  std::lock_guard lock(own_);
  return stop_;
}

void TopFeed::Pause(Nanos time) {
  std::unique_lock lock(own_);
  changed_.wait_for(lock, std::chrono::nanoseconds(time), [this] { return stop_; });
}

void TopFeed::Lost(const absl::Status& why) {
  watch_.reset();
  watched_.clear();
  ended_ = false;
  {
    std::lock_guard lock(own_);
    client_.reset();
  }
  std::lock_guard lock(mutex_);
  model_.Lost(why, clock_.Now());
}

bool TopFeed::Connected() {
  if (client_ != nullptr) return true;
  auto client = ConnectTo(reach_, kConnect);
  if (!client.ok()) {
    Lost(client.status());
    return false;
  }
  std::lock_guard lock(own_);
  client_ = *std::move(client);
  if (stop_) client_->Abort();
  return true;
}

void TopFeed::Poll() {
  next_poll_ = clock_.Now() + kPoll;
  auto agents = client_->ListAgents();
  auto runs = agents.ok() ? client_->ListRuns() : absl::StatusOr<v1::RunList>(agents.status());
  if (!runs.ok()) {
    Lost(runs.status());
    return;
  }
  std::string wanted = fixed_;
  {
    std::lock_guard lock(mutex_);
    model_.There(*std::move(agents), *std::move(runs), clock_.Now());
    if (wanted.empty()) wanted = model_.Choice();
    if (wanted.empty() || (wanted == watched_ && (watch_ != nullptr || ended_))) return;
    model_.Watching(wanted);
  }
  watched_ = wanted;
  ended_ = false;
  watch_ = client_->Watch(wanted, /*detail=*/true);
}

void TopFeed::Follow() {
  auto event = watch_->Next(std::clamp<Nanos>(next_poll_ - clock_.Now(), 0, kGlance));
  if (!event.ok()) {
    // A lost connection is told by the next poll; one cut off for its slowness watches again.
    const std::string code = GetErrorInfo(event.status()).code;
    ended_ = code == "RUN_UNKNOWN" || code == "RUN_AMBIGUOUS";
    watch_.reset();
    std::lock_guard lock(mutex_);
    model_.Note(FormatError(event.status()));
    return;
  }
  if (*event) {
    ended_ = (*event)->has_ended();
    std::lock_guard lock(mutex_);
    model_.Event(**event, clock_.Now());
  } else if (watch_->over()) {
    watch_.reset();
  }
}

void TopFeed::Loop() {
  while (!Stopped()) {
    if (!Connected()) {
      Pause(kPoll);
      continue;
    }
    if (clock_.Now() >= next_poll_) Poll();
    if (client_ == nullptr) continue;
    if (watch_ != nullptr) {
      Follow();
    } else {
      Pause(std::max<Nanos>(0, next_poll_ - clock_.Now()));
    }
  }
  watch_.reset();
}

}  // namespace muster
