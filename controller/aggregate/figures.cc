#include "controller/aggregate/figures.h"

namespace muster {

std::string_view StepOutcomeName(StepOutcome outcome) {
  switch (outcome) {
    case StepOutcome::kValid:
      return "VALID";
    case StepOutcome::kInvalid:
      return "INVALID";
    case StepOutcome::kOverloaded:
      return "OVERLOADED";
    case StepOutcome::kCancelled:
      return "CANCELLED";
    case StepOutcome::kFailed:
      return "FAILED";
    case StepOutcome::kSkipped:
      return "SKIPPED";
    case StepOutcome::kInterrupted:
      return "INTERRUPTED";
  }
  return "FAILED";
}

}  // namespace muster
