#include "controller/service/roles.h"

#include <map>
#include <string>

namespace muster {

std::optional<Role> RequiredRole(std::string_view method) {
  static const std::map<std::string_view, Role> kTable = {
      {"/muster.v1.AgentLink/Control", Role::kAgent},
      {"/muster.v1.AgentLink/Report", Role::kAgent},
  };
  const auto found = kTable.find(method);
  return found == kTable.end() ? std::nullopt : std::optional<Role>(found->second);
}

bool Allows(Role has, Role needs) {
  if (has == Role::kAgent || needs == Role::kAgent) return has == needs;
  return has == Role::kOperator || needs == Role::kViewer;
}

}  // namespace muster
