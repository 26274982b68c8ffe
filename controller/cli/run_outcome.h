#pragma once
#include <string>

#include "controller/run/run_control.h"

namespace muster {

// 0: every step VALID; 1: a verdict failed, or cancelled; 3: failed or aborted.
int ExitCodeOf(const RunOutcome& outcome);

// The end of `run` and `watch`: the table (or the document of `results show --json`), where the run file lies and how
// to look at it again. `text`: table or document, empty when there is no run file. `runs_dir`: where the file lies, if
// that is not the usual place. Returns ExitCodeOf.
int PrintOutcome(const RunOutcome& outcome, const std::string& text, const std::string& runs_dir, bool json);

}  // namespace muster
