#include "controller/campaign/problems.h"

#include <algorithm>
#include <tuple>

#include "common/base/status.h"
#include "fmt/format.h"

namespace muster {
namespace {
constexpr size_t kShown = 10;
}  // namespace

void Problems::Add(SourcePosition at, std::string code, std::string message, std::string next) {
  if (full()) return;
  problems_.push_back({at, std::move(code), std::move(message), std::move(next)});
}

void Problems::Add(SourcePosition at, const absl::Status& status) {
  ErrorInfo info = GetErrorInfo(status);
  Add(at, std::move(info.code), std::move(info.message), std::move(info.next));
}

std::string Problems::Place(SourcePosition at) const {
  return fmt::format("{}:{}:{}", file_, at.line, at.column);
}

absl::Status Problems::ToStatus() const {
  if (problems_.empty()) return absl::OkStatus();
  std::vector<const Problem*> order;
  order.reserve(problems_.size());
  for (const Problem& problem : problems_) order.push_back(&problem);
  std::stable_sort(order.begin(), order.end(), [](const Problem* a, const Problem* b) {
    return std::tie(a->at.line, a->at.column) < std::tie(b->at.line, b->at.column);
  });
  const Problem& first = *order.front();
  std::string next = first.next;
  if (order.size() > 1)
    next += fmt::format("{}and {}{} more:", next.empty() ? "" : "\n", full() ? "at least " : "", order.size() - 1);
  for (size_t i = 1; i < order.size() && i < kShown; ++i) {
    const Problem& p = *order[i];
    next += fmt::format("\n{}: {} [{}]{}{}", Place(p.at), p.message, p.code, p.next.empty() ? "" : " ", p.next);
  }
  if (order.size() > kShown) next += fmt::format("\n(and {} not shown)", order.size() - kShown);
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.code = first.code, .place = Place(first.at), .message = first.message, .next = std::move(next)});
}

}  // namespace muster
