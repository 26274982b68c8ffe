#include "agent/session/messages.h"

#include <fmt/format.h>

namespace muster::agent {

std::string KeyText(const PhaseKey& key) {
  return fmt::format("run {} step {} {} attempt {}", key.run, key.step, PhaseKindName(key.phase), key.attempt);
}

}  // namespace muster::agent
