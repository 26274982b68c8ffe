#include <fmt/format.h>

#include <cmath>

#include "common/base/units.h"
#include "common/wire/codec.h"
#include "common/wire/invalid.h"

namespace muster {
namespace {

bool IsShare(double value) {
  return value >= 0 && value <= 1;
}  // false for NaN

absl::StatusOr<Workload> Decode(const v1::Workload& from) {
  Workload out;
  out.block = from.block();
  switch (from.pattern()) {
    case v1::PATTERN_UNSPECIFIED:
    case v1::PATTERN_RANDOM:
      out.pattern = Pattern::kRandom;
      break;
    case v1::PATTERN_SEQUENTIAL:
      out.pattern = Pattern::kSequential;
      break;
    default:
      return InvalidField("workload.pattern", "unknown pattern");
  }
  if (!IsShare(from.read())) return InvalidField("workload.read", "is no share between 0 and 1");
  if (!IsShare(from.trim())) return InvalidField("workload.trim", "is no share between 0 and 1");
  out.read = from.read();
  out.trim = from.trim();
  out.flush_every = from.flush_every();
  switch (from.layout()) {
    case v1::LAYOUT_UNSPECIFIED:
    case v1::LAYOUT_SHARED:
      out.layout = Layout::kShared;
      break;
    case v1::LAYOUT_PARTITION:
      out.layout = Layout::kPartition;
      break;
    default:
      return InvalidField("workload.layout", "unknown layout");
  }
  if (!std::isfinite(from.rate()) || from.rate() < 0) return InvalidField("workload.rate", "is no rate");
  out.rate = from.rate();
  switch (from.pacing()) {
    case v1::PACING_UNSPECIFIED:
      out.pacing = from.rate() > 0 ? Pacing::kPoisson : Pacing::kClosed;
      break;
    case v1::PACING_CLOSED:
      out.pacing = Pacing::kClosed;
      break;
    case v1::PACING_FIXED:
      out.pacing = Pacing::kFixed;
      break;
    case v1::PACING_POISSON:
      out.pacing = Pacing::kPoisson;
      break;
    default:
      return InvalidField("workload.pacing", "unknown pacing");
  }
  if (out.pacing != Pacing::kClosed && out.rate <= 0) {
    return InvalidField("workload.rate", "fixed and poisson pacing need a rate");
  }
  if (out.pacing == Pacing::kClosed && out.rate > 0) {
    return InvalidField("workload.rate", "closed pacing has no rate");
  }
  switch (from.rate_per()) {
    case v1::RATE_PER_UNSPECIFIED:
    case v1::RATE_PER_FLEET:
      out.rate_per = RatePer::kFleet;
      break;
    case v1::RATE_PER_INITIATOR:
      out.rate_per = RatePer::kInitiator;
      break;
    case v1::RATE_PER_STREAM:
      out.rate_per = RatePer::kStream;
      break;
    default:
      return InvalidField("workload.rate_per", "unknown scope of the rate");
  }
  out.max_outstanding = from.max_outstanding();
  if (from.overload_after() > static_cast<uint64_t>(kNever)) {
    return InvalidField("workload.overload_after", "is no duration");
  }
  out.overload_after = static_cast<Nanos>(from.overload_after());
  if (out.pacing != Pacing::kClosed && (out.max_outstanding == 0 || out.overload_after == 0)) {
    return InvalidField("workload.max_outstanding", "open loop needs max_outstanding and overload_after");
  }
  return out;
}

v1::Workload Encode(const Workload& from) {
  v1::Workload out;
  out.set_block(from.block);
  out.set_pattern(from.pattern == Pattern::kRandom ? v1::PATTERN_RANDOM : v1::PATTERN_SEQUENTIAL);
  out.set_read(from.read);
  out.set_trim(from.trim);
  out.set_flush_every(from.flush_every);
  out.set_layout(from.layout == Layout::kShared ? v1::LAYOUT_SHARED : v1::LAYOUT_PARTITION);
  switch (from.pacing) {
    case Pacing::kClosed:
      out.set_pacing(v1::PACING_CLOSED);
      break;
    case Pacing::kFixed:
      out.set_pacing(v1::PACING_FIXED);
      break;
    case Pacing::kPoisson:
      out.set_pacing(v1::PACING_POISSON);
      break;
  }
  if (from.rate > 0) out.set_rate(from.rate);  // present only where it is meant: its rule has a minimum above 0
  switch (from.rate_per) {
    case RatePer::kFleet:
      out.set_rate_per(v1::RATE_PER_FLEET);
      break;
    case RatePer::kInitiator:
      out.set_rate_per(v1::RATE_PER_INITIATOR);
      break;
    case RatePer::kStream:
      out.set_rate_per(v1::RATE_PER_STREAM);
      break;
  }
  out.set_max_outstanding(from.max_outstanding);
  out.set_overload_after(static_cast<uint64_t>(from.overload_after));
  return out;
}

// The campaign's two ways to say the size; the resolved one rules, but a message that contradicts itself is refused.
absl::Status CheckSizes(const v1::MeasureSpec& spec) {
  const uint64_t total = spec.total_size();
  if (spec.workload().size() != 0 && spec.workload().size() != total) {
    return InvalidField("measure.workload.size",
                        fmt::format("{} contradicts total_size {}", spec.workload().size(), total));
  }
  const uint64_t per_initiator = spec.workload().size_per_initiator();
  if (per_initiator != 0 && total % per_initiator != 0) {
    return InvalidField("measure.workload.size_per_initiator",
                        fmt::format("total_size {} is no multiple of {}", total, per_initiator));
  }
  return absl::OkStatus();
}

// What a stored plan may leave at 0 (a step without a fill, a skipped point) but no agent can carry out.
absl::Status CheckWork(const FillSpec& fill) {
  if (fill.block == 0 || fill.depth == 0 || fill.passes == 0) {
    return InvalidField("fill", "block, depth and passes must all be above 0");
  }
  return absl::OkStatus();
}

absl::Status CheckWork(const MeasureSpec& measure) {
  if (measure.workload.block == 0) return InvalidField("measure.workload.block", "an operation of 0 bytes");
  if (measure.workload.size == 0) return InvalidField("measure.total_size", "the working set is empty");
  if (measure.window_intervals == 0) return InvalidField("measure.window_intervals", "the window is empty");
  return absl::OkStatus();
}

absl::Status CheckExtents(const FillSpec& fill, const std::vector<ObjectSpec>& objects) {
  for (size_t i = 0; i < fill.extents.size(); ++i) {
    const FillExtent& extent = fill.extents[i];
    const std::string place = fmt::format("fill.extents[{}]", i);
    if (extent.slot >= objects.size()) return InvalidField(place, fmt::format("there is no object {}", extent.slot));
    const uint64_t size = objects[extent.slot].size;
    if (extent.offset > size || extent.length > size - extent.offset) {
      return InvalidField(
          place, fmt::format("{} bytes at {} reach beyond the object's {}", extent.length, extent.offset, size));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckInitiators(const PhaseSpec& spec) {
  if (spec.initiator_count > spec.initiator_count_max) {
    return InvalidField("initiator_count",
                        fmt::format("{} exceeds the largest rung {}", spec.initiator_count, spec.initiator_count_max));
  }
  if (spec.initiators_sharing != 0 &&
      (spec.initiators_sharing > spec.initiator_count || spec.initiators_sharing < spec.initiators.size())) {
    return InvalidField("initiators_sharing",
                        fmt::format("{} is not between this agent's {} initiators and the fleet's {}",
                                    spec.initiators_sharing, spec.initiators.size(), spec.initiator_count));
  }
  for (size_t i = 0; i < spec.initiators.size(); ++i) {
    const bool rising = i == 0 || spec.initiators[i] > spec.initiators[i - 1];
    if (!rising || spec.initiators[i] >= spec.initiator_count) {
      return InvalidField(fmt::format("initiators[{}]", i),
                          fmt::format("{} is not ascending below {}", spec.initiators[i], spec.initiator_count));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MeasureSpec> FromProto(const v1::MeasureSpec& spec) {
  MUSTER_RETURN_IF_ERROR(CheckSizes(spec));
  MeasureSpec out;
  auto workload = Decode(spec.workload());
  if (!workload.ok()) return AtPlace(workload.status(), "measure");
  out.workload = *std::move(workload);
  out.workload.size = spec.total_size();
  auto load = ParseLoad(spec.load());
  if (!load.ok()) return AtPlace(load.status(), "measure.load");
  out.workload.load = *load;
  out.workload.seed = spec.seed();
  out.warmup_intervals = spec.warmup_intervals();
  out.window_intervals = spec.window_intervals();
  return out;
}

v1::MeasureSpec ToProto(const MeasureSpec& spec) {
  v1::MeasureSpec out;
  *out.mutable_workload() = Encode(spec.workload);
  out.set_total_size(spec.workload.size);
  out.set_load(FormatLoad(spec.workload.load));
  out.set_seed(spec.workload.seed);
  out.set_warmup_intervals(spec.warmup_intervals);
  out.set_window_intervals(spec.window_intervals);
  return out;
}

absl::StatusOr<FillSpec> FromProto(const v1::FillSpec& spec) {
  FillSpec out{
      .block = spec.block(), .depth = spec.depth(), .passes = spec.passes(), .seed = spec.seed(), .extents = {}};
  out.extents.reserve(spec.extents_size());
  for (const v1::FillExtent& e : spec.extents()) {
    out.extents.push_back({.slot = e.slot(), .offset = e.offset(), .length = e.length()});
  }
  return out;
}

v1::FillSpec ToProto(const FillSpec& spec) {
  v1::FillSpec out;
  out.set_block(spec.block);
  out.set_depth(spec.depth);
  out.set_passes(spec.passes);
  out.set_seed(spec.seed);
  for (const FillExtent& extent : spec.extents) {
    v1::FillExtent* e = out.add_extents();
    e->set_slot(extent.slot);
    e->set_offset(extent.offset);
    e->set_length(extent.length);
  }
  return out;
}

absl::StatusOr<std::vector<ObjectSpec>> FromProto(const google::protobuf::RepeatedPtrField<v1::ObjectSpec>& objects) {
  std::vector<ObjectSpec> out;
  out.reserve(objects.size());
  for (const v1::ObjectSpec& o : objects) {
    const std::string place = fmt::format("objects[{}]", out.size());
    if (o.slot() != out.size()) return InvalidField(place, fmt::format("slot {} is out of order", o.slot()));
    // A name is one path component: nothing the network says may lead out of the target's directory.
    if (o.name() == "." || o.name() == ".." || o.name().find('/') != std::string::npos ||
        o.name().find('\0') != std::string::npos) {
      return InvalidField(place + ".name", "is no plain file name");
    }
    out.push_back({.slot = o.slot(), .name = o.name(), .size = o.size()});
  }
  return out;
}

void ToProto(const std::vector<ObjectSpec>& objects, google::protobuf::RepeatedPtrField<v1::ObjectSpec>* out) {
  out->Reserve(out->size() + static_cast<int>(objects.size()));
  for (const ObjectSpec& object : objects) {
    v1::ObjectSpec* o = out->Add();
    o->set_slot(object.slot);
    o->set_name(object.name);
    o->set_size(object.size);
  }
}

absl::StatusOr<PhaseSpec> FromProto(const v1::Prepare& prepare) {
  PhaseSpec out;
  MUSTER_ASSIGN_OR_RETURN(out.key, FromProto(prepare.key()));
  if (prepare.target_name().empty()) return InvalidField("target_name", "the target is not named");
  out.target = prepare.target_name();
  MUSTER_ASSIGN_OR_RETURN(out.objects, FromProto(prepare.objects()));
  out.initiators.assign(prepare.initiators().begin(), prepare.initiators().end());
  out.initiator_count = prepare.initiator_count();
  out.initiator_count_max = prepare.initiator_count_max();
  out.initiators_sharing = prepare.initiators_sharing();
  MUSTER_RETURN_IF_ERROR(CheckInitiators(out));
  if (prepare.interval_ns() <= 0) return InvalidField("interval_ns", "the interval must be above 0");
  if (prepare.op_timeout_ns() <= 0) return InvalidField("op_timeout_ns", "the op timeout must be above 0");
  out.interval = prepare.interval_ns();
  out.op_timeout = prepare.op_timeout_ns();
  switch (prepare.work_case()) {
    case v1::Prepare::kFill: {
      if (out.key.phase != PhaseKind::kFill) return InvalidField("fill", "the phase named is no fill");
      MUSTER_ASSIGN_OR_RETURN(FillSpec fill, FromProto(prepare.fill()));
      MUSTER_RETURN_IF_ERROR(CheckWork(fill));
      MUSTER_RETURN_IF_ERROR(CheckExtents(fill, out.objects));
      out.work = std::move(fill);
      return out;
    }
    case v1::Prepare::kMeasure: {
      if (out.key.phase != PhaseKind::kMeasure) return InvalidField("measure", "the phase named is no measurement");
      MUSTER_ASSIGN_OR_RETURN(MeasureSpec measure, FromProto(prepare.measure()));
      MUSTER_RETURN_IF_ERROR(CheckWork(measure));
      out.work = measure;
      return out;
    }
    case v1::Prepare::WORK_NOT_SET:
      break;
  }
  return InvalidField("work", "there is no work this version knows");
}

v1::Prepare ToProto(const PhaseSpec& spec) {
  v1::Prepare out;
  *out.mutable_key() = ToProto(spec.key);
  out.set_target_name(spec.target);
  ToProto(spec.objects, out.mutable_objects());
  for (uint32_t initiator : spec.initiators) out.add_initiators(initiator);
  out.set_initiator_count(spec.initiator_count);
  out.set_initiator_count_max(spec.initiator_count_max);
  out.set_initiators_sharing(spec.initiators_sharing);
  out.set_interval_ns(spec.interval);
  out.set_op_timeout_ns(spec.op_timeout);
  if (const auto* fill = std::get_if<FillSpec>(&spec.work)) *out.mutable_fill() = ToProto(*fill);
  if (const auto* measure = std::get_if<MeasureSpec>(&spec.work)) *out.mutable_measure() = ToProto(*measure);
  return out;
}

}  // namespace muster
