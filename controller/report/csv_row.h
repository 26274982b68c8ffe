#pragma once
#include <cstdint>
#include <ostream>
#include <string_view>

namespace muster {

// One line of a CSV file, quoted as RFC 4180 section 2 says (5-7); lines end with a newline alone. Ends with the
// object.
class CsvRow {
 public:
  explicit CsvRow(std::ostream& out) : out_(out) {}
  ~CsvRow() { out_ << '\n'; }
  CsvRow(const CsvRow&) = delete;
  CsvRow& operator=(const CsvRow&) = delete;

  CsvRow& Text(std::string_view text);
  CsvRow& Whole(uint64_t value);
  CsvRow& Number(double value);  // shortest form that reads back as the same double
  CsvRow& Empty(size_t cells);

 private:
  void Separate();

  std::ostream& out_;
  bool first_ = true;
};

}  // namespace muster
