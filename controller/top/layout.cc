#include "controller/top/layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/units.h"
#include "controller/cli/live_view.h"
#include "controller/top/table.h"
#include "controller/top/text.h"

namespace muster {
namespace {

std::string Joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

class Painter {
 public:
  Painter(const TopModel& model, const TopSize& size, Nanos now) : model_(model), size_(size), now_(now) {}

  TopFrame Draw() {
    Title();
    if (model_.lost()) {
      Add({"controller lost for " + TopMinutes(now_ - model_.lost_since()) + ", waiting for it:", *model_.lost()},
          TopStyle::kWarn, 2);
    } else if (model_.known()) {
      if (model_.run()) Run(*model_.run());
      if (!model_.run() || !model_.run()->outcome.empty() || model_.run()->waits_for.size() > 0) Queue();
    }
    Table();
    return std::move(frame_);
  }

 private:
  void Add(std::vector<std::string> pieces, TopStyle style, size_t indent) {
    for (std::string& piece : pieces) piece = TopClean(piece, size_.utf8);
    for (std::string& line : TopWrap(pieces, size_.width, indent)) {
      if (frame_.lines.size() < Head()) frame_.lines.push_back({std::move(line), style});
    }
  }

  // Lines above the table, so that something is left for it: header, a row, help.
  size_t Head() const { return size_.height > 3 ? size_.height - 3 : 0; }

  void Title() {
    size_t running = 0, waiting = 0;
    for (const v1::RunStatus& run : model_.runs().runs()) {
      running += run.state() == v1::RUN_STATE_RUNNING || run.state() == v1::RUN_STATE_ENDING ? 1 : 0;
      waiting += run.state() == v1::RUN_STATE_WAITING ? 1 : 0;
    }
    std::vector<std::string> pieces = {"muster top"};
    if (model_.known() && !model_.lost()) {
      pieces.push_back(fmt::format("{} agent{}, {} running, {} waiting", model_.agent_count(),
                                   model_.agent_count() == 1 ? "" : "s", running, waiting));
      if (model_.runs().draining()) pieces.emplace_back("ENDING");
    }
    pieces.push_back(model_.address());
    std::string line = TopWrap(pieces, 4096, 0).front();
    frame_.lines.push_back({TopFit(TopClean(line, size_.utf8), size_.width), TopStyle::kTitle});
  }

  void Run(const TopRun& run) {
    const std::string what = fmt::format("run {}", run.id);
    if (!run.outcome.empty()) {
      Add({what, fmt::format("ended {} ago: {}", TopMinutes(now_ - run.ended), run.outcome), run.note},
          run.outcome == "complete" ? TopStyle::kPlain : TopStyle::kWarn, 2);
      return;
    }
    if (run.step == 0) {
      Add({what, run.waits_for.empty() ? "begins" : "waits for " + Joined(run.waits_for), run.note}, TopStyle::kPlain,
          2);
      return;
    }
    const std::string name = run.step <= run.steps.size() ? run.steps[run.step - 1] : std::string();
    Add({what, fmt::format("step {}/{} {}", run.step, run.steps.size(), name)}, TopStyle::kPlain, 2);
    Add({Phase(run), fmt::format("ETA {}", TopMinutes(run.Left(now_)))}, TopStyle::kPlain, 2);
    if (run.live) Fleet(run, *run.live);
    if (!run.note.empty() && size_.height >= 12) Add({"! " + run.note}, TopStyle::kDim, 2);
  }

  std::string Phase(const TopRun& run) const {
    const std::string phase = run.phase ? std::string(PhaseKindName(*run.phase)) : "-";
    if (run.fill) {
      const auto total = static_cast<double>(run.fill->bytes_total());
      const auto done = static_cast<double>(run.fill->bytes_done());
      return fmt::format("{} {:.0f} % of {} at {}/s", phase, total > 0 ? 100 * done / total : 0,
                         FormatBytesHuman(total), FormatBytesHuman(run.fill->bytes_per_second()));
    }
    const std::string elapsed = TopMinutes(now_ - run.phase_since);
    if (run.phase_expected <= 0) return fmt::format("{} {}", phase, elapsed);
    return fmt::format("{} {} of {}{}", phase, elapsed, TopMinutes(run.phase_expected),
                       run.live && !run.live->in_window() ? " (warm-up)" : "");
  }

  void Fleet(const TopRun& run, const v1::LiveNews& live) {
    const auto latency = [&](int64_t value) {
      return live.held() || live.max_ns() == 0 ? std::string("-") : FormatLatency(static_cast<double>(value));
    };
    Add({"fleet  " + FormatCount(live.iops()) + " IOPS", TopMegabytes(live.bytes_per_second()) + " MB/s",
         "p50 " + latency(live.p50_ns()), "p99 " + latency(live.p99_ns()),
         "max " + (live.max_ns() == 0 ? "-" : FormatLatency(static_cast<double>(live.max_ns()))),
         fmt::format("out {}", live.outstanding()), fmt::format("failed {}", live.failed()),
         live.provisional() ? "provisional" : ""},
        live.failed() > 0 || live.provisional() ? TopStyle::kWarn : TopStyle::kTitle, 7);
    if (size_.height >= 12 && size_.width > 20 && !run.history.empty()) {
      Add({"       " + TopSparkline(run.history, size_.width - 7, size_.utf8)}, TopStyle::kPlain, 0);
    }
  }

  // Between runs: what goes on elsewhere, what waits, and what ended last.
  void Queue() {
    const size_t most = std::max<size_t>(1, size_.height / 3);
    size_t shown = 0, waiting = 0;
    for (const v1::RunStatus& run : model_.runs().runs()) {
      if (model_.run() && run.run() == model_.run()->id) continue;
      std::string state;
      if (run.state() == v1::RUN_STATE_WAITING) {
        state = fmt::format("waits {} for {}", TopMinutes(run.since_ns()),
                            run.waits_for().empty() ? std::string("its turn")
                                                    : Joined({run.waits_for().begin(), run.waits_for().end()}));
        ++waiting;
      } else if (run.state() == v1::RUN_STATE_ENDED) {
        state = fmt::format("ended {} ago: {}", TopMinutes(run.since_ns()), run.outcome());
      } else {
        state = fmt::format("step {}/{}", run.step(), run.steps());
      }
      if (++shown > most) continue;
      Add({"run " + run.run(), state}, TopStyle::kPlain, 2);
    }
    if (shown > most) Add({fmt::format("  and {} more runs", shown - most)}, TopStyle::kDim, 2);
    if (waiting == 0 && (!model_.run() || model_.run()->waits_for.empty()))
      Add({"no run waits; `muster run CAMPAIGN --controller ADDRESS` starts one"}, TopStyle::kDim, 2);
  }

  void Table() {
    const std::vector<TopRow> rows = model_.lost() ? std::vector<TopRow>() : model_.Rows(now_);
    const size_t head = frame_.lines.size();
    frame_.rows = size_.height > head + 2 ? size_.height - head - 2 : 0;
    const size_t scroll = std::min(model_.scroll(), rows.size() > frame_.rows ? rows.size() - frame_.rows : 0);
    const TopTable table = DrawTopTable(model_.view(), rows, scroll, frame_.rows, size_);
    if (size_.height > head + 1) frame_.lines.push_back({table.header, TopStyle::kHeader});
    for (const TopLine& line : table.lines) frame_.lines.push_back(line);
    if (rows.empty() && frame_.rows > 0 && !model_.lost()) {
      frame_.lines.push_back({TopFit(Nothing(), size_.width), TopStyle::kDim});
    }
    while (frame_.lines.size() + 1 < size_.height) frame_.lines.emplace_back();
    if (frame_.lines.size() < size_.height) {
      const size_t to = std::min(rows.size(), scroll + frame_.rows);
      frame_.lines.push_back(
          {TopFit(Help(rows.empty() ? 0 : scroll + 1, to, rows.size()), size_.width), TopStyle::kHeader});
    }
    frame_.lines.resize(size_.height);
  }

  std::string Nothing() const {
    if (!model_.known()) return "waiting for the controller";
    if (model_.view() == TopView::kInitiators) return "no figures of initiators yet";
    return "no agent is there; start one with `muster-agent --controller ADDRESS`";
  }

  std::string Help(size_t from, size_t to, size_t all) const {
    const std::string more = model_.view() == TopView::kInitiators && model_.initiators_left_out() > 0
                                 ? fmt::format(" (+{})", model_.initiators_left_out())
                                 : "";
    return fmt::format("{}-{}/{}{}  q quit  a agents  i initiators  l links  s sort: {}{}  r reverse", from, to, all,
                       more, TopSortName(model_.sort()), model_.reversed() ? " up" : "");
  }

  const TopModel& model_;
  const TopSize& size_;
  const Nanos now_;
  TopFrame frame_;
};

}  // namespace

TopFrame DrawTop(const TopModel& model, const TopSize& size, Nanos now) {
  return Painter(model, size, now).Draw();
}

}  // namespace muster
