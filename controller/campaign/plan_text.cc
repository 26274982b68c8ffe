#include <algorithm>

#include "common/wire/rules.h"
#include "controller/campaign/campaign.h"
#include "fmt/format.h"

namespace muster {
namespace {

// Estimates to the nanosecond would pretend to know: whole seconds from one second up.
std::string About(Nanos duration) {
  if (duration >= kSecond) duration = (duration + kSecond / 2) / kSecond * kSecond;
  return FormatDuration(duration);
}

Nanos AddCapped(Nanos a, Nanos b) {
  return a > kNever - b ? kNever : a + b;
}

std::string RateText(const Workload& w) {
  if (w.pacing == Pacing::kClosed) return {};
  const std::string_view whose = w.rate_per == RatePer::kFleet       ? "for the fleet"
                                 : w.rate_per == RatePer::kInitiator ? "an initiator"
                                                                     : "a stream";
  v1::Workload rate;
  rate.set_rate(w.rate);
  const auto& field = *v1::Workload::descriptor()->FindFieldByNumber(v1::Workload::kRateFieldNumber);
  return fmt::format(", {} {} {}", w.pacing == Pacing::kFixed ? "fixed" : "poisson", FormatField(rate, field), whose);
}

// "random 4KiB, 70% read, 20% trim, flush every 8, 10k/s".
std::string WorkloadText(const Workload& w) {
  std::string out = fmt::format("{} {}", w.pattern == Pattern::kRandom ? "random" : "sequential", FormatSize(w.block));
  if (w.trim < 1) out += fmt::format(", {} read", FormatPercent(w.read));
  if (w.trim > 0) out += fmt::format(", {} trim", FormatPercent(w.trim));
  if (w.flush_every > 0) out += fmt::format(", flush every {}", w.flush_every);
  if (w.layout == Layout::kPartition) out += ", partition";
  return out + RateText(w);
}

// Exact while that is short.
std::string SetText(uint64_t size) {
  std::string exact = FormatSize(size);
  return exact.size() <= 8 ? exact : FormatBytesHuman(static_cast<double>(size));
}

std::string FillText(const Step& step) {
  if (step.fill_passes == 0) return "-";
  return fmt::format("{}x, {}", step.fill_passes, FormatBytesHuman(static_cast<double>(step.bytes_written_at_least)));
}

// Rows under a header, columns as wide as their widest cell; `right` names the columns that are numbers.
std::string Table(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right) {
  std::vector<size_t> width(right.size(), 0);
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      line += right[c] ? fmt::format("  {:>{}}", row[c], width[c]) : fmt::format("  {:<{}}", row[c], width[c]);
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
  }
  return out;
}

}  // namespace

std::string FormatPlan(const Plan& plan) {
  Nanos time = 0;
  double bytes = 0;
  size_t skipped = 0;
  std::vector<std::vector<std::string>> rows{
      {"#", "step", "target", "initiators", "load", "set", "workload", "buffers", "fill", "warm-up + window", "time"}};
  for (const Step& step : plan.steps) {
    const Workload& w = step.measure.workload;
    const bool skip = !step.skip_reason.empty();
    skipped += skip ? 1 : 0;
    time = AddCapped(time, step.estimated);
    bytes += static_cast<double>(step.bytes_written_at_least);
    rows.push_back({fmt::format("{}", step.index + 1), step.name, step.target, fmt::format("{}", step.initiators),
                    FormatLoad(w.load), SetText(w.size), WorkloadText(w), skip ? "-" : SetText(BufferBytes(step, 1)),
                    FillText(step),
                    fmt::format("{} + {}", FormatDuration(step.measure.warmup_intervals * plan.interval),
                                FormatDuration(step.measure.window_intervals * plan.interval)),
                    skip ? "skipped" : About(step.estimated)});
  }
  std::string out =
      fmt::format("campaign {}: {} step{}, about {}, writes {} by filling\n", plan.name, plan.steps.size(),
                  plan.steps.size() == 1 ? "" : "s", About(time), bytes > 0 ? FormatBytesHuman(bytes) : "nothing");
  out += fmt::format("seed {}, interval {}, operation timeout {}\n\n", plan.seed, FormatDuration(plan.interval),
                     FormatDuration(plan.op_timeout));
  out += Table(rows, {true, false, false, true, false, true, false, true, false, true, true});
  if (skipped > 0) out += "\n";
  for (const Step& step : plan.steps) {
    if (!step.skip_reason.empty()) out += fmt::format("skipped: {}: {}\n", step.name, step.skip_reason);
  }
  if (!plan.warnings.empty()) out += "\n";
  for (const std::string& warning : plan.warnings) out += "warning: " + warning + "\n";
  return out;
}

}  // namespace muster
