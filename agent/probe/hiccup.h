#pragma once
#include <memory>

#include "common/base/clock.h"
#include "common/stats/histogram.h"

namespace muster {

// Hiccup meter: a thread sleeps 1 ms; a wake-up late by h records h, h - 1 ms, ... so a 200 ms
// stop is 200 samples. Tells what this host does to any timing.
class HiccupMeter {
 public:
  static std::unique_ptr<HiccupMeter> Start(const Clock& clock);
  virtual ~HiccupMeter() = default;  // stops and joins
  // Everything since the last Take; thread-safe, blocks for a histogram copy at most.
  virtual Histogram Take() = 0;
};

// One wake-up that came `late` (below 0 counts as in time): records late, late - 1 ms, ... 1 ms. After an hour's
// suspend these are 3.6 million samples, recorded in well under a second.
void RecordHiccup(Histogram& histogram, Nanos late);

}  // namespace muster
