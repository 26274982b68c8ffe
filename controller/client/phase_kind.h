#pragma once
#include <optional>

#include "common/plan/plan.h"
#include "muster/v1/common.pb.h"

namespace muster {

// Nothing for "unspecified" and for kinds of a later release.
inline std::optional<PhaseKind> PhaseKindOf(v1::PhaseKind kind) {
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
      return std::nullopt;
  }
}

}  // namespace muster
