#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/stats/histogram.h"
#include "controller/report/derived.h"
#include "controller/report/export.h"

namespace muster {
namespace {

// A tag must not hold what separates fields of the log.
std::string Tag(std::string_view step, std::string_view rest) {
  std::string out = fmt::format("{}/{}", step, rest);
  for (char& c : out) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == ',') c = ';';
    if (byte <= ' ' || byte == 0x7f) c = '_';
  }
  return out;
}

double Seconds(int64_t intervals, Nanos length) {
  return static_cast<double>(intervals) * static_cast<double>(length) / static_cast<double>(kSecond);
}

absl::Status WriteInterval(const std::string& step, const FleetInterval& interval, double begin, Nanos length,
                           std::ostream& out) {
  auto line = [&](std::string_view rest, const Histogram& histogram) -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(
        const std::string text,
        HlogWriter::Line(Tag(step, rest), begin + Seconds(interval.interval, length), Seconds(1, length), histogram));
    out << text;
    return absl::OkStatus();
  };
  for (const KindFigures& kind : interval.kinds) {
    if (!kind.kind.has_value()) continue;
    const std::string label(KindLabel(kind.kind));
    MUSTER_RETURN_IF_ERROR(line(label, kind.response));
    // Without any wait these say nothing new.
    if (kind.wait.moments().max == 0) continue;
    MUSTER_RETURN_IF_ERROR(line(label + "/wait", kind.wait));
    MUSTER_RETURN_IF_ERROR(line(label + "/service", kind.service));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ExportHlog(RunReader& reader, std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(const LoadedRun run, LoadRun(reader));
  out << HlogWriter::Header(
      run.summary.started_wall_micros,
      fmt::format("muster run {}; values in ns, times: measure phases laid end to end", Printable(run.summary.id)));
  double begin = 0;
  for (const StepResult& step : run.steps) {
    // Comments are lost on the way through other tools; tags are not.
    const std::string name = IsSealed(step) ? step.step.name : step.step.name + "/unsealed";
    if (step.outcome != StepOutcome::kValid) {
      out << Printable(fmt::format("#[{} {}: {}]", step.step.name, StepOutcomeName(step.outcome), step.message))
          << "\n";
    }
    const Nanos length = step.figures.interval;
    int64_t end = 0;
    MUSTER_RETURN_IF_ERROR(reader.VisitIntervals(step.step.index, [&](const FleetInterval& interval) {
      end = std::max(end, interval.interval + 1);
      if (interval.held) {
        out << fmt::format("#[interval {} of {}: no line, histograms per window: report bound]\n", interval.interval,
                           Printable(step.step.name));
        return absl::OkStatus();
      }
      return WriteInterval(name, interval, begin, length, out);
    }));
    begin += Seconds(end, length);
  }
  return absl::OkStatus();
}

}  // namespace muster
