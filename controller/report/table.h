#pragma once
#include <string>
#include <vector>

namespace muster {

// Aligned columns for a terminal; two blanks between them, no lines. Cells are made printable.
class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kRight;
  };
  explicit Table(std::vector<Column> columns, std::string indent = "");
  // Missing cells are empty.
  void Add(std::vector<std::string> row);
  bool empty() const { return rows_.size() == 1; }
  // Title line and rows, each ended by a newline; no blanks at line ends.
  std::string Text() const;

 private:
  std::vector<Column> columns_;
  std::string indent_;
  std::vector<std::vector<std::string>> rows_;  // titles first
};

}  // namespace muster
