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

std::string ForInitiator(const std::string& text, uint32_t initiator) {
  constexpr std::string_view kMark = "{initiator}";
  const std::string number = std::to_string(initiator);
  std::string out = text;
  for (size_t at = out.find(kMark); at != std::string::npos; at = out.find(kMark, at + number.size())) {
    out.replace(at, kMark.size(), number);
  }
  return out;
}

bool IsRemote(const Target& target) {
  return std::holds_alternative<IscsiTarget>(target.kind);
}

}  // namespace muster
