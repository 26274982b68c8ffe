#include "controller/cli/live_view.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>
#include <thread>

#include "common/base/units.h"
#include "controller/cli/json_events.h"
#include "controller/cli/output.h"

namespace muster {
namespace {

class QuietView : public RunView {
 public:
  void OnRunStarted(const std::string&, const std::string&) override {}
  void OnPhase(const Step&, PhaseKind, Nanos) override {}
  void OnFillProgress(const FillProgress&) override {}
  void OnLive(const Step&, const LiveFigures&) override {}
  void OnStepResult(const StepResult&) override {}
  void OnEvent(const std::string&) override {}
  void OnNote(const std::string&) override {}
  void Close() override {}
};

class PlainView : public QuietView {
 public:
  PlainView(const Plan& plan, const Clock& clock) : steps_(plan.steps.size()), clock_(clock) {}
  void OnRunStarted(const std::string& run_id, const std::string& path) override {
    Print(fmt::format("run {} started, {}", run_id, path));
  }
  void OnPhase(const Step& step, PhaseKind phase, Nanos expected) override {
    step_ = fmt::format("step {}/{} {}", step.index + 1, steps_, step.name);
    last_ = 0;
    interval_ = -1;
    Print(fmt::format("{}: {}{}", step_, PhaseKindName(phase),
                      expected > 0 ? ", " + FormatDuration(expected / kSecond * kSecond) : ""));
  }
  void OnFillProgress(const FillProgress& fill) override {
    // The last one always; the others at most every 5 s: logs are read by people.
    if (fill.bytes_done < fill.bytes_total && clock_.Now() - last_ < 5 * kSecond) return;
    last_ = clock_.Now();
    Print(fmt::format("{}: filled {} of {}, {}/s{}", step_, FormatBytesHuman(static_cast<double>(fill.bytes_done)),
                      FormatBytesHuman(static_cast<double>(fill.bytes_total)), FormatBytesHuman(fill.bytes_per_second),
                      fill.eta ? ", ETA " + FormatDuration(*fill.eta / kSecond * kSecond) : ""));
  }
  void OnLive(const Step&, const LiveFigures& f) override {
    // One line an interval, and at most two a second.
    if (f.interval == interval_) return;
    held_ = f;
    if (clock_.Now() - last_ >= kSecond / 2) PrintHeld();
  }
  void OnStepResult(const StepResult& result) override {
    PrintHeld();  // the last one always
    Print(fmt::format("step {}/{} {}: {}{}", result.step.index + 1, steps_, result.step.name,
                      StepOutcomeName(result.outcome), result.message.empty() ? "" : ", " + result.message));
  }
  void OnEvent(const std::string& text) override { Print("event: " + text); }
  void OnNote(const std::string& text) override { Print(text); }

 private:
  static void Print(const std::string& line) { Err("{}\n", line); }
  void PrintHeld() {
    if (!held_) return;
    const LiveFigures f = *std::move(held_);
    held_.reset();
    interval_ = f.interval;
    last_ = clock_.Now();
    Nanos oldest = 0;
    for (const AgentLive& agent : f.agents) oldest = std::max(oldest, agent.oldest_age);
    const std::string stalled =
        f.max == 0 && f.outstanding > 0
            ? fmt::format(", {} outstanding, oldest {}", f.outstanding, FormatLatency(static_cast<double>(oldest)))
            : "";
    Print(fmt::format("{}: interval {}{} {} IOPS {}/s p50 {} p99 {} p99.9 {}{}{}{}", step_, f.interval,
                      f.in_window ? "" : " (warm-up)", FormatCount(f.iops), FormatBytesHuman(f.bytes_per_second),
                      LiveLatency(f, f.p50), LiveLatency(f, f.p99), LiveLatency(f, f.p999), stalled,
                      f.failed > 0 ? fmt::format(", {} failed so far", f.failed) : "",
                      f.provisional ? " provisional" : ""));
  }
  const size_t steps_;
  std::optional<LiveFigures> held_;  // newer than the last line
  const Clock& clock_;
  std::string step_;
  int64_t interval_ = -1;
  Nanos last_ = 0;
};

class JsonView : public QuietView {
 public:
  void OnRunStarted(const std::string& run_id, const std::string& path) override {
    Print(JsonRunStarted(run_id, path));
  }
  void OnPhase(const Step& step, PhaseKind phase, Nanos expected) override { Print(JsonPhase(step, phase, expected)); }
  void OnFillProgress(const FillProgress& fill) override { Print(JsonFill(fill)); }
  void OnLive(const Step& step, const LiveFigures& live) override { Print(JsonLive(step, live)); }
  void OnEvent(const std::string& text) override { Print(JsonText("event", text)); }
  void OnNote(const std::string& text) override { Print(JsonText("note", text)); }

 private:
  static void Print(const std::string& line) {
    Out("{}\n", line);
    FlushOut();
  }
};

class LiveView final : public RunView {
 public:
  LiveView(const Plan& plan, const Clock& clock) : plan_(plan), clock_(clock) {
    state_.steps = plan.steps.size();
    Err("\x1b[?25l");
    painter_ = std::thread([this] { Paint(); });
  }
  ~LiveView() override { LiveView::Close(); }

  void OnRunStarted(const std::string& run_id, const std::string& path) override {
    std::lock_guard lock(mutex_);
    state_.run_id = run_id;
    lines_above_.push_back("run file " + path);
  }
  void OnPhase(const Step& step, PhaseKind phase, Nanos expected) override {
    std::lock_guard lock(mutex_);
    state_.step_number = step.index + 1;
    state_.step_name = step.name;
    state_.phase = phase;
    state_.phase_expected = expected;
    state_.fill.reset();
    state_.live.reset();
    state_.history.clear();
    last_interval_ = -1;
    phase_start_ = clock_.Now();
  }
  void OnFillProgress(const FillProgress& fill) override {
    std::lock_guard lock(mutex_);
    state_.fill = fill;
  }
  void OnLive(const Step&, const LiveFigures& live) override {
    std::lock_guard lock(mutex_);
    state_.live = live;
    if (live.interval > last_interval_) {
      last_interval_ = live.interval;
      state_.history.push_back(live.iops);
      if (state_.history.size() > 500) state_.history.erase(state_.history.begin());
    }
  }
  void OnStepResult(const StepResult& result) override {
    const auto& fleet = result.figures.fleet;
    std::string line = fmt::format("{} {}", StepOutcomeName(result.outcome), result.step.name);
    if (!fleet.kinds.empty() && result.figures.window() > 0) {
      const auto& all = fleet.kinds.front();
      line += fmt::format(
          "  {} IOPS  mean {}  p99 {}",
          FormatCount(static_cast<double>(all.completed) * 1e9 / static_cast<double>(result.figures.window())),
          FormatLatency(all.response.moments().Mean()),
          FormatLatency(static_cast<double>(all.response.At(0.99).value)));
    }
    if (!result.message.empty()) line += "  " + result.message;
    std::lock_guard lock(mutex_);
    lines_above_.push_back(line);
  }
  void OnEvent(const std::string& text) override { OnNote(text); }
  void OnNote(const std::string& text) override {
    std::lock_guard lock(mutex_);
    state_.note = text;
    lines_above_.push_back("! " + text);
  }
  void Close() override {
    {
      std::lock_guard lock(mutex_);
      if (closed_) return;
      closed_ = true;
    }
    wake_.notify_all();
    painter_.join();
    Err("\x1b[?25h");
    std::fflush(stderr);
  }

 private:
  void Paint() {
    std::unique_lock lock(mutex_);
    while (!closed_) {
      Draw();
      wake_.wait_for(lock, std::chrono::milliseconds(500), [this] { return closed_; });
    }
    Erase();
    for (const auto& line : lines_above_) Err("{}\n", line);
    lines_above_.clear();
  }
  void Erase() {
    if (drawn_ > 0) Err("\x1b[{}A\r\x1b[J", drawn_);
    drawn_ = 0;
  }
  void Draw() {
    winsize size{};
    size_t width = 80;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20) width = size.ws_col;
    const Nanos now = clock_.Now();
    state_.phase_elapsed = now - phase_start_;
    state_.run_remaining = 0;
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      if (i + 1 > state_.step_number) state_.run_remaining += plan_.steps[i].estimated;
    }
    if (state_.phase_expected > 0)
      state_.run_remaining += std::max<Nanos>(0, state_.phase_expected - state_.phase_elapsed);
    if (state_.fill && state_.fill->eta) state_.run_remaining += *state_.fill->eta;
    Erase();
    for (const auto& line : lines_above_) Err("{}\n", line);
    lines_above_.clear();
    if (state_.step_number == 0) return;
    const auto lines = DrawLive(state_, width - 1);
    for (const auto& line : lines) Err("{}\n", line);
    drawn_ = lines.size();
    std::fflush(stderr);
  }

  const Plan& plan_;
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool closed_ = false;
  LiveState state_;
  Nanos phase_start_ = 0;
  int64_t last_interval_ = -1;
  size_t drawn_ = 0;
  std::vector<std::string> lines_above_;
  std::thread painter_;
};

}  // namespace

std::unique_ptr<RunView> MakeRunView(ViewMode mode, const Plan& plan, const Clock& clock) {
  switch (mode) {
    case ViewMode::kQuiet:
      return std::make_unique<QuietView>();
    case ViewMode::kPlain:
      return std::make_unique<PlainView>(plan, clock);
    case ViewMode::kLive:
      return std::make_unique<LiveView>(plan, clock);
    case ViewMode::kJson:
      return std::make_unique<JsonView>();
  }
  return std::make_unique<QuietView>();
}

}  // namespace muster
