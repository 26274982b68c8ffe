#include "agent/backend/iscsi/inspect.h"

#include <poll.h>

#include <algorithm>

#include "agent/backend/iscsi/errors.h"
#include "common/base/clock.h"
#include "common/base/native_code.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace muster {
namespace {

constexpr uint32_t kCommand = 0;  // one at a time
constexpr int kMaxUnitAttentions = 8;
constexpr uint32_t kReportLunsRoom = 8 + 8 * 1024;
constexpr Nanos kLongestWait = 100 * kMillisecond;

void WaitFor(const IscsiSession& session, Nanos deadline) {
  const Nanos wait = std::min(deadline - SteadyClock::Get().Now(), kLongestWait);
  if (wait <= 0) return;
  pollfd p{.fd = session.fd(), .events = static_cast<short>(session.events()), .revents = 0};
  const timespec ts{.tv_sec = 0, .tv_nsec = wait};
  ppoll(&p, 1, &ts, nullptr);
}

}  // namespace

IscsiInspector::IscsiInspector(const IscsiConnectionSpec& spec, IscsiSession& session)
    : spec_(spec), session_(session), buffer_(kReportLunsRoom) {
  session_.SetHandler(Answered, this);
}

void IscsiInspector::Answered(void* self, uint32_t /*id*/, const ScsiAnswer& answer) {
  auto& inspector = *static_cast<IscsiInspector*>(self);
  inspector.answer_ = answer;
  inspector.done_ = true;
}

absl::Status IscsiInspector::WaitForLogin(Nanos deadline) {
  const Nanos begin = SteadyClock::Get().Now();
  for (;;) {
    session_.Step();
    switch (session_.phase()) {
      case IscsiSession::Phase::kUp:
        return absl::OkStatus();
      case IscsiSession::Phase::kLost:
        return session_.failure();
      default:
        break;
    }
    if (SteadyClock::Get().Now() >= deadline) {
      return session_.Overdue(deadline - begin);
    }
    WaitFor(session_, deadline);
  }
}

absl::Status IscsiInspector::Run(const Cdb& cdb, uint16_t lun, std::span<uint8_t> data, Nanos deadline) {
  done_ = false;
  if (!session_.Send(kCommand, cdb, lun, data.data(), static_cast<uint32_t>(data.size())) && !done_) {
    return session_.phase() == IscsiSession::Phase::kLost ? session_.failure()
                                                          : ProtocolError(spec_, "a command could not be sent");
  }
  while (!done_) {
    if (session_.phase() == IscsiSession::Phase::kLost) return session_.failure();
    if (SteadyClock::Get().Now() >= deadline) {
      session_.Drop();  // the answer must not find this buffer
      return ConnectError(spec_, fmt::format("LUN {} did not answer command {:02x}h in time", lun, cdb.bytes[0]));
    }
    WaitFor(session_, deadline);
    session_.Step();
  }
  return absl::OkStatus();
}

absl::Status IscsiInspector::Ask(const Cdb& cdb, uint16_t lun, std::span<const uint8_t>& got, Nanos deadline) {
  got = {};
  uint32_t room = 0;
  switch (cdb.bytes[0]) {
    case 0x12:
      room = cdb.bytes[3] << 8 | cdb.bytes[4];
      break;
    case 0x1a:
      room = cdb.bytes[4];
      break;
    case 0x25:
      room = 8;
      break;
    case 0x9e:
      room = 32;
      break;
    case 0xa0:
      room = kReportLunsRoom;
      break;
    default:
      break;
  }
  for (int i = 0; i <= kMaxUnitAttentions; ++i) {
    std::fill(buffer_.begin(), buffer_.begin() + room, 0);
    MUSTER_RETURN_IF_ERROR(Run(cdb, lun, std::span(buffer_).first(room), deadline));
    if (JudgeScsi(answer_).action == ScsiAction::kDone) {
      got = std::span<const uint8_t>(buffer_).first(room - std::min(answer_.residual, room));
      break;
    }
    if (JudgeScsi(answer_).action != ScsiAction::kRetryOnce) break;
  }
  return absl::OkStatus();
}

absl::Status IscsiInspector::TakeUnitAttentions(uint16_t lun, Nanos deadline) {
  for (int i = 0; i < kMaxUnitAttentions; ++i) {
    MUSTER_RETURN_IF_ERROR(Run(TestUnitReadyCdb(), lun, {}, deadline));
    if (JudgeScsi(answer_).action != ScsiAction::kRetryOnce) break;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint16_t>> IscsiInspector::ReportLuns(Nanos deadline) {
  MUSTER_RETURN_IF_ERROR(TakeUnitAttentions(0, deadline));
  std::span<const uint8_t> got;
  MUSTER_RETURN_IF_ERROR(Ask(ReportLunsCdb(kReportLunsRoom), 0, got, deadline));
  std::vector<uint16_t> luns;
  if (!ParseReportLuns(got, luns)) {
    return ProtocolError(spec_, fmt::format("REPORT LUNS: {}", NativeCodeName(NativeCodeOf(answer_))));
  }
  return luns;
}

absl::StatusOr<IscsiLunFacts> IscsiInspector::Inspect(uint16_t lun, Nanos deadline) {
  IscsiLunFacts facts;
  facts.lun = lun;
  MUSTER_RETURN_IF_ERROR(TakeUnitAttentions(lun, deadline));
  const std::string ready = NativeCodeName(NativeCodeOf(answer_));
  std::span<const uint8_t> got;
  MUSTER_RETURN_IF_ERROR(Ask(InquiryCdb(96), lun, got, deadline));
  if (!ParseInquiry(got, facts.inquiry)) {
    return NoLunError(spec_, lun, fmt::format("INQUIRY: {}", NativeCodeName(NativeCodeOf(answer_))));
  }
  if (facts.inquiry.qualifier != 0) return NoLunError(spec_, lun, "the target has no such LUN");
  if (facts.inquiry.device_type != 0) {
    return NoLunError(spec_, lun, fmt::format("not a disk but a device of type {:02x}h", facts.inquiry.device_type));
  }
  MUSTER_RETURN_IF_ERROR(Ask(ReadCapacity16Cdb(), lun, got, deadline));
  if (!ParseCapacity16(got, facts.capacity)) {
    MUSTER_RETURN_IF_ERROR(Ask(ReadCapacity10Cdb(), lun, got, deadline));
    if (!ParseCapacity10(got, facts.capacity)) {
      return NoLunError(spec_, lun, fmt::format("no capacity (test unit ready: {})", ready));
    }
  }
  const uint32_t block = facts.capacity.block_bytes;
  if (block < 512 || block > 65536 || (block & (block - 1)) != 0) {
    return ProtocolError(spec_, fmt::format("LUN {} has blocks of {} bytes", lun, block));
  }
  MUSTER_RETURN_IF_ERROR(Ask(VpdCdb(0x80, 252), lun, got, deadline));
  ParseSerial(got, facts.serial);
  MUSTER_RETURN_IF_ERROR(Ask(VpdCdb(0x83, 1024), lun, got, deadline));
  ParseDeviceIds(got, facts.device_ids);
  MUSTER_RETURN_IF_ERROR(Ask(VpdCdb(0xb0, 64), lun, got, deadline));
  ParseBlockLimits(got, facts.limits);
  MUSTER_RETURN_IF_ERROR(Ask(VpdCdb(0xb2, 64), lun, got, deadline));
  ParseProvisioning(got, facts.provisioning);
  MUSTER_RETURN_IF_ERROR(Ask(ModeSense6Cdb(0x08, 192), lun, got, deadline));
  facts.has_mode = ParseModeSense6(got, facts.mode);
  if (!facts.has_mode) {  // without a caching page the header still tells write protection
    MUSTER_RETURN_IF_ERROR(Ask(ModeSense6Cdb(0x3f, 192), lun, got, deadline));
    facts.has_mode = ParseModeSense6(got, facts.mode);
  }
  return facts;
}

absl::Status IscsiInspector::Read(const IscsiLunFacts& facts, uint64_t block, std::span<uint8_t> out, Nanos deadline) {
  const auto blocks = static_cast<uint32_t>(out.size() / facts.capacity.block_bytes);
  for (int i = 0; i <= kMaxUnitAttentions; ++i) {
    MUSTER_RETURN_IF_ERROR(Run(ReadCdb(block, blocks, false), facts.lun, out, deadline));
    const ScsiVerdict verdict = JudgeScsi(answer_);
    if (verdict.action == ScsiAction::kDone && answer_.residual == 0) return absl::OkStatus();
    if (verdict.action != ScsiAction::kRetryOnce) break;
  }
  return ProtocolError(
      spec_, fmt::format("reading LUN {} at block {}: {}", facts.lun, block, NativeCodeName(NativeCodeOf(answer_))));
}

}  // namespace muster
