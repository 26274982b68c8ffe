#pragma once
#include <ostream>

#include "absl/status/status.h"
#include "controller/store/run_store.h"

namespace muster {

// One a format; see report.h. They write nothing but text and leave the stream's own errors to the caller.
absl::Status ExportJson(RunReader& reader, bool spelled_out, std::ostream& out);
absl::Status ExportCsv(RunReader& reader, std::ostream& out);
absl::Status ExportCsvIntervals(RunReader& reader, std::ostream& out);
absl::Status ExportHlog(RunReader& reader, std::ostream& out);

}  // namespace muster
