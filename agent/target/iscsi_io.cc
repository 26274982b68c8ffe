#include "agent/target/iscsi_io.h"

#include <utility>

#include "agent/backend/iscsi/iscsi_backend.h"
#include "agent/backend/iscsi/sense.h"
#include "common/base/native_code.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace muster {
namespace {

constexpr Nanos kOpTimeout = 30 * kSecond;
constexpr size_t kLargestWrite = 1 << 20;

absl::Status Failed(const std::string& place, const char* what, const std::string& why) {
  return MakeError(absl::StatusCode::kUnavailable,
                   {"ISCSI_WRITE", place, fmt::format("{} failed: {}", what, why), "Look at the target's log."});
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
  MUSTER_RETURN_IF_ERROR(backend->Open({}, {}, {.depth = 1, .op_timeout = kOpTimeout}, deadline));
  return std::unique_ptr<IscsiWriter>(new IscsiWriter(std::move(backend), std::move(place), deadline));
}

absl::Status IscsiWriter::Run(const IoOp& op, const char* what) {
  const Clock& clock = SteadyClock::Get();
  bool accepted = false;
  IoCompletion done;
  while (clock.Now() < deadline_) {
    if (!accepted) accepted = backend_->Submit({&op, 1}, clock.Now()) == 1;
    if (backend_->Reap({&done, 1}, clock.Now()) == 1) {
      if (done.outcome == IoOutcome::kOk) return absl::OkStatus();
      return Failed(place_, what, NativeCodeName(done.native_code));
    }
    backend_->WaitUntil(std::min({deadline_, backend_->NextTimer(), clock.Now() + 100 * kMillisecond}));
  }
  return Failed(place_, what, "no answer within the time for attaching");
}

absl::Status IscsiWriter::Write(uint64_t offset, std::span<uint8_t> bytes) {
  for (size_t at = 0; at < bytes.size(); at += kLargestWrite) {
    const auto part = bytes.subspan(at, std::min(kLargestWrite, bytes.size() - at));
    MUSTER_RETURN_IF_ERROR(Run({.offset = offset + at,
                                .buffer = part.data(),
                                .tag = 1,
                                .bytes = static_cast<uint32_t>(part.size()),
                                .object = 0,
                                .kind = IoKind::kWrite},
                               "a write"));
  }
  return absl::OkStatus();
}

absl::Status IscsiWriter::Flush() {
  return Run({.tag = 1, .kind = IoKind::kFlush}, "a flush");
}

}  // namespace muster
