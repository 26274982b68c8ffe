#include "controller/report/csv_row.h"

#include <fmt/format.h>

namespace muster {

void CsvRow::Separate() {
  if (!first_) out_ << ',';
  first_ = false;
}

CsvRow& CsvRow::Text(std::string_view text) {
  Separate();
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    out_ << text;
    return *this;
  }
  out_ << '"';
  for (char c : text) {
    if (c == '"') out_ << '"';
    out_ << c;
  }
  out_ << '"';
  return *this;
}

CsvRow& CsvRow::Whole(uint64_t value) {
  Separate();
  out_ << fmt::format("{}", value);
  return *this;
}

CsvRow& CsvRow::Number(double value) {
  Separate();
  out_ << fmt::format("{}", value);
  return *this;
}

CsvRow& CsvRow::Empty(size_t cells) {
  for (size_t i = 0; i < cells; ++i) Separate();
  return *this;
}

}  // namespace muster
