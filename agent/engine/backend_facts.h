#pragma once
#include <string>
#include <utility>
#include <vector>

namespace muster {

// What one backend says of itself.
struct BackendFacts {
  std::string whose;  // "worker 1", or "3.0" for connection 0 of initiator 3
  std::vector<std::pair<std::string, std::string>> parameters;
};

// Those of all backends of a phase, one fact a parameter in the order of first mention, each name preceded by
// "backend ": the value if all say the same, else every value after whose it is ("0.0, 3.0: 262144; 6.0: 8192"). At
// most some 4,000 characters a fact; values that do not fit are counted. Pure.
std::vector<std::pair<std::string, std::string>> FoldFacts(const std::vector<BackendFacts>& backends);

}  // namespace muster
