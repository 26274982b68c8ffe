#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"

namespace muster {

// A run whose controller ended before it did, as far as its agents may still hold something of it.
struct InterruptedRun {
  std::string id, path;
  Nanos op_timeout = 0;
  std::map<std::string, uint64_t> committed;  // by agent of the run: the last report in the file; 0: none
  std::set<uint32_t> sealed;                  // steps that have a result: nothing is added to them
};

// Of the newest `most` runs below the directory those that are interrupted and that nobody writes. What cannot be read
// is left out: `muster results list` names it. Blocks on the disk.
std::vector<InterruptedRun> ReadInterrupted(const std::string& runs_dir, size_t most);

}  // namespace muster
