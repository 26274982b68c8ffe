#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/base/units.h"
#include "controller/cli/live_view.h"

namespace muster {
namespace {

std::string Bar(double share, size_t width) {
  share = std::clamp(share, 0.0, 1.0);
  const size_t full = static_cast<size_t>(share * static_cast<double>(width));
  std::string bar;
  for (size_t i = 0; i < width; ++i) bar += i < full ? "█" : "░";
  return bar;
}

std::string MinutesSeconds(Nanos duration) {
  const int64_t seconds = std::max<Nanos>(0, duration) / kSecond;
  if (seconds >= 3600) return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
  return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
}

// Cuts at `width` columns; every character drawn here is one column wide.
std::string Fit(const std::string& line, size_t width) {
  size_t columns = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if ((line[i] & 0xC0) == 0x80) continue;
    if (columns++ == width) return line.substr(0, i);
  }
  return line;
}

}  // namespace

std::string FormatCount(double value) {
  static constexpr const char* kUnits[] = {"", " k", " M", " G"};
  int unit = 0;
  while (std::fabs(value) >= 999.5 && unit < 3) {
    value /= 1000;
    ++unit;
  }
  const int digits = unit == 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", value, digits, kUnits[unit]);
}

std::string Sparkline(const std::vector<double>& values, size_t width) {
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const size_t begin = values.size() > width ? values.size() - width : 0;
  double top = 0;
  for (size_t i = begin; i < values.size(); ++i) top = std::max(top, values[i]);
  std::string line;
  for (size_t i = begin; i < values.size(); ++i) {
    const double share = top > 0 ? values[i] / top : 0;
    line += kBlocks[std::min<size_t>(7, static_cast<size_t>(share * 8))];
  }
  return line;
}

std::string LiveLatency(const LiveFigures& figures, Nanos value) {
  return figures.max == 0 || figures.held ? "-" : FormatLatency(static_cast<double>(value));
}

std::vector<std::string> DrawLive(const LiveState& s, size_t width) {
  std::vector<std::string> lines;
  lines.push_back(fmt::format("run {}   step {}/{} {}   about {} left", s.run_id, s.step_number, s.steps, s.step_name,
                              MinutesSeconds(s.run_remaining)));
  if (s.phase == PhaseKind::kFill && s.fill) {
    const auto& fill = *s.fill;
    const double share =
        fill.bytes_total > 0 ? static_cast<double>(fill.bytes_done) / static_cast<double>(fill.bytes_total) : 0;
    lines.push_back(fmt::format("fill    {} {:3.0f} %  {} of {}  {}/s  ETA {}", Bar(share, 20), 100 * share,
                                FormatBytesHuman(static_cast<double>(fill.bytes_done)),
                                FormatBytesHuman(static_cast<double>(fill.bytes_total)),
                                FormatBytesHuman(fill.bytes_per_second), fill.eta ? MinutesSeconds(*fill.eta) : "-"));
  } else if (s.phase_expected > 0) {
    const double share = static_cast<double>(s.phase_elapsed) / static_cast<double>(s.phase_expected);
    const bool window = s.live && s.live->in_window;
    lines.push_back(fmt::format("{:<7} {} {} of {}  ETA {}{}", PhaseKindName(s.phase), Bar(share, 20),
                                MinutesSeconds(s.phase_elapsed), MinutesSeconds(s.phase_expected),
                                MinutesSeconds(s.phase_expected - s.phase_elapsed), window ? "" : "  (warm-up)"));
  } else {
    lines.push_back(fmt::format("{}  {}", PhaseKindName(s.phase), MinutesSeconds(s.phase_elapsed)));
  }
  if (s.live && s.phase == PhaseKind::kMeasure) {
    const LiveFigures& f = *s.live;
    lines.push_back(fmt::format("fleet   {:>8} IOPS  {:>10}/s  p50 {:>8}  p99 {:>8}  p99.9 {:>8}  out {}{}{}",
                                FormatCount(f.iops), FormatBytesHuman(f.bytes_per_second), LiveLatency(f, f.p50),
                                LiveLatency(f, f.p99), LiveLatency(f, f.p999), f.outstanding,
                                f.failed > 0 ? fmt::format("  {} FAILED so far", f.failed) : "",
                                f.provisional ? "  provisional" : ""));
    if (s.history.size() > 1) lines.push_back("        " + Sparkline(s.history, width > 20 ? width - 10 : 10));
    for (const AgentLive& a : f.agents) {
      lines.push_back(fmt::format("  {:<12} {:>8} IOPS  {:>10}/s  out {:<6} oldest {:>8}  cpu {:>4.0f} %{}", a.agent,
                                  FormatCount(a.iops), FormatBytesHuman(a.bytes_per_second), a.outstanding,
                                  FormatLatency(static_cast<double>(a.oldest_age)), 100 * a.cpu,
                                  a.silent ? "  SILENT" : ""));
    }
  }
  if (!s.note.empty()) lines.push_back("! " + s.note);
  for (auto& line : lines) line = Fit(line, width);
  return lines;
}

}  // namespace muster
