#include "controller/top/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "common/base/status.h"
#include "common/wire/codec.h"

namespace muster {
namespace {

constexpr int kSorts = 7;

template <typename News>
std::optional<LivePercentiles> LatencyOf(const News& news) {
  if (!news.has_p50_ns() || !news.has_p99_ns()) return std::nullopt;
  return LivePercentiles{.p50 = news.p50_ns(), .p99 = news.p99_ns()};
}

// What a row is sorted by, largest first; rows without the figure come last.
double Weight(const TopRow& row, TopSort sort) {
  if (!row.figures) return -2;
  switch (sort) {
    case TopSort::kIops:
      return row.iops;
    case TopSort::kBytes:
      return row.bytes_per_second;
    case TopSort::kP50:
      return row.latency ? static_cast<double>(row.latency->p50) : -1;
    case TopSort::kP99:
      return row.latency ? static_cast<double>(row.latency->p99) : -1;
    case TopSort::kOutstanding:
      return static_cast<double>(row.outstanding);
    case TopSort::kCpu:
      return row.cpu;
    case TopSort::kName:
      break;
  }
  return 0;
}

bool GoesOn(const v1::RunStatus& run) {
  return run.state() == v1::RUN_STATE_RUNNING || run.state() == v1::RUN_STATE_ENDING;
}

}  // namespace

const char* TopSortName(TopSort sort) {
  static constexpr const char* kNames[kSorts] = {"name", "IOPS", "MB/s", "p50", "p99", "out", "CPU"};
  return kNames[static_cast<size_t>(sort)];
}

Nanos TopRun::Left(Nanos now) const {
  const size_t after = std::min<size_t>(step, estimated.size());
  Nanos left = std::accumulate(estimated.begin() + static_cast<std::ptrdiff_t>(after), estimated.end(), Nanos{0});
  if (fill && fill->has_eta_ns()) return left + std::max<Nanos>(0, fill->eta_ns());
  if (phase_expected > 0) left += std::max<Nanos>(0, phase_expected - (now - phase_since));
  return left;
}

void TopModel::There(v1::AgentList agents, v1::RunList runs, Nanos now) {
  known_ = true;
  lost_.reset();
  list_ = std::move(agents);
  runs_ = std::move(runs);
  listed_ = now;
  // Agents that have gone and work for nothing that is shown are forgotten.
  std::set<std::string> wanted;
  for (const v1::AgentState& agent : list_.agents()) wanted.insert(agent.id());
  if (run_) wanted.insert(run_->agents.begin(), run_->agents.end());
  std::erase_if(histories_, [&](const auto& entry) { return wanted.count(entry.first) == 0; });
  SetPage(page_);
}

void TopModel::Lost(const absl::Status& why, Nanos now) {
  if (!lost_) lost_since_ = now;
  lost_ = FormatError(why);
  list_.Clear();
  runs_.Clear();
  run_.reset();
  histories_.clear();
  initiators_.clear();
  left_out_ = 0;
  scroll_ = 0;
}

void TopModel::Watching(const std::string& run) {
  if (run_ && run_->id == run) return;
  run_.emplace();
  run_->id = run;
  initiators_.clear();
  left_out_ = 0;
  SetPage(page_);
}

void TopModel::Note(const std::string& text) {
  if (run_) run_->note = text;
}

void TopModel::Live(const v1::LiveNews& live, Nanos now) {
  const bool is_new = !run_->live || live.interval() != run_->live->interval();
  run_->live = live;
  run_->live->clear_initiators();
  if (is_new) {
    run_->history.Add(now, live.iops());
    for (const v1::AgentLive& agent : live.agents()) histories_[agent.agent()].Add(now, agent.iops());
  }
  if (live.initiators().empty()) return;
  left_out_ = live.initiators_left_out();
  std::set<uint32_t> there;
  for (const v1::InitiatorLive& initiator : live.initiators()) {
    there.insert(initiator.initiator());
    Initiator& line = initiators_[initiator.initiator()];
    line.live = initiator;
    line.history.Add(now, initiator.iops());
  }
  std::erase_if(initiators_, [&](const auto& entry) { return there.count(entry.first) == 0; });
}

void TopModel::Event(const v1::RunEvent& event, Nanos now) {
  if (!run_) return;
  TopRun& run = *run_;
  switch (event.body_case()) {
    case v1::RunEvent::kPlanned: {
      const v1::RunPlanned& planned = event.planned();
      run.campaign = planned.campaign();
      run.steps.clear();
      run.estimated.clear();
      for (const v1::PlannedStep& step : planned.steps()) {
        run.steps.push_back(step.name());
        run.estimated.push_back(step.estimated_ns());
      }
      break;
    }
    case v1::RunEvent::kWaits:
      run.waits_for.assign(event.waits().waits_for().begin(), event.waits().waits_for().end());
      break;
    case v1::RunEvent::kBegan:
      run.waits_for.clear();
      run.agents.assign(event.began().agents().begin(), event.began().agents().end());
      break;
    case v1::RunEvent::kPhase:
      run.step = event.phase().step() + 1;
      if (const auto kind = FromProto(event.phase().phase()); kind.ok()) {
        run.phase = *kind;
      } else {
        run.phase.reset();
      }
      run.phase_expected = event.phase().expected_ns();
      run.phase_since = now - event.phase().elapsed_ns();
      run.fill.reset();
      run.live.reset();
      initiators_.clear();  // numbers are those of a step
      left_out_ = 0;
      SetPage(page_);
      break;
    case v1::RunEvent::kFill:
      run.fill = event.fill();
      break;
    case v1::RunEvent::kLive:
      Live(event.live(), now);
      break;
    case v1::RunEvent::kStep:
      run.note = fmt::format("step {} is {}{}{}", event.step().step() + 1, event.step().outcome(),
                             event.step().message().empty() ? "" : ": ", event.step().message());
      break;
    case v1::RunEvent::kTold:
      run.note = event.told();
      break;
    case v1::RunEvent::kEnded:
      run.outcome = event.ended().outcome();
      run.ended = now;
      if (event.ended().has_error()) run.note = event.ended().error().message();
      run.phase.reset();
      run.fill.reset();
      run.live.reset();
      run.agents.clear();
      initiators_.clear();
      left_out_ = 0;
      SetPage(page_);
      break;
    default:
      break;  // of a later release: it says nothing to this one
  }
}

std::string TopModel::Choice() const {
  std::string newest;
  for (const v1::RunStatus& run : runs_.runs()) {
    if (!GoesOn(run)) continue;
    // One whose end has been told is over, whatever an older list says.
    if (run_ && run.run() == run_->id) {
      if (run_->outcome.empty()) return run.run();
      continue;
    }
    newest = std::max(newest, run.run());  // ids begin with the time
  }
  return newest;
}

void TopModel::Press(TopKey key) {
  const size_t rows = RowCount();
  const size_t last = rows > page_ ? rows - page_ : 0;
  switch (key) {
    case TopKey::kAgents:
    case TopKey::kInitiators:
    case TopKey::kLinks:
      view_ = key == TopKey::kAgents       ? TopView::kAgents
              : key == TopKey::kInitiators ? TopView::kInitiators
                                           : TopView::kLinks;
      scroll_ = 0;
      break;
    case TopKey::kSort:
      sort_ = static_cast<TopSort>((static_cast<int>(sort_) + 1) % kSorts);
      break;
    case TopKey::kReverse:
      reversed_ = !reversed_;
      break;
    case TopKey::kUp:
      scroll_ -= scroll_ > 0 ? 1 : 0;
      break;
    case TopKey::kDown:
      ++scroll_;
      break;
    case TopKey::kPageUp:
      scroll_ -= std::min(scroll_, page_);
      break;
    case TopKey::kPageDown:
      scroll_ += page_;
      break;
    case TopKey::kHome:
      scroll_ = 0;
      break;
    case TopKey::kEnd:
      scroll_ = last;
      break;
    case TopKey::kQuit:
      return;
  }
  SetPage(page_);
}

void TopModel::SetPage(size_t lines) {
  page_ = std::max<size_t>(1, lines);
  const size_t rows = RowCount();
  scroll_ = std::min(scroll_, rows > page_ ? rows - page_ : 0);
}

size_t TopModel::RowCount() const {
  return view_ == TopView::kInitiators ? initiators_.size() : Rows(listed_).size();
}

TopRow TopModel::AgentRow(const std::string& id, const v1::AgentState* state, Nanos now) const {
  TopRow row;
  row.name = id;
  if (const auto found = histories_.find(id); found != histories_.end()) row.history = &found->second;
  if (state != nullptr) {
    row.host = state->hostname();
    row.build = state->build();
    row.run = state->run();
    row.link = state->link();
    row.linked = true;
    row.lease_left = std::max<Nanos>(0, state->lease_left_ns() - (now - listed_));
    row.clock_known = state->clock_known();
    row.offset = state->offset_ns();
    row.error = state->error_ns();
    row.state = row.run.empty() ? "idle" : run_ && row.run == run_->id ? "running" : "in other";
    if (row.link != "up") {
      row.state = row.link == "down" ? "NO LINK" : "SILENT";
      row.bad = true;
    }
  } else {
    row.state = "LOST";
    row.bad = true;
  }
  if (!run_ || !run_->live) return row;
  for (const v1::AgentLive& agent : run_->live->agents()) {
    if (agent.agent() != id) continue;
    row.figures = agent.interval() >= 0;
    row.iops = agent.iops();
    row.bytes_per_second = agent.bytes_per_second();
    row.outstanding = agent.outstanding();
    row.cpu = agent.cpu();
    row.latency = LatencyOf(agent);
    if (agent.silent() && !row.bad) {
      row.state = "SILENT";
      row.bad = true;
    }
  }
  return row;
}

std::vector<TopRow> TopModel::Rows(Nanos now) const {
  std::vector<TopRow> rows;
  if (view_ == TopView::kInitiators) {
    for (const auto& [number, line] : initiators_) {
      TopRow& row = rows.emplace_back();
      row.name = std::to_string(number);
      row.number = number;
      row.agent = line.live.agent();
      row.figures = true;
      row.iops = line.live.iops();
      row.bytes_per_second = line.live.bytes_per_second();
      row.outstanding = line.live.outstanding();
      row.latency = LatencyOf(line.live);
      row.history = &line.history;
    }
  } else {
    std::map<std::string, const v1::AgentState*> ids;
    if (run_) {
      for (const std::string& id : run_->agents) ids[id] = nullptr;
    }
    for (const v1::AgentState& agent : list_.agents()) ids[agent.id()] = &agent;
    for (const auto& [id, state] : ids) rows.push_back(AgentRow(id, state, now));
  }
  // By name they are already: the others keep that order where they are equal.
  if (sort_ != TopSort::kName) {
    std::stable_sort(rows.begin(), rows.end(),
                     [&](const TopRow& a, const TopRow& b) { return Weight(a, sort_) > Weight(b, sort_); });
  }
  if (reversed_) std::reverse(rows.begin(), rows.end());
  return rows;
}

}  // namespace muster
