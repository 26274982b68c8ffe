#include "controller/campaign/step_compiler.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/plan/layout.h"
#include "common/wire/codec.h"
#include "common/wire/rules.h"
#include "controller/campaign/step_rules.h"
#include "controller/campaign/sweep.h"
#include "fmt/format.h"

namespace muster {
namespace {

using Wide = unsigned __int128;

constexpr Nanos kFillNanosPerByte = 5;  // 200 MB/s, for the estimate only

FileLayout FilesOf(const Target& target) {
  const auto* file = std::get_if<FileTarget>(&target.kind);
  return file != nullptr ? file->files : FileLayout::kOne;
}

bool SameObjects(const std::vector<ObjectSpec>& a, const std::vector<ObjectSpec>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const ObjectSpec& x, const ObjectSpec& y) {
    return x.slot == y.slot && x.name == y.name && x.size == y.size;
  });
}

uint64_t BytesOf(const std::vector<ObjectSpec>& objects) {
  uint64_t bytes = 0;
  for (const ObjectSpec& object : objects) bytes += object.size;
  return bytes;
}

class StepCompiler {
 public:
  StepCompiler(const LoadedCampaign& campaign, int index, TargetState& state, Plan& plan, Problems& problems)
      : campaign_(campaign),
        index_(index),
        step_(campaign.message.steps(index)),
        path_(fmt::format("steps[{}]", index)),
        state_(state),
        plan_(plan),
        problems_(problems) {}

  void Compile() {
    const size_t before = problems_.size();
    shape_ = CheckStep(campaign_, index_, state_.target, problems_);
    SweepPoint base;
    base.initiators = campaign_.message.initiators().count();
    base.load = shape_.load;
    base.block = step_.workload().block();
    base.read = step_.workload().read();
    base.rate = step_.workload().rate();
    points_ =
        ExpandSweep(campaign_, step_.sweep(), path_ + ".sweep", base, kMaxPlanSteps - plan_.steps.size(), problems_);
    if (problems_.size() > before || !LayOut()) return;
    const size_t first = plan_.steps.size();
    for (const SweepPoint& point : points_) {
      if (!AddPoint(point)) return;
    }
    if (AllSkipped(first)) {
      AddTooSmall();
      return;
    }
    PlanFill(first);
    Estimate(first);
  }

 private:
  std::string Path(const std::string& option) const { return path_ + "." + option; }
  bool HasTrims() const { return step_.workload().trim() > 0; }
  // Trims are drawn before reads and writes: at 100% there is neither.
  bool Reads(const Workload& w) const { return w.trim < 1 && w.read > 0; }
  bool Writes(const Workload& w) const { return w.trim < 1 && w.read < 1; }

  // LUNs that the initiators are dealt over; 1 for everything else.
  uint64_t LunCount() const {
    const auto* iscsi = std::get_if<IscsiTarget>(&state_.target.kind);
    return iscsi == nullptr ? 1 : std::max<uint32_t>(1, iscsi->Objects(shape_.initiators_max));
  }

  uint64_t ObjectCount() const {
    switch (FilesOf(state_.target)) {
      case FileLayout::kOne:
        return LunCount();
      case FileLayout::kPerInitiator:
        return shape_.initiators_max;
      case FileLayout::kPerStream:
        return static_cast<uint64_t>(shape_.initiators_max) * shape_.streams_max;
    }
    return 1;
  }

  // The objects are the same for all points of a sweep, so they are whole in all of its block sizes that fit. Where
  // that costs next to nothing they are whole in the blocks of the target's other steps too: a set of the same size is
  // then the same objects in every step, and filled once.
  uint64_t RoundingBlock() const {
    constexpr uint64_t kMostLost = 64;  // at most 1/64 of the set
    std::set<uint64_t> blocks;
    for (const SweepPoint& point : points_) blocks.insert(point.block);
    const uint64_t share = shape_.size / ObjectCount();
    uint64_t unit = *blocks.begin();
    const auto widen = [&unit](const std::set<uint64_t>& by, uint64_t limit) {
      for (const uint64_t block : by) {
        const Wide common = static_cast<Wide>(unit) / std::gcd(unit, block) * block;
        if (common <= limit) unit = static_cast<uint64_t>(common);
      }
    };
    widen(blocks, share);
    widen(state_.blocks, share / kMostLost);
    return unit;
  }

  bool LayOut() {
    const uint64_t count = ObjectCount();
    if (count > kMaxStepObjects) {
      problems_.Add(campaign_.KeyAt(path_), "PLAN_TOO_LARGE",
                    fmt::format("{} initiators with {} streams have {} files: at most {}", shape_.initiators_max,
                                shape_.streams_max, count, kMaxStepObjects),
                    "Write files: per_initiator, or use fewer streams.");
      return false;
    }
    size_t in_plan = count * points_.size();
    for (const Step& step : plan_.steps) in_plan += step.objects.size();
    if (in_plan > kMaxPlanObjects) {
      problems_.Add(campaign_.KeyAt(path_), "PLAN_TOO_LARGE",
                    fmt::format("the steps up to here name {} files in all: at most {}", in_plan, kMaxPlanObjects),
                    "Sweep fewer values, or write files: per_initiator.");
      return false;
    }
    objects_ = LayOutObjects(state_.target, shape_.size, RoundingBlock(), shape_.initiators_max, shape_.streams_max);
    return true;
  }

  bool AddPoint(const SweepPoint& point) {
    v1::MeasureSpec spec;
    v1::Workload& w = *spec.mutable_workload();
    w = step_.workload();
    w.clear_size();
    w.clear_size_per_initiator();
    w.set_block(point.block);
    w.set_read(point.read);
    w.set_rate(point.rate);
    w.set_pacing(shape_.pacing == Pacing::kClosed  ? v1::PACING_CLOSED
                 : shape_.pacing == Pacing::kFixed ? v1::PACING_FIXED
                                                   : v1::PACING_POISSON);
    w.set_layout(shape_.layout == Layout::kShared ? v1::LAYOUT_SHARED : v1::LAYOUT_PARTITION);
    spec.set_total_size(shape_.size);
    spec.set_load(FormatLoad(point.load));
    spec.set_warmup_intervals(shape_.warmup_intervals);
    spec.set_window_intervals(shape_.window_intervals);
    const auto index = static_cast<uint32_t>(plan_.steps.size());
    // Each point draws its own accesses: one that repeated those of the point before would find them cached.
    spec.set_seed(MixSeed(campaign_.message.seed(), index));
    absl::StatusOr<MeasureSpec> measure = FromProto(spec);
    if (!measure.ok()) {
      problems_.Add(campaign_.At(Path("workload")), measure.status());
      return false;
    }
    Step step;
    step.index = index;
    step.name = point.NameOf(step_.name());
    step.campaign_step = step_.name();
    step.sweep_point = point.labels;
    step.target = state_.target.name;
    step.objects = objects_;
    step.initiators = point.initiators;
    step.initiators_max = shape_.initiators_max;
    step.measure = *std::move(measure);
    step.fill.block = step_.precondition().fill_block();
    step.fill.passes = 0;
    step.fill.seed = MixSeed(campaign_.message.seed(), index, 1);
    step.skip_reason = SkipReason(step);
    plan_.steps.push_back(std::move(step));
    return true;
  }

  // The smallest working set in which every stream of the point has a block.
  Wide NeededSize(const Step& step) const {
    const Workload& w = step.measure.workload;
    const Wide streams = w.pattern == Pattern::kSequential ? w.load.streams : 1;
    switch (FilesOf(state_.target)) {
      case FileLayout::kPerStream:
        return static_cast<Wide>(ObjectCount()) * w.block;
      case FileLayout::kPerInitiator:
        return step.initiators_max * streams * w.block;
      case FileLayout::kOne:
        break;
    }
    // Of the LUN that most initiators work on, times the LUNs.
    const Wide luns = LunCount();
    const auto sharing = [&](Wide count) { return (count + luns - 1) / luns; };
    if (w.layout == Layout::kPartition) return luns * sharing(step.initiators_max) * streams * w.block;
    return luns * (w.pattern == Pattern::kSequential ? sharing(step.initiators) * streams : Wide{1}) * w.block;
  }
  static std::string SizeText(Wide size) {
    return size > UINT64_MAX ? "more than 16777215TiB" : FormatSize(static_cast<uint64_t>(size));
  }

  // Parts of a set differ by one block, and the first is never larger than another: if it holds a block, all do.
  std::string SkipReason(const Step& step) const {
    const Workload& w = step.measure.workload;
    const StreamExtent extent = ExtentOf(state_.target, objects_, w, step.initiators, step.initiators_max, 0, 0);
    const uint64_t length = w.pattern == Pattern::kSequential ? extent.slice_length : extent.area_length;
    if (length >= w.block) return {};
    return fmt::format("the working set is too small: a stream's part holds no block of {}; {} would do",
                       FormatSize(w.block), SizeText(NeededSize(step)));
  }

  bool AllSkipped(size_t first) const {
    return std::all_of(plan_.steps.begin() + static_cast<std::ptrdiff_t>(first), plan_.steps.end(),
                       [](const Step& step) { return !step.skip_reason.empty(); });
  }

  void AddTooSmall() {
    const std::string option =
        campaign_.IsGiven(Path("workload.size")) ? "workload.size" : "workload.size_per_initiator";
    const Step* least = &plan_.steps.back();
    for (const Step& step : plan_.steps) {
      if (step.campaign_step == step_.name() && NeededSize(step) < NeededSize(*least)) least = &step;
    }
    const Wide needed = NeededSize(*least);
    const bool total = option == "workload.size";
    const Wide shown = total ? needed : (needed + shape_.initiators_max - 1) / shape_.initiators_max;
    problems_.Add(campaign_.At(Path(option)), "SET_TOO_SMALL",
                  fmt::format("a working set of {} is too small for {} initiators with {} and blocks of {}",
                              FormatSize(shape_.size), least->initiators, FormatLoad(least->measure.workload.load),
                              FormatSize(least->measure.workload.block)),
                  fmt::format("{} must be at least {}.", total ? "size" : "size_per_initiator", SizeText(shown)));
  }

  // The first point that is measured fills for all of the step, unless an earlier step has filled the same objects.
  void PlanFill(size_t first) {
    bool reads = false;
    Step* filler = nullptr;
    for (size_t i = first; i < plan_.steps.size(); ++i) {
      Step& step = plan_.steps[i];
      if (!step.skip_reason.empty()) continue;
      if (filler == nullptr) filler = &step;
      reads = reads || Reads(step.measure.workload);
    }
    const bool same = SameObjects(state_.objects, objects_);
    const bool is_file = std::holds_alternative<FileTarget>(state_.target.kind);
    const bool is_null = std::holds_alternative<NullTarget>(state_.target.kind);
    uint32_t passes = is_file && reads && !(same && state_.filled) ? 1 : 0;
    if (campaign_.IsGiven(Path("precondition.fill"))) passes = step_.precondition().fill();

    filler->fill_passes = passes;
    filler->fill.passes = passes;
    filler->bytes_written_at_least = passes * BytesOf(objects_);
    for (size_t i = first; i < plan_.steps.size(); ++i) {
      Step& step = plan_.steps[i];
      if (!step.skip_reason.empty()) continue;
      const Workload& w = step.measure.workload;
      // Creating a file is a write too: the first step that uses its size lays it out.
      const bool lays_out = is_file && !same && &step == filler;
      step.writes = step.fill_passes > 0 || Writes(w) || w.trim > 0 || w.flush_every > 0 || lays_out;
    }
    const bool filled = passes > 0 || (same && state_.filled);
    if (reads && !filled && !is_null) Warn("reads blocks that this run did not write");
    if (reads && filled && HasTrims()) Warn("reads blocks that it may have trimmed before");
    state_.filled = filled && !HasTrims();
    state_.objects = objects_;
  }

  void Warn(const std::string& what) {
    plan_.warnings.push_back(fmt::format("{}: step {} {}", campaign_.Place(path_), step_.name(), what));
  }

  void Estimate(size_t first) {
    for (size_t i = first; i < plan_.steps.size(); ++i) {
      Step& step = plan_.steps[i];
      if (!step.skip_reason.empty()) continue;
      const auto intervals =
          static_cast<Nanos>(step.measure.warmup_intervals) + static_cast<Nanos>(step.measure.window_intervals);
      // At most 100 passes over 2^50 bytes and 1024 hours: both fit.
      step.estimated = intervals * plan_.interval + static_cast<Nanos>(step.bytes_written_at_least) * kFillNanosPerByte;
    }
  }

  const LoadedCampaign& campaign_;
  const int index_;
  const v1::Step& step_;
  const std::string path_;
  TargetState& state_;
  Plan& plan_;
  Problems& problems_;
  StepShape shape_;
  std::vector<SweepPoint> points_;
  std::vector<ObjectSpec> objects_;
};

}  // namespace

void CompileStep(const LoadedCampaign& campaign, int index, TargetState& state, Plan& plan, Problems& problems) {
  StepCompiler(campaign, index, state, plan, problems).Compile();
}

}  // namespace muster
