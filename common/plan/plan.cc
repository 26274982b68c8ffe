#include "common/plan/plan.h"

namespace muster {

std::string_view PhaseKindName(PhaseKind kind) {
  switch (kind) {
    case PhaseKind::kAttach:
      return "attach";
    case PhaseKind::kFill:
      return "fill";
    case PhaseKind::kMeasure:
      return "measure";
    case PhaseKind::kDetach:
      return "detach";
  }
  return "unknown";
}

}  // namespace muster
