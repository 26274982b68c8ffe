#include "agent/target/iscsi_io.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "agent/backend/iscsi/iscsi_backend.h"
#include "agent/backend/iscsi/sense.h"
#include "common/base/native_code.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace muster {
namespace {

constexpr Nanos kOpTimeout = 30 * kSecond;
constexpr size_t kLargestWrite = 1 << 20;
constexpr uint32_t kDepth = 8;

absl::Status Failed(const std::string& place, const char* what, const std::string& why) {
  return MakeError(absl::StatusCode::kUnavailable,
                   {"ISCSI_WRITE", place, fmt::format("{} failed: {}", what, why), "Look at the target's log."});
}

absl::Status Reserved(const std::string& place, const char* what) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      {"ISCSI_RESERVED", place, fmt::format("{} failed: RESERVATION CONFLICT", what),
       "Another initiator holds a reservation of the LUN: look for who uses it (`sg_persist -i -r DEVICE` on "
       "a host that sees it), or name another LUN."});
}

}  // namespace

IscsiWriter::IscsiWriter(std::unique_ptr<Backend> backend, std::string place, Nanos deadline)
    : backend_(std::move(backend)), place_(std::move(place)), deadline_(deadline) {}

IscsiWriter::~IscsiWriter() {
  backend_->Close();
}

absl::StatusOr<std::unique_ptr<IscsiWriter>> IscsiWriter::Open(IscsiConnectionSpec spec, std::string place,
                                                               Nanos deadline) {
  spec.writes = true;
  std::unique_ptr<Backend> backend = MakeIscsiBackend(std::move(spec));
  MUSTER_RETURN_IF_ERROR(backend->Open({}, {}, {.depth = kDepth, .op_timeout = kOpTimeout}, deadline));
  return std::unique_ptr<IscsiWriter>(new IscsiWriter(std::move(backend), std::move(place), deadline));
}

absl::Status IscsiWriter::Run(std::span<const IoOp> ops, const char* what) {
  const Clock& clock = SteadyClock::Get();
  std::array<IoCompletion, kDepth> done;
  size_t ended = 0;
  for (std::span<const IoOp> left = ops; clock.Now() < deadline_;) {
    left = left.subspan(backend_->Submit(left, clock.Now()));
    const size_t n = backend_->Reap(done, clock.Now());
    for (size_t i = 0; i < n; ++i) {
      if (done[i].outcome == IoOutcome::kOk) continue;
      backend_->Close();  // what is under way must find no buffer
      if (done[i].native_code == NativeCodeOf({.delivered = true, .status = kScsiReservationConflict})) {
        return Reserved(place_, what);
      }
      return Failed(place_, what, NativeCodeName(done[i].native_code));
    }
    ended += n;
    if (ended == ops.size()) return absl::OkStatus();
    if (n == 0) backend_->WaitUntil(std::min({deadline_, backend_->NextTimer(), clock.Now() + 100 * kMillisecond}));
  }
  backend_->Close();
  return Failed(place_, what, "no answer within the time for attaching");
}

absl::Status IscsiWriter::Write(uint64_t offset, std::span<uint8_t> bytes) {
  const IoOp op{.offset = offset,
                .buffer = bytes.data(),
                .tag = 1,
                .bytes = static_cast<uint32_t>(bytes.size()),
                .object = 0,
                .kind = IoKind::kWrite};
  return Run({&op, 1}, "a write");
}

absl::Status IscsiWriter::Zero(std::span<const Range> ranges) {
  std::vector<uint8_t> zeros(kLargestWrite, 0);
  std::vector<IoOp> ops;
  for (const Range& range : ranges) {
    for (uint64_t at = 0; at < range.bytes; at += kLargestWrite) {
      ops.push_back({.offset = range.offset + at,
                     .buffer = zeros.data(),
                     .tag = 1,
                     .bytes = static_cast<uint32_t>(std::min<uint64_t>(kLargestWrite, range.bytes - at)),
                     .object = 0,
                     .kind = IoKind::kWrite});
    }
  }
  return Run(ops, "a write");
}

absl::Status IscsiWriter::Flush() {
  const IoOp op{.tag = 1, .kind = IoKind::kFlush};
  return Run({&op, 1}, "a flush");
}

}  // namespace muster
