#include "controller/top/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/units.h"
#include "controller/cli/live_view.h"
#include "controller/top/text.h"

namespace muster {
namespace {

constexpr size_t kSparkLeast = 8;

struct Column {
  std::string title;
  size_t width = 0;  // 0: takes what is left, at least kSparkLeast
  bool right = true;
  int rank = 0;  // the largest is left out first
  std::string (*cell)(const TopRow& row) = nullptr;
};

std::string Latency(const TopRow& row, Nanos LivePercentiles::*which) {
  return row.latency ? FormatLatency(static_cast<double>((*row.latency).*which)) : "-";
}

const Column kIops = {"IOPS", 7, true, 1, [](const TopRow& r) { return r.figures ? FormatCount(r.iops) : "-"; }};
const Column kBytes = {"MB/s", 7, true, 2,
                       [](const TopRow& r) { return r.figures ? TopMegabytes(r.bytes_per_second) : "-"; }};
const Column kP50 = {"p50", 8, true, 5, [](const TopRow& r) { return Latency(r, &LivePercentiles::p50); }};
const Column kP99 = {"p99", 8, true, 3, [](const TopRow& r) { return Latency(r, &LivePercentiles::p99); }};
const Column kOut = {"out", 6, true, 6,
                     [](const TopRow& r) { return r.figures ? std::to_string(r.outstanding) : std::string("-"); }};
const Column kState = {"state", 8, false, 4, [](const TopRow& r) { return r.state; }};
const Column kCpu = {"CPU", 6, true, 7,
                     [](const TopRow& r) { return r.figures ? fmt::format("{:.0f} %", 100 * r.cpu) : "-"; }};
const Column kSpark = {"last minutes", 0, false, 8, nullptr};
const Column kLease = {"lease", 7, true, 9, [](const TopRow& r) {
                         return r.linked ? FormatLatency(static_cast<double>(r.lease_left)) : std::string("-");
                       }};
const Column kClock = {"clock offset +- error", 21, true, 10, [](const TopRow& r) {
                         return !r.clock_known ? std::string("-")
                                               : fmt::format("{} +- {}", TopSigned(r.offset),
                                                             FormatLatency(static_cast<double>(r.error)));
                       }};
const Column kLink = {"link", 6, false, 11, [](const TopRow& r) { return r.linked ? r.link : std::string("-"); }};

Column Ranked(Column column, int rank) {
  column.rank = rank;
  return column;
}

// As wide as the widest of its cells, within bounds.
Column Text(std::string title, int rank, size_t most, const std::vector<TopRow>& rows,
            std::string (*cell)(const TopRow&)) {
  size_t width = title.size();
  for (const TopRow& row : rows) width = std::max(width, TopColumns(cell(row)));
  return {std::move(title), std::min(width, most), false, rank, cell};
}

std::vector<Column> ColumnsOf(TopView view, const std::vector<TopRow>& rows, size_t width) {
  const size_t most = std::clamp<size_t>(width / 5, 8, 24);
  const auto name = [](const TopRow& r) { return r.name; };
  switch (view) {
    case TopView::kInitiators:
      return {{"initiator", 9, true, 0, name},
              Text("agent", 7, most, rows, [](const TopRow& r) { return r.agent; }),
              kIops,
              kBytes,
              kP50,
              kP99,
              kOut,
              kSpark};
    case TopView::kLinks:
      return {Text("agent", 0, most, rows, name),
              kState,
              Ranked(kLink, 1),
              Ranked(kLease, 2),
              Ranked(kClock, 3),
              Text("host", 5, most, rows, [](const TopRow& r) { return r.host; }),
              Text("build", 7, 24, rows, [](const TopRow& r) { return r.build; }),
              Text("run", 6, 32, rows, [](const TopRow& r) { return r.run; })};
    case TopView::kAgents:
      break;
  }
  return {
      Text("agent", 0, most, rows, name), kState, kIops, kBytes, kP50, kP99, kOut, kCpu, kLink, kLease, kClock, kSpark};
}

size_t WidthOf(const std::vector<Column>& columns) {
  size_t width = 0;
  for (const Column& column : columns) width += (column.width == 0 ? kSparkLeast : column.width) + 1;
  return width == 0 ? 0 : width - 1;
}

}  // namespace

TopTable DrawTopTable(TopView view, const std::vector<TopRow>& rows, size_t first, size_t count, const TopSize& size) {
  std::vector<Column> columns = ColumnsOf(view, rows, size.width);
  while (columns.size() > 1 && WidthOf(columns) > size.width) {
    columns.erase(
        std::max_element(columns.begin(), columns.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; }));
  }
  const size_t fixed = WidthOf(columns);
  for (Column& column : columns) {
    if (column.width == 0)
      column.width = std::min(TopHistory::kPoints, kSparkLeast + size.width - std::min(size.width, fixed));
  }
  const auto line = [&](const auto& cell) {
    std::string text;
    for (const Column& column : columns) {
      text += (text.empty() ? "" : " ") + TopFit(cell(column), column.width, column.right);
    }
    return TopFit(text, size.width);
  };
  TopTable table;
  table.header = line([](const Column& column) { return column.title; });
  for (size_t i = first; i < rows.size() && i - first < count; ++i) {
    const TopRow& row = rows[i];
    table.lines.push_back({line([&](const Column& column) {
                             if (column.cell != nullptr) return TopClean(column.cell(row), size.utf8);
                             return row.history == nullptr ? std::string()
                                                           : TopSparkline(*row.history, column.width, size.utf8);
                           }),
                           row.bad ? TopStyle::kWarn : TopStyle::kPlain});
  }
  return table;
}

}  // namespace muster
