#include "agent/backend/iscsi/counters.h"

#include <algorithm>

#include "agent/backend/iscsi/sense.h"
#include "common/base/native_code.h"

namespace muster {

void IscsiCounters::Event(int32_t native_code) {
  for (Named& event : events_) {
    if (event.count != 0 && event.code != native_code) continue;
    event.code = native_code;
    ++event.count;
    return;
  }
  ++other_events_;
}

void IscsiCounters::Windows(uint32_t smallest, uint32_t largest) {
  if (largest == 0 && smallest == 0) return;
  smallest_window = std::min(smallest_window, smallest);
  largest_window = std::max(largest_window, largest);
}

std::vector<std::pair<std::string, uint64_t>> IscsiCounters::List(Nanos now) const {
  std::vector<std::pair<std::string, uint64_t>> list = {
      {"time down ns", static_cast<uint64_t>(down.TotalAt(now))},
      {"time behind the command window ns", static_cast<uint64_t>(behind_window.TotalAt(now))},
      {"time behind the socket ns", static_cast<uint64_t>(behind_socket.TotalAt(now))}};
  const auto add = [&](std::string name, uint64_t count) {
    if (count != 0) list.emplace_back(std::move(name), count);
  };
  add("commands", commands);
  add("connections lost", connections_lost);
  add("reconnects", reconnects);
  add("failed reconnects", failed_attempts);
  add("operations timed out", timed_out);
  add("operations aborted", aborted);
  add("retries after BUSY or TASK SET FULL", busy_retries);
  add("retries after UNIT ATTENTION", attention_retries);
  add("header digest mismatches", bad_digests);
  if (largest_window != 0 || smallest_window != UINT32_MAX) {
    list.emplace_back("smallest command window", smallest_window);
    list.emplace_back("largest command window", largest_window);
  }
  for (const Named& event : events_) {
    if (event.count != 0) list.emplace_back(NativeCodeName(event.code), event.count);
  }
  add("other events", other_events_);
  return list;
}

}  // namespace muster
