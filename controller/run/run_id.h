#pragma once
#include <cstdint>
#include <string>

namespace muster {

// Name of a new run: UTC time of its start, name of the campaign, four hex digits ("20261130-164500-database-ab12").
// Sorts by time. Thread-safe.
std::string MakeRunId(const std::string& campaign, int64_t wall_micros);

}  // namespace muster
