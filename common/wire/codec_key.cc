#include <fmt/format.h>

#include "common/wire/codec.h"
#include "common/wire/invalid.h"

namespace muster {

absl::StatusOr<PhaseKind> FromProto(v1::PhaseKind kind) {
  switch (kind) {
    case v1::PHASE_KIND_ATTACH:
      return PhaseKind::kAttach;
    case v1::PHASE_KIND_FILL:
      return PhaseKind::kFill;
    case v1::PHASE_KIND_MEASURE:
      return PhaseKind::kMeasure;
    case v1::PHASE_KIND_DETACH:
      return PhaseKind::kDetach;
    default:
      return InvalidField("phase", fmt::format("no phase has the number {}", static_cast<int>(kind)));
  }
}

v1::PhaseKind ToProto(PhaseKind kind) {
  switch (kind) {
    case PhaseKind::kAttach:
      return v1::PHASE_KIND_ATTACH;
    case PhaseKind::kFill:
      return v1::PHASE_KIND_FILL;
    case PhaseKind::kMeasure:
      return v1::PHASE_KIND_MEASURE;
    case PhaseKind::kDetach:
      return v1::PHASE_KIND_DETACH;
  }
  return v1::PHASE_KIND_UNSPECIFIED;
}

v1::PhaseKey ToProto(const PhaseKey& key) {
  v1::PhaseKey out;
  out.set_run(key.run);
  out.set_step(key.step);
  out.set_phase(ToProto(key.phase));
  out.set_attempt(key.attempt);
  return out;
}

absl::StatusOr<PhaseKey> FromProto(const v1::PhaseKey& key) {
  auto phase = FromProto(key.phase());
  if (!phase.ok()) return AtPlace(phase.status(), "key");
  if (key.run().empty()) return InvalidField("key.run", "the run is not named");
  return PhaseKey{.run = key.run(), .step = key.step(), .phase = *phase, .attempt = key.attempt()};
}

v1::OpKind ToProto(OpKind kind) {
  switch (kind) {
    case OpKind::kRead:
      return v1::OP_KIND_READ;
    case OpKind::kWrite:
      return v1::OP_KIND_WRITE;
    case OpKind::kFlush:
      return v1::OP_KIND_FLUSH;
    case OpKind::kTrim:
      return v1::OP_KIND_TRIM;
  }
  return v1::OP_KIND_UNSPECIFIED;
}

absl::StatusOr<OpKind> FromProto(v1::OpKind kind) {
  switch (kind) {
    case v1::OP_KIND_READ:
      return OpKind::kRead;
    case v1::OP_KIND_WRITE:
      return OpKind::kWrite;
    case v1::OP_KIND_FLUSH:
      return OpKind::kFlush;
    case v1::OP_KIND_TRIM:
      return OpKind::kTrim;
    default:
      return InvalidField("kind", fmt::format("no operation kind has the number {}", static_cast<int>(kind)));
  }
}

v1::Outcome ToProto(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk:
      return v1::OUTCOME_OK;
    case Outcome::kIo:
      return v1::OUTCOME_IO;
    case Outcome::kTimeout:
      return v1::OUTCOME_TIMEOUT;
    case Outcome::kNoSpace:
      return v1::OUTCOME_NO_SPACE;
    case Outcome::kShort:
      return v1::OUTCOME_SHORT;
    case Outcome::kUnsupported:
      return v1::OUTCOME_UNSUPPORTED;
    case Outcome::kAborted:
      return v1::OUTCOME_ABORTED;
    case Outcome::kOther:
      return v1::OUTCOME_OTHER;
  }
  return v1::OUTCOME_UNSPECIFIED;
}

absl::StatusOr<Outcome> FromProto(v1::Outcome outcome) {
  switch (outcome) {
    case v1::OUTCOME_OK:
      return Outcome::kOk;
    case v1::OUTCOME_IO:
      return Outcome::kIo;
    case v1::OUTCOME_TIMEOUT:
      return Outcome::kTimeout;
    case v1::OUTCOME_NO_SPACE:
      return Outcome::kNoSpace;
    case v1::OUTCOME_SHORT:
      return Outcome::kShort;
    case v1::OUTCOME_UNSUPPORTED:
      return Outcome::kUnsupported;
    case v1::OUTCOME_ABORTED:
      return Outcome::kAborted;
    case v1::OUTCOME_OTHER:
      return Outcome::kOther;
    default:
      return InvalidField("outcome", fmt::format("no outcome has the number {}", static_cast<int>(outcome)));
  }
}

}  // namespace muster
