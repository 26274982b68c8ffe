#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/base/units.h"

// Plain structs of what is to be done: no protobuf, no behaviour. The controller compiles a campaign into them, the
// agent turns a Prepare message into them once (common/wire), and everything below that works on these alone.
namespace muster {

// ---- Targets ------------------------------------------------------------------------------------------------------

enum class LatencyShape : uint8_t { kConstant, kUniform, kExponential };

struct NullStall {
  Nanos at = 0;        // since the start of the phase
  Nanos duration = 0;  // nothing completes in [at, at + duration); what would have completes at its end
};

// No I/O: calibration of the agent's own ceiling and the workhorse of tests.
struct NullTarget {
  Nanos latency = 0;  // mean
  LatencyShape shape = LatencyShape::kConstant;
  std::vector<NullStall> stalls;
  double error_share = 0;    // 0..1 of operations end with EIO
  uint32_t queue_limit = 0;  // the backend is full beyond it; 0: as deep as asked
  uint64_t size = 0;         // pretended size in bytes; 0: as large as the working set
  bool hang = false;         // operations never complete (until Abort): for tests of deadlines
};

enum class FileLayout : uint8_t { kOne, kPerInitiator, kPerStream };

struct FileTarget {
  std::string dir;  // absolute; muster creates and marks it, and writes only below it
  FileLayout files = FileLayout::kOne;
  bool direct = true;
  bool keep = false;  // keep the files at the end; default: own files are removed
};

struct Overwrite {
  std::string id;     // WWID, serial, or for loop devices the backing file; must match the device
  uint64_t size = 0;  // bytes; must match
};

struct BlockTarget {
  std::string device;  // absolute path, links allowed (/dev/disk/by-id/...)
  bool direct = true;
  std::optional<Overwrite> overwrite;
};

// A secret: where it comes from, and once resolved what it is. The value lives in memory and in messages to agents
// only.
struct Secret {
  std::string reference;  // "env:NAME" or "file:/path"; empty: none
  std::string value;
};

inline constexpr uint32_t kPerStream = UINT32_MAX;

// LUNs through muster's own initiators, without kernel help. Each initiator has its own name and sessions and works on
// one LUN: initiator i on number i modulo the LUNs (or targets) there are.
struct IscsiTarget {
  std::vector<std::string> portals;  // "host:port"; initiators are dealt round-robin over (source, portal) pairs
  std::string iqn;                   // of the target; "{initiator}" stands for the initiator's number: a target each
  std::vector<uint32_t> luns;
  std::string initiator;             // name of the initiator, with {initiator}
  std::vector<std::string> sources;  // local addresses; empty: the system chooses
  uint32_t connections = 1;          // sessions of an initiator; kPerStream: one for each stream
  bool header_digest = false;        // CRC32C
  bool iser = false;
  std::string user, mutual_user;  // CHAP; empty: none
  Secret secret, mutual_secret;
  std::optional<Overwrite> overwrite;

  bool target_each() const { return iqn.find("{initiator}") != std::string::npos; }
  // Objects (LUNs) that `initiators` initiators use.
  uint32_t Objects(uint32_t initiators) const {
    return target_each() ? initiators : static_cast<uint32_t>(luns.size());
  }
};
// `text` with every {initiator} replaced by its number.
std::string ForInitiator(const std::string& text, uint32_t initiator);

struct Target {
  std::string name;
  std::variant<NullTarget, FileTarget, BlockTarget, IscsiTarget> kind;
};

// Reached over the network, so the same from every host: one guard for the fleet, one fill for the fleet.
bool IsRemote(const Target& target);

// One addressable thing of a target: a file or the device. `slot` is its index in the target's object list.
struct ObjectSpec {
  uint32_t slot = 0;
  std::string name;   // file name below the target's directory; "" for devices and null
  uint64_t size = 0;  // bytes of the working set in it
};

// ---- Workload -----------------------------------------------------------------------------------------------------

enum class Pattern : uint8_t { kSequential, kRandom };
enum class Layout : uint8_t { kShared, kPartition };
enum class Pacing : uint8_t { kClosed, kFixed, kPoisson };
enum class RatePer : uint8_t { kFleet, kInitiator, kStream };

struct Workload {
  uint64_t block = 4096;  // bytes an operation
  Pattern pattern = Pattern::kRandom;
  double read = 1.0;         // share of reads among reads and writes
  double trim = 0.0;         // share of trims among all operations; the rest is split by `read`
  uint32_t flush_every = 0;  // a flush after every N writes of a stream; 0: none
  uint64_t size = 0;         // total on the target, over all initiators; set by the compiler, never 0
  Layout layout = Layout::kShared;
  Load load;
  Pacing pacing = Pacing::kClosed;
  double rate = 0;  // operations per second, open loop only
  RatePer rate_per = RatePer::kFleet;
  uint32_t max_outstanding = 1024;      // per initiator, open loop
  Nanos overload_after = 30 * kSecond;  // oldest due operation has waited this long: OVERLOADED
  uint64_t seed = 1;
};

// ---- Phases -------------------------------------------------------------------------------------------------------

enum class PhaseKind : uint8_t { kAttach, kFill, kMeasure, kDetach };
std::string_view PhaseKindName(PhaseKind kind);  // "attach", "fill", "measure", "detach"

// Names one attempt of one phase everywhere: messages, reports, store.
struct PhaseKey {
  std::string run;
  uint32_t step = 0;
  PhaseKind phase = PhaseKind::kAttach;
  uint32_t attempt = 0;
  bool operator==(const PhaseKey&) const = default;
  auto operator<=>(const PhaseKey&) const = default;  // NOLINT(modernize-use-nullptr): the check misreads <=>
};

// A contiguous range that one agent fills, in this order, every block exactly once a pass.
struct FillExtent {
  uint32_t slot = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
};

struct FillSpec {
  uint64_t block = 1 << 20;
  uint32_t depth = 8;  // outstanding an agent
  uint32_t passes = 1;
  uint64_t seed = 1;
  std::vector<FillExtent> extents;  // of this agent
};

struct MeasureSpec {
  Workload workload;
  uint32_t warmup_intervals = 0;
  uint32_t window_intervals = 1;  // the window is intervals [warmup, warmup + window)
};

// What one agent is to do in one phase that does I/O. Immutable once prepared.
struct PhaseSpec {
  PhaseKey key;
  std::string target;                // name; must be attached
  std::vector<ObjectSpec> objects;   // of the target, all of them, by slot
  std::vector<uint32_t> initiators;  // fleet-wide indices of the initiators this agent carries in this phase
  uint32_t initiator_count = 0;      // in the fleet, in this step
  uint32_t initiator_count_max = 0;  // largest rung of the sweep: partition slices are size / this
  uint32_t initiators_sharing = 0;   // a fleet rate is split over so many; 0: all. Fewer after a loss
  Nanos interval = kSecond;          // D
  Nanos op_timeout = 90 * kSecond;
  std::variant<FillSpec, MeasureSpec> work;
};

// ---- Plan ---------------------------------------------------------------------------------------------------------

struct Step {
  uint32_t index = 0;
  uint32_t first_attempt = 0;  // above 0 in a resumed run: lower numbers were used by the run before it
  std::string name;            // unique: the campaign's step name, with the sweep point ("db[initiators=2,load=1T4Q]")
  std::string campaign_step;   // as written
  std::vector<std::pair<std::string, std::string>> sweep_point;  // ("initiators","2"), in the order written
  std::string target;
  std::vector<ObjectSpec> objects;
  uint32_t initiators = 1;
  uint32_t initiators_max = 1;
  uint32_t fill_passes = 0;  // 0: no fill phase in this step (an earlier step of the sweep filled, or none asked)
  FillSpec fill;             // extents empty here: dealt over the agents when the fill is prepared
  MeasureSpec measure;
  bool writes = false;                  // the step writes or trims in any phase: the write guard runs first
  Nanos estimated = 0;                  // fill estimated at 200 MB/s, measure exact
  uint64_t bytes_written_at_least = 0;  // by fill
  std::string skip_reason;              // not empty: the point cannot be measured and is reported as skipped
};

struct Plan {
  std::string name;  // of the campaign
  uint64_t seed = 1;
  std::vector<Target> targets;  // those used
  std::vector<Step> steps;
  Nanos interval = kSecond;
  Nanos op_timeout = 90 * kSecond;
  bool continue_on_loss = false;  // on_agent_loss: continue
  std::vector<std::string> warnings;
};

}  // namespace muster
