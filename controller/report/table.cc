#include "controller/report/table.h"

#include <algorithm>

#include "controller/report/derived.h"

namespace muster {

Table::Table(std::vector<Column> columns, std::string indent)
    : columns_(std::move(columns)), indent_(std::move(indent)) {
  std::vector<std::string>& titles = rows_.emplace_back();
  for (const Column& column : columns_) titles.push_back(column.title);
}

void Table::Add(std::vector<std::string> row) {
  row.resize(columns_.size());
  for (std::string& cell : row) cell = Printable(cell);
  rows_.push_back(std::move(row));
}

std::string Table::Text() const {
  std::vector<size_t> widths(columns_.size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Columns(row[i]));
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line = indent_;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string fill(widths[i] - Columns(row[i]), ' ');
      if (i != 0) line += "  ";
      line += columns_[i].align == Align::kLeft ? row[i] + fill : fill + row[i];
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
  }
  return out;
}

}  // namespace muster
