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

void WaitFor(const IscsiSession& session, Nanos deadline, Nanos longest = kLongestWait) {
  const Nanos wait = std::min(deadline - SteadyClock::Get().Now(), longest);
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

void IscsiInspector::Answered(void* self, uint32_t id, const ScsiAnswer& answer) {
  auto& inspector = *static_cast<IscsiInspector*>(self);
  inspector.answers_.at(id) = answer;
  inspector.ended_.at(id) = true;
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

absl::Status IscsiInspector::TakeReading(const IscsiLunFacts& facts, uint32_t id, std::span<const uint8_t> piece,
                                         const Sink& sink) {
  Reading& reading = readings_[id];
  const ScsiAnswer& answer = answers_[id];
  ended_[id] = false;
  const ScsiAction action = JudgeScsi(answer).action;
  if (action == ScsiAction::kDone && answer.residual == 0) {
    const uint64_t offset = reading.range.offset;
    reading = {};
    return sink(offset, piece);
  }
  const Nanos now = SteadyClock::Get().Now();
  if (action == ScsiAction::kRetryOnce && ++reading.attentions <= kMaxUnitAttentions) {
    reading.again_at = now;
    return absl::OkStatus();
  }
  if (action == ScsiAction::kRetryLater) {  // until the deadline
    reading.delay = std::clamp(2 * reading.delay, kMillisecond, kLongestWait);
    reading.again_at = now + reading.delay;
    return absl::OkStatus();
  }
  return ProtocolError(spec_, fmt::format("reading LUN {} at byte {}: {}", facts.lun, reading.range.offset,
                                          NativeCodeName(NativeCodeOf(answer))));
}

absl::Status IscsiInspector::Read(const IscsiLunFacts& facts, std::span<const Range> ranges, const Sink& sink,
                                  Nanos deadline) {
  const uint32_t block = facts.capacity.block_bytes;
  uint64_t most = kReadBytes;
  if (facts.limits.max_transfer_blocks != 0) {
    most = std::min(most, uint64_t{facts.limits.max_transfer_blocks} * block);
  }
  most = std::max<uint64_t>(most / block * block, block);
  uint64_t wanted = 0;
  for (const Range& range : ranges) wanted += range.bytes;
  const uint64_t slots = std::min<uint64_t>(kReadsAtOnce, (wanted + most - 1) / most + ranges.size());
  std::vector<uint8_t> memory(slots * most);
  readings_ = {};
  ended_ = {};
  size_t range = 0;
  uint64_t at = 0;
  absl::Status status;
  for (;;) {
    const Nanos now = SteadyClock::Get().Now();
    bool busy = false;
    bool later = false;
    for (uint32_t id = 0; id < slots && status.ok(); ++id) {
      Reading& reading = readings_[id];
      const std::span<uint8_t> buffer = std::span(memory).subspan(id * most, most);
      if (ended_[id]) status = TakeReading(facts, id, buffer.first(reading.range.bytes), sink);
      while (range < ranges.size() && at == ranges[range].bytes) {
        ++range;
        at = 0;
      }
      if (!reading.busy && range < ranges.size()) {
        reading = {.range = {ranges[range].offset + at, std::min(most, ranges[range].bytes - at)}, .busy = true};
        reading.again_at = now;
        at += reading.range.bytes;
      }
      busy |= reading.busy;
      if (reading.again_at == 0) continue;
      if (reading.again_at > now || session_.room() == 0 || session_.sending()) {
        later = true;
        continue;
      }
      reading.again_at = 0;
      const auto blocks = static_cast<uint32_t>(reading.range.bytes / block);
      if (!session_.Send(id, ReadCdb(reading.range.offset / block, blocks, false), facts.lun, buffer.data(),
                         static_cast<uint32_t>(reading.range.bytes)) &&
          session_.phase() == IscsiSession::Phase::kUp) {
        status = ProtocolError(spec_, "a command could not be sent");
      }
    }
    if (status.ok() && session_.phase() == IscsiSession::Phase::kLost) status = session_.failure();
    if (status.ok() && !busy) return status;
    if (status.ok() && now >= deadline) {
      status = ConnectError(spec_, fmt::format("LUN {} did not answer reads in time", facts.lun));
    }
    if (!status.ok()) {
      session_.Drop();
      return status;
    }
    if (std::find(ended_.begin(), ended_.end(), true) == ended_.end()) {
      WaitFor(session_, deadline, later ? kMillisecond : kLongestWait);
    }
    session_.Step();
  }
}

}  // namespace muster
