#include "controller/service/roles.h"

#include <map>
#include <string>

namespace muster {

std::optional<Role> RequiredRole(std::string_view method) {
  static const std::map<std::string_view, Role> kTable = {
      {"/muster.v1.AgentLink/Control", Role::kAgent},          {"/muster.v1.AgentLink/Report", Role::kAgent},
      {"/muster.v1.ControllerApi/ListAgents", Role::kViewer},  {"/muster.v1.ControllerApi/ListRuns", Role::kViewer},
      {"/muster.v1.ControllerApi/WatchRun", Role::kViewer},    {"/muster.v1.ControllerApi/GetResult", Role::kViewer},
      {"/muster.v1.ControllerApi/SubmitRun", Role::kOperator}, {"/muster.v1.ControllerApi/CancelRun", Role::kOperator},
  };
  const auto found = kTable.find(method);
  return found == kTable.end() ? std::nullopt : std::optional<Role>(found->second);
}

bool Allows(Role has, Role needs) {
  if (has == Role::kAgent || needs == Role::kAgent) return has == needs;
  return has == Role::kOperator || needs == Role::kViewer;
}

}  // namespace muster
