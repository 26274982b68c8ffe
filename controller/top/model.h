#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/plan/plan.h"
#include "controller/aggregate/figures.h"
#include "controller/top/history.h"
#include "muster/v1/controller_api.pb.h"

namespace muster {

enum class TopView : uint8_t { kAgents, kInitiators, kLinks };
enum class TopSort : uint8_t { kName, kIops, kBytes, kP50, kP99, kOutstanding, kCpu };
enum class TopKey : uint8_t {
  kQuit,
  kAgents,
  kInitiators,
  kLinks,
  kSort,  // by the next column
  kReverse,
  kUp,
  kDown,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
};
const char* TopSortName(TopSort sort);

// A line of the table. Figures are there with `figures`, link and clock with `linked`.
struct TopRow {
  std::string name;  // agent's id, or the number of an initiator
  uint32_t number = 0;
  std::string agent, state, host, build, run, link;
  bool bad = false;  // silent, lost, or its link is down
  bool figures = false, linked = false, clock_known = false;
  double iops = 0, bytes_per_second = 0, cpu = 0;
  std::optional<LivePercentiles> latency;
  uint64_t outstanding = 0;
  Nanos lease_left = 0, offset = 0, error = 0;
  const TopHistory* history = nullptr;  // valid until the model changes
};

// The run that is watched.
struct TopRun {
  std::string id, campaign;
  std::vector<std::string> agents;
  std::vector<std::string> steps;  // names, in order
  std::vector<Nanos> estimated;
  std::vector<std::string> waits_for;
  uint32_t step = 0;  // from 1; 0: none yet
  std::optional<PhaseKind> phase;
  Nanos phase_since = 0, phase_expected = 0;  // expected 0: unknown
  std::optional<v1::FillNews> fill;
  std::optional<v1::LiveNews> live;  // without initiators
  std::string note;                  // told last
  std::string outcome;               // once ended
  Nanos ended = 0;
  TopHistory history;
  Nanos Left(Nanos now) const;  // estimated time to its end
};

// What the screen of `muster top` shows, made of what a controller says and of the keys that were pressed. Pure: every
// instant is given. Not thread-safe. Memory: agents of the controller and of the run, LiveDetail::kInitiators
// initiators, each with TopHistory::kPoints.
class TopModel {
 public:
  explicit TopModel(std::string address) : address_(std::move(address)) {}

  void There(v1::AgentList agents, v1::RunList runs, Nanos now);
  // Nobody answers; everything known of it is forgotten but the run's id.
  void Lost(const absl::Status& why, Nanos now);
  // A run is watched from now on, or again: its events follow. Histories are kept if it is the same.
  void Watching(const std::string& run);
  void Event(const v1::RunEvent& event, Nanos now);
  void Note(const std::string& text);

  // kQuit is the caller's.
  void Press(TopKey key);
  // Lines that the table has on the screen: what a page is.
  void SetPage(size_t lines);

  std::vector<TopRow> Rows(Nanos now) const;  // of the view, sorted
  const std::string& address() const { return address_; }
  const std::optional<std::string>& lost() const { return lost_; }
  Nanos lost_since() const { return lost_since_; }
  bool known() const { return known_; }  // the controller has answered
  const v1::RunList& runs() const { return runs_; }
  size_t agent_count() const { return static_cast<size_t>(list_.agents_size()); }
  const std::optional<TopRun>& run() const { return run_; }
  TopView view() const { return view_; }
  TopSort sort() const { return sort_; }
  bool reversed() const { return reversed_; }
  size_t scroll() const { return scroll_; }
  uint32_t initiators_left_out() const { return left_out_; }
  // The run to watch if the user named none: the one watched while it goes on, else the newest that does; empty: none.
  std::string Choice() const;

 private:
  struct Initiator {
    v1::InitiatorLive live;
    TopHistory history;
  };
  void Live(const v1::LiveNews& live, Nanos now);
  size_t RowCount() const;
  TopRow AgentRow(const std::string& id, const v1::AgentState* state, Nanos now) const;

  const std::string address_;
  bool known_ = false;
  std::optional<std::string> lost_;
  Nanos lost_since_ = 0;
  v1::AgentList list_;
  v1::RunList runs_;
  Nanos listed_ = 0;
  std::optional<TopRun> run_;
  std::map<std::string, TopHistory> histories_;  // of agents
  std::map<uint32_t, Initiator> initiators_;
  uint32_t left_out_ = 0;
  TopView view_ = TopView::kAgents;
  TopSort sort_ = TopSort::kName;
  bool reversed_ = false;
  size_t scroll_ = 0, page_ = 1;
};

}  // namespace muster
