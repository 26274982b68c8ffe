#include "controller/store/interrupted.h"

#include <algorithm>

#include "common/base/status.h"
#include "controller/store/record_codec.h"
#include "controller/store/run_store.h"
#include "controller/store/sqlite.h"
#include "controller/store/unsealed.h"

namespace muster {
namespace {

absl::StatusOr<InterruptedRun> Read(const RunSummary& run) {
  InterruptedRun out{.id = run.id, .path = run.path, .op_timeout = 0, .committed = {}, .sealed = {}};
  MUSTER_ASSIGN_OR_RETURN(auto db, Database::Open(run.path, Database::Mode::kRead));
  MUSTER_ASSIGN_OR_RETURN(const Plan plan, ReadPlanSteps(*db));
  out.op_timeout = plan.op_timeout;
  const auto each = [&](const char* sql, auto use) -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(Statement rows, db->Prepare(sql));
    while (true) {
      MUSTER_ASSIGN_OR_RETURN(const bool row, rows.Step());
      if (!row) return absl::OkStatus();
      use(rows);
    }
  };
  MUSTER_RETURN_IF_ERROR(each("SELECT id FROM agents", [&](Statement& row) { out.committed[row.Text(0)] = 0; }));
  MUSTER_RETURN_IF_ERROR(each("SELECT agent, max(sequence) FROM raw GROUP BY agent", [&](Statement& row) {
    const auto agent = out.committed.find(row.Text(0));
    if (agent != out.committed.end()) agent->second = static_cast<uint64_t>(row.Int(1));
  }));
  MUSTER_RETURN_IF_ERROR(each("SELECT DISTINCT step FROM results",
                              [&](Statement& row) { out.sealed.insert(static_cast<uint32_t>(row.Int(0))); }));
  return out;
}

}  // namespace

std::vector<InterruptedRun> ReadInterrupted(const std::string& runs_dir, size_t most) {
  std::vector<InterruptedRun> out;
  for (const RunSummary& run : ListRuns(runs_dir, most)) {
    if (run.outcome != "interrupted" || run.finished_wall_micros != 0) continue;
    if (auto read = Read(run); read.ok()) out.push_back(*std::move(read));
  }
  return out;
}

}  // namespace muster
