#include "controller/campaign/step_rules.h"

#include <algorithm>

#include "common/base/units.h"
#include "common/wire/rules.h"
#include "fmt/format.h"

namespace muster {
namespace {

constexpr uint64_t kMaxTotal = uint64_t{1} << 50;    // the limit of `size`: 1024TiB
constexpr uint64_t kMaxWarmupIntervals = 1'000'000;  // as MeasureSpec takes them
constexpr uint64_t kMaxWindowIntervals = 10'000'000;
constexpr uint64_t kSector = 512;
constexpr uint64_t kDeviceEnds = uint64_t{2} << 20;  // labelled devices: no I/O to the first and last MiB

class StepChecker {
 public:
  StepChecker(const LoadedCampaign& campaign, int index, const Target& target, Problems& problems)
      : campaign_(campaign),
        step_(campaign.message.steps(index)),
        target_(target),
        path_(fmt::format("steps[{}]", index)),
        problems_(problems) {}

  StepShape Check() {
    CheckSwept("load", "sweep.load");
    CheckSwept("workload.block", "sweep.block");
    CheckSwept("workload.read", "sweep.read");
    CheckSwept("workload.rate", "sweep.rate");
    CheckBlocks();
    CheckPacing();
    CheckLoad();
    CheckLayout();
    CheckKinds();
    CheckSize();
    CheckWindow();
    return shape_;
  }

 private:
  std::string Path(const std::string& option) const { return path_ + "." + option; }
  bool IsGiven(const std::string& option) const { return campaign_.IsGiven(Path(option)); }

  // Two keys that cannot both stand: the later one is the place, the other is named with its own.
  void Contradict(const std::string& one, const std::string& other, const std::string& why, const std::string& next) {
    SourcePosition at = campaign_.KeyAt(Path(one));
    SourcePosition first = campaign_.KeyAt(Path(other));
    std::string late = one;
    std::string early = other;
    if (std::pair(first.line, first.column) > std::pair(at.line, at.column)) {
      std::swap(at, first);
      std::swap(late, early);
    }
    problems_.Add(at, "CONTRADICTION",
                  fmt::format("{} contradicts {} at {}:{}: {}", late, early, first.line, first.column, why), next);
  }

  void CheckSwept(const std::string& option, const std::string& sweep) {
    if (IsGiven(option) && IsGiven(sweep)) {
      Contradict(option, sweep, "the sweep sets it", "Remove one of them.");
    }
  }

  void CheckBlock(const std::string& path, uint64_t block) {
    if (block % kSector == 0) return;
    const uint64_t below = std::max(block / kSector, uint64_t{1}) * kSector;
    problems_.Add(campaign_.At(path), "BLOCK_NOT_ALIGNED",
                  fmt::format("a block of {} bytes is not a multiple of 512", block),
                  fmt::format("The nearest are {} and {}.", FormatSize(below), FormatSize(below + kSector)));
  }

  void CheckBlocks() {
    if (IsGiven("workload.block")) CheckBlock(Path("workload.block"), step_.workload().block());
    if (IsGiven("precondition.fill_block")) {
      CheckBlock(Path("precondition.fill_block"), step_.precondition().fill_block());
    }
    for (int i = 0; i < step_.sweep().block_size(); ++i) {
      CheckBlock(fmt::format("{}.sweep.block[{}]", path_, i), step_.sweep().block(i));
    }
  }

  void CheckPacing() {
    const v1::Workload& w = step_.workload();
    const std::string rate = IsGiven("sweep.rate") ? "sweep.rate" : "workload.rate";
    const bool has_rate = IsGiven("sweep.rate") || IsGiven("workload.rate");
    switch (w.pacing()) {
      case v1::PACING_FIXED:
        shape_.pacing = Pacing::kFixed;
        break;
      case v1::PACING_POISSON:
        shape_.pacing = Pacing::kPoisson;
        break;
      case v1::PACING_CLOSED:
        shape_.pacing = Pacing::kClosed;
        break;
      default:
        shape_.pacing = has_rate ? Pacing::kPoisson : Pacing::kClosed;
    }
    if (shape_.pacing == Pacing::kClosed && has_rate) {
      Contradict("workload.pacing", rate, "a closed loop has no rate", "Remove the rate, or write pacing: poisson.");
    }
    if (shape_.pacing != Pacing::kClosed && !has_rate) {
      problems_.Add(campaign_.At(Path("workload.pacing")), "CONTRADICTION",
                    "fixed and poisson pacing need a rate, and none is given", "Add rate, for example rate: 10k/s.");
    }
    if (shape_.pacing == Pacing::kClosed && !has_rate) CheckNoOpenLoopOptions();
    if (shape_.pacing != Pacing::kClosed && w.overload_after() < campaign_.message.interval()) {
      problems_.Add(campaign_.At(Path("workload.overload_after")), "CONTRADICTION",
                    fmt::format("overload_after {} is shorter than the interval of {}",
                                FormatDuration(static_cast<Nanos>(w.overload_after())),
                                FormatDuration(static_cast<Nanos>(campaign_.message.interval()))),
                    "It must be at least one interval.");
    }
  }

  void CheckNoOpenLoopOptions() {
    for (const std::string option : {"rate_per", "max_outstanding", "overload_after"}) {
      if (!IsGiven("workload." + option)) continue;
      problems_.Add(campaign_.KeyAt(Path("workload." + option)), "CONTRADICTION",
                    fmt::format("{} is an option of the open loop, but no rate is given", option),
                    "Remove it, or add rate.");
    }
  }

  void CheckDepth(const std::string& path, const Load& load) {
    if (shape_.pacing == Pacing::kClosed || load.depth <= 1) return;
    problems_.Add(
        campaign_.At(path), "CONTRADICTION",
        fmt::format("a queue depth of {} has no meaning in the open loop: the rate decides what is outstanding",
                    load.depth),
        fmt::format("Write {}T1Q; max_outstanding bounds what is with the backend.", load.streams));
  }

  void CheckLoad() {
    shape_.load = ParseLoad(step_.load()).value_or(Load{});
    shape_.streams_max = shape_.load.streams;
    if (IsGiven("load")) CheckDepth(Path("load"), shape_.load);
    if (step_.sweep().load_size() > 0) shape_.streams_max = 1;
    for (int i = 0; i < step_.sweep().load_size(); ++i) {
      const Load load = ParseLoad(step_.sweep().load(i)).value_or(Load{});
      CheckDepth(fmt::format("{}.sweep.load[{}]", path_, i), load);
      shape_.streams_max = std::max(shape_.streams_max, load.streams);
    }
    shape_.initiators_max = campaign_.message.initiators().count();
    if (step_.sweep().initiators_size() > 0) shape_.initiators_max = 1;
    for (const uint32_t n : step_.sweep().initiators()) shape_.initiators_max = std::max(shape_.initiators_max, n);
  }

  void CheckLayout() {
    const auto* file = std::get_if<FileTarget>(&target_.kind);
    const bool own_files = file != nullptr && file->files != FileLayout::kOne;
    switch (step_.workload().layout()) {
      case v1::LAYOUT_SHARED:
        shape_.layout = Layout::kShared;
        break;
      case v1::LAYOUT_PARTITION:
        shape_.layout = Layout::kPartition;
        break;
      default:
        shape_.layout = own_files ? Layout::kPartition : Layout::kShared;
    }
    if (!own_files || shape_.layout != Layout::kShared) return;
    const SourcePosition files = campaign_.KeyAt(fmt::format("targets.{}.file.files", target_.name));
    problems_.Add(campaign_.KeyAt(Path("workload.layout")), "CONTRADICTION",
                  fmt::format("layout shared contradicts files {} at {}:{}: each has files of its own",
                              file->files == FileLayout::kPerInitiator ? "per_initiator" : "per_stream", files.line,
                              files.column),
                  "Remove layout, or write files: one.");
  }

  void CheckKinds() {
    const v1::Workload& w = step_.workload();
    if (w.flush_every() == 0) return;
    if (w.trim() >= 1) {
      Contradict("workload.flush_every", "workload.trim", "with 100% trims there are no writes to count",
                 "Remove one of them.");
      return;
    }
    const auto& swept = step_.sweep().read();
    const bool writes =
        swept.empty() ? w.read() < 1 : std::any_of(swept.begin(), swept.end(), [](double r) { return r < 1; });
    if (!writes) {
      problems_.Add(campaign_.KeyAt(Path("workload.flush_every")), "CONTRADICTION",
                    "flush_every counts writes, but read is 100%", "Remove it, or let some operations write.");
    }
  }

  void CheckSize() {
    const v1::Workload& w = step_.workload();
    const bool size = IsGiven("workload.size");
    const bool each = IsGiven("workload.size_per_initiator");
    if (size && each) {
      Contradict("workload.size", "workload.size_per_initiator", "exactly one of them gives the working set",
                 "Remove one of them.");
      return;
    }
    if (!size && !each) {
      problems_.Add(campaign_.At(Path("workload")), "MISSING_KEY",
                    fmt::format("{}.workload needs size or size_per_initiator", path_), "For example size: 10GiB.");
      return;
    }
    shape_.size = size ? w.size() : w.size_per_initiator() * shape_.initiators_max;  // 2^50 * 2^12 fits
    if (shape_.size > kMaxTotal) {
      problems_.Add(campaign_.At(Path("workload.size_per_initiator")), "UNIT_RANGE",
                    fmt::format("{} for each of {} initiators is more than 1024TiB in all",
                                FormatSize(w.size_per_initiator()), shape_.initiators_max));
    }
    CheckFits(size ? "workload.size" : "workload.size_per_initiator");
  }

  // The size of a device is known here only where the campaign names it.
  void CheckFits(const std::string& option) {
    const auto* block = std::get_if<BlockTarget>(&target_.kind);
    const auto* iscsi = std::get_if<IscsiTarget>(&target_.kind);
    const std::optional<Overwrite> named = block != nullptr   ? block->overwrite
                                           : iscsi != nullptr ? iscsi->overwrite
                                                              : std::nullopt;
    if (!named.has_value()) return;
    const uint64_t device = named->size;
    const uint64_t room = device > kDeviceEnds ? device - kDeviceEnds : 0;
    if (shape_.size <= room) return;
    problems_.Add(campaign_.At(Path(option)), "SET_TOO_LARGE",
                  fmt::format("a working set of {} does not fit a device of {}: its first and last MiB are not used",
                              FormatSize(shape_.size), FormatSize(device)),
                  fmt::format("At most {}.", FormatSize(room)));
  }

  uint32_t WholeIntervals(const std::string& option, uint64_t length, uint64_t least, uint64_t most) {
    const uint64_t interval = std::max<uint64_t>(campaign_.message.interval(), 1);
    // Nobody can be wrong with what they did not write: a default becomes whole.
    if (!IsGiven("measure." + option)) length = (length + interval - 1) / interval * interval;
    const uint64_t whole = length / interval;
    if (length % interval != 0 || whole < least) {
      const uint64_t below = std::max(whole, least);
      const uint64_t above = whole < least ? below : below + 1;
      std::string next = fmt::format("The nearest {} {}", above == below ? "is" : "are",
                                     FormatDuration(static_cast<Nanos>(below * interval)));
      if (above != below) next += fmt::format(" and {}", FormatDuration(static_cast<Nanos>(above * interval)));
      problems_.Add(
          campaign_.At(Path("measure." + option)), "WINDOW_NOT_WHOLE",
          fmt::format("{} {} is no whole number of intervals of {}", option, FormatDuration(static_cast<Nanos>(length)),
                      FormatDuration(static_cast<Nanos>(interval))),
          next + ".");
      return 0;
    }
    if (whole > most) {
      problems_.Add(campaign_.At(Path("measure." + option)), "UNIT_RANGE",
                    fmt::format("{} has {} intervals: at most {}", option, whole, most),
                    "Write a longer interval, or measure shorter.");
      return 0;
    }
    return static_cast<uint32_t>(whole);
  }

  void CheckWindow() {
    const v1::Measure& m = step_.measure();
    shape_.warmup_intervals = WholeIntervals("warmup", m.warmup(), 0, kMaxWarmupIntervals);
    shape_.window_intervals = WholeIntervals("window", m.window(), 1, kMaxWindowIntervals);
  }

  const LoadedCampaign& campaign_;
  const v1::Step& step_;
  const Target& target_;
  const std::string path_;
  Problems& problems_;
  StepShape shape_;
};

}  // namespace

StepShape CheckStep(const LoadedCampaign& campaign, int index, const Target& target, Problems& problems) {
  return StepChecker(campaign, index, target, problems).Check();
}

}  // namespace muster
