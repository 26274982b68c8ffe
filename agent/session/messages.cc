#include "agent/session/messages.h"

#include <fmt/format.h>

#include <tuple>

namespace muster::agent {

std::string KeyText(const PhaseKey& key) {
  return fmt::format("run {} step {} {} attempt {}", key.run, key.step + 1, PhaseKindName(key.phase), key.attempt);
}

bool IsAfter(const PhaseKey& a, const PhaseKey& b) {
  return std::tie(a.step, a.phase, a.attempt) > std::tie(b.step, b.phase, b.attempt);
}

}  // namespace muster::agent
