#include "controller/verdict/verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/base/native_code.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace muster {
namespace {

constexpr size_t kNamed = 8;  // examples in one evidence text

Check Make(const char* name, CheckOutcome outcome, std::string evidence) {
  return Check{.name = name, .outcome = outcome, .evidence = std::move(evidence)};
}

bool NothingDelivered(const StepFigures& figures) {
  return figures.initiators_heard == 0;
}

std::string Lost(const StepFigures& figures) {
  return fmt::format("{}", fmt::join(figures.lost_agents, ", "));
}

Check Sums(const StepFigures& figures) {
  if (!figures.sums_error.ok()) return Make("sums", CheckOutcome::kFail, FormatError(figures.sums_error));
  if (NothingDelivered(figures)) {
    return Make("sums", CheckOutcome::kNotEvaluated, "no initiator delivered an interval: there is nothing to add up");
  }
  if (!figures.lost_agents.empty()) {
    return Make("sums", CheckOutcome::kNotEvaluated,
                fmt::format("what was delivered adds up, but these agents were lost, so their totals cannot be relied "
                            "on to be there: {}",
                            Lost(figures)));
  }
  const KindFigures* pooled = figures.fleet.kinds.empty() ? nullptr : &figures.fleet.kinds.front();
  return Make("sums", CheckOutcome::kPass,
              fmt::format("{} operations and {} bytes in the window; for each of {} initiators and kinds submitted = "
                          "completed + failed + aborted + abandoned, histogram counts = completed, sum over intervals "
                          "= totals; sum over initiators = fleet",
                          pooled == nullptr ? 0 : pooled->completed, pooled == nullptr ? 0 : pooled->bytes,
                          figures.initiators_heard));
}

Check Coverage(const StepFigures& figures) {
  std::string evidence = fmt::format("{} initiators asked, {} heard, {} agents lost", figures.initiators_asked,
                                     figures.initiators_heard, figures.lost_agents.size());
  if (!figures.lost_agents.empty()) evidence += ": " + Lost(figures);
  if (!figures.left_out.empty()) {
    evidence += fmt::format("; measured anew without {} ({} initiators), as on_agent_loss: continue says",
                            fmt::join(figures.left_out, ", "), figures.left_out_initiators);
  }
  const bool whole =
      figures.lost_agents.empty() && figures.initiators_heard + figures.left_out_initiators == figures.initiators_asked;
  if (figures.lost_agents.empty() && NothingDelivered(figures) && figures.missing_count == 0) {
    return Make("coverage", CheckOutcome::kNotEvaluated, evidence + "; the phase ended before its first interval");
  }
  const KindFigures* pooled = figures.fleet.kinds.empty() ? nullptr : &figures.fleet.kinds.front();
  if (whole && figures.intervals == figures.intervals_asked && (pooled == nullptr || pooled->completed == 0)) {
    return Make("coverage", CheckOutcome::kFail,
                evidence + "; no operation succeeded in the window: nothing was measured");
  }
  const CheckOutcome outcome = !whole                     ? CheckOutcome::kFail
                               : figures.left_out.empty() ? CheckOutcome::kPass
                                                          : CheckOutcome::kWarn;
  return Make("coverage", outcome, std::move(evidence));
}

Check Errors(const StepFigures& figures) {
  uint64_t failed = 0;
  uint64_t aborted = 0;
  std::vector<std::string> classes;
  for (const ErrorFigures& error : figures.errors) {
    if (error.outcome == Outcome::kAborted) {
      aborted += error.count;
      continue;
    }
    failed += error.count;
    if (classes.size() < kNamed) {
      classes.push_back(fmt::format("{} {} {} ({})", error.count, OpKindName(error.kind), OutcomeName(error.outcome),
                                    NativeCodeName(error.native_code)));
    }
  }
  std::string evidence = fmt::format("{} failed operations in the whole phase, limit 0", failed);
  if (!classes.empty()) evidence += fmt::format(": {}", fmt::join(classes, ", "));
  // Ending a phase early aborts what is outstanding; that says nothing about the target.
  if (aborted != 0) evidence += fmt::format("; {} aborted by the end of the phase, not counted", aborted);
  if (failed != 0) return Make("errors", CheckOutcome::kFail, std::move(evidence));
  if (NothingDelivered(figures)) {
    return Make("errors", CheckOutcome::kNotEvaluated, "no initiator delivered an interval");
  }
  return Make("errors", CheckOutcome::kPass, std::move(evidence));
}

Check Intervals(const StepFigures& figures) {
  const uint32_t last = figures.first_interval + figures.intervals_asked;
  const std::string window = fmt::format("{} of {} intervals of the window [{}, {}) delivered by every initiator",
                                         figures.intervals, figures.intervals_asked, figures.first_interval, last);
  if (figures.missing_count != 0) {
    const size_t shown = std::min(figures.missing.size(), kNamed);
    std::string evidence = fmt::format("{}; {} missing: {}", window, figures.missing_count,
                                       fmt::join(figures.missing.begin(), figures.missing.begin() + shown, ", "));
    if (figures.missing_count > shown) evidence += fmt::format(" and {} more", figures.missing_count - shown);
    return Make("intervals", CheckOutcome::kFail, std::move(evidence));
  }
  if (figures.intervals == 0) {
    return Make("intervals", CheckOutcome::kNotEvaluated, window + "; the phase ended before the window began");
  }
  if (figures.intervals < figures.intervals_asked) {
    return Make("intervals", CheckOutcome::kNotEvaluated,
                window + ", none missing until the phase ended early; the window asked for was not measured");
  }
  return Make("intervals", CheckOutcome::kPass, window);
}

Check OperationAge(const StepFigures& figures, Nanos op_timeout) {
  uint64_t old = 0;
  uint64_t unended = 0;
  for (const StraggleOp& op : figures.stragglers) {
    if (op.age_at_end > op_timeout) ++old;
    if (!op.ended) ++unended;
  }
  std::string evidence = fmt::format(
      "{} operations outstanding at the end, oldest {} when it ended, {} older than the op timeout of {} "
      "at the end, {} never ended",
      figures.straggle_count, FormatLatency(static_cast<double>(figures.straggle_oldest)), old,
      FormatDuration(op_timeout), unended);
  if (figures.straggle_count > figures.stragglers.size()) {
    evidence += fmt::format(" (of the oldest {} listed)", figures.stragglers.size());
  }
  if (figures.poisoned) evidence += "; abandoned operations still hold their buffers";
  if (old != 0 || unended != 0 || figures.poisoned) {
    return Make("operation_age", CheckOutcome::kFail, std::move(evidence));
  }
  if (NothingDelivered(figures)) {
    return Make("operation_age", CheckOutcome::kNotEvaluated, "no initiator delivered an interval");
  }
  if (!figures.lost_agents.empty()) {
    return Make("operation_age", CheckOutcome::kNotEvaluated,
                fmt::format("{}; what was outstanding on lost agents is not known: {}", evidence, Lost(figures)));
  }
  return Make("operation_age", CheckOutcome::kPass, std::move(evidence));
}

// Only for targets that are reached over connections.
Check Connections(const StepFigures& figures) {
  Nanos down = 0;
  std::vector<std::string> whose;
  for (const ConnectionTotals& connection : figures.connections) {
    if (connection.down == 0) continue;
    down += connection.down;
    if (whose.size() < kNamed) {
      whose.push_back(fmt::format("initiator {} connection {}", connection.initiator, connection.connection));
    }
  }
  if (down == 0 && !figures.lost_agents.empty()) {
    return Make("connections", CheckOutcome::kNotEvaluated,
                fmt::format("{} connections, none was down; what those of lost agents went through is not known: {}",
                            figures.connections.size(), Lost(figures)));
  }
  if (down == 0) {
    return Make("connections", CheckOutcome::kPass,
                fmt::format("{} connections, none was down", figures.connections.size()));
  }
  return Make("connections", CheckOutcome::kWarn,
              fmt::format("{} connections, down {} in all: {}", figures.connections.size(),
                          FormatLatency(static_cast<double>(down)), fmt::join(whose, ", ")));
}

// Nothing is missing after a reconnect or in coarse reports; but who reads figures should know that the network or the
// store was not up to it.
Check Links(const StepFigures& figures) {
  uint64_t reconnects = 0;
  uint64_t coarse = 0;
  Nanos down = 0;
  std::vector<std::string> whose;
  for (const LinkTotals& link : figures.links) {
    reconnects += link.reconnects;
    coarse += link.coarse_deltas;
    down += link.down;
    if (link.reconnects + link.coarse_deltas == 0 || whose.size() >= kNamed) continue;
    whose.push_back(fmt::format("{}: {} reconnects, down {}, {} coarse interval reports", link.agent, link.reconnects,
                                FormatLatency(static_cast<double>(link.down)), link.coarse_deltas));
  }
  if (reconnects + coarse != 0) {
    return Make("links", CheckOutcome::kWarn,
                fmt::format("{} reconnects, down {} in all, {} coarse interval reports: {}", reconnects,
                            FormatLatency(static_cast<double>(down)), coarse, fmt::join(whose, "; ")));
  }
  if (figures.links.empty() || NothingDelivered(figures)) {
    return Make("links", CheckOutcome::kNotEvaluated, "no initiator delivered an interval");
  }
  if (!figures.lost_agents.empty()) {
    return Make("links", CheckOutcome::kNotEvaluated,
                fmt::format("no reconnect; these agents were lost: {}", Lost(figures)));
  }
  return Make("links", CheckOutcome::kPass,
              fmt::format("{} agents, no reconnect, every interval reported whole", figures.links.size()));
}

}  // namespace

std::vector<Check> Evaluate(const StepFigures& figures, Nanos op_timeout) {
  std::vector<Check> checks = {
      Sums(figures), Coverage(figures), Errors(figures), Intervals(figures), OperationAge(figures, op_timeout),
      Links(figures)};
  if (!figures.connections.empty()) checks.push_back(Connections(figures));
  // These two are only there when they have something to say.
  if (!figures.insecure_agents.empty()) {
    checks.push_back(Make("insecure_tcp", CheckOutcome::kWarn,
                          fmt::format("over TCP without TLS, so anybody on the way could have changed figures: {}",
                                      fmt::join(figures.insecure_agents, ", "))));
  }
  if (!figures.other_builds.empty()) {
    checks.push_back(
        Make("builds", CheckOutcome::kWarn,
             fmt::format("other builds than the controller's: {}", fmt::join(figures.other_builds, ", "))));
  }
  return checks;
}

bool AnyFailed(const std::vector<Check>& checks) {
  return std::any_of(checks.begin(), checks.end(),
                     [](const Check& check) { return check.outcome == CheckOutcome::kFail; });
}

}  // namespace muster
