#include "controller/cli/run_outcome.h"

#include "common/base/status.h"
#include "controller/cli/json_events.h"
#include "controller/cli/output.h"
#include "controller/cli/verbs.h"

namespace muster {

int ExitCodeOf(const RunOutcome& outcome) {
  if (outcome.outcome == "complete") return outcome.any_invalid ? kExitVerdict : kExitOk;
  if (outcome.outcome == "cancelled") return kExitVerdict;
  return kExitInfrastructure;
}

int PrintOutcome(const RunOutcome& outcome, const std::string& text, const std::string& runs_dir, bool json) {
  const int exit_code = ExitCodeOf(outcome);
  if (json) {
    Out("{}\n", JsonOutcome(outcome, exit_code, text.empty() ? "null" : text));
  } else {
    Out("{}", text);
    if (!outcome.path.empty()) {
      // As it can be pasted: with the folder where that is not the usual one.
      const std::string where = runs_dir.empty() ? "" : "--runs " + runs_dir + " ";
      Out("\nrun {}: {}\nrun file: {}\ndetails:  muster results {}show {}\nexport:   muster results {}export {} "
          "--format json|csv|hlog\n",
          outcome.run_id, outcome.outcome, outcome.path, where, outcome.run_id, where, outcome.run_id);
    }
  }
  FlushOut();
  if (!outcome.error.ok()) Err("muster: {}\n", FormatError(outcome.error));
  return exit_code;
}

}  // namespace muster
