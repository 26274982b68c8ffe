#include "agent/engine/backend_facts.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace muster {
namespace {

constexpr size_t kLongest = 4'000;  // of a fact's value; messages carry 4,096 bytes

struct Values {
  std::string name;
  std::vector<std::pair<std::string, std::vector<std::string>>> by_value;  // value, whose; as first met
};

Values& Of(std::vector<Values>& all, const std::string& name) {
  const auto at = std::find_if(all.begin(), all.end(), [&](const Values& v) { return v.name == name; });
  return at != all.end() ? *at : all.emplace_back(Values{name, {}});
}

std::string Text(const Values& values, size_t backends) {
  if (values.by_value.size() == 1 && values.by_value.front().second.size() == backends) {
    return values.by_value.front().first;
  }
  std::string out;
  size_t left = values.by_value.size();
  for (const auto& [value, whose] : values.by_value) {
    const std::string part = fmt::format("{}: {}", fmt::join(whose, ", "), value);
    if (out.size() + part.size() > kLongest) return fmt::format("{}; and {} values more", out, left);
    out += (out.empty() ? "" : "; ") + part;
    --left;
  }
  return out;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> FoldFacts(const std::vector<BackendFacts>& backends) {
  std::vector<Values> all;
  for (const BackendFacts& backend : backends) {
    for (const auto& [name, value] : backend.parameters) {
      auto& by_value = Of(all, name).by_value;
      const auto at = std::find_if(by_value.begin(), by_value.end(),
                                   [&wanted = value](const auto& v) { return v.first == wanted; });
      if (at == by_value.end()) {
        by_value.push_back({value, {backend.whose}});
      } else {
        at->second.push_back(backend.whose);
      }
    }
  }
  std::vector<std::pair<std::string, std::string>> out;
  out.reserve(all.size());
  for (const Values& values : all) out.emplace_back("backend " + values.name, Text(values, backends.size()));
  return out;
}

}  // namespace muster
