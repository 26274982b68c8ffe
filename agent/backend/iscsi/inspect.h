#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/backend/iscsi/cdb.h"
#include "agent/backend/iscsi/session.h"

namespace muster {

// What one LUN says about itself.
struct IscsiLunFacts {
  uint16_t lun = 0;
  InquiryFacts inquiry;
  std::string serial;                   // VPD 80h, empty if not offered
  std::vector<std::string> device_ids;  // VPD 83h
  CapacityFacts capacity;
  BlockLimits limits;  // VPD B0h, zeroes if not offered
  ProvisioningFacts provisioning;
  ModeFacts mode;
  bool has_mode = false;  // MODE SENSE was answered; else write protection and caching are unknown
  bool is_disk() const { return inquiry.qualifier == 0 && inquiry.device_type == 0; }
  uint64_t bytes() const { return capacity.blocks * capacity.block_bytes; }
};

// Drives a session whose user wants to wait: commands one at a time, reads only. Takes the session's handler for its
// lifetime. Every call ends at `deadline` (absolute) at the latest.
class IscsiInspector {
 public:
  IscsiInspector(const IscsiConnectionSpec& spec, IscsiSession& session);

  // Until the session is up, or its typed error.
  absl::Status WaitForLogin(Nanos deadline);
  // Unit attentions of a new session are taken, at most 8; other answers end it well: what follows tells.
  absl::Status TakeUnitAttentions(uint16_t lun, Nanos deadline);
  absl::StatusOr<std::vector<uint16_t>> ReportLuns(Nanos deadline);
  // ISCSI_NO_LUN if it is absent or no disk; optional pages that are not offered leave their fields as they are.
  absl::StatusOr<IscsiLunFacts> Inspect(uint16_t lun, Nanos deadline);
  struct Range {  // whole blocks
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  using Sink = std::function<absl::Status(uint64_t offset, std::span<const uint8_t> piece)>;
  // Reads with up to kReadsAtOnce commands under way, and hands over pieces as they come, in whatever order. After an
  // error, the sink's own included, the session is dropped: answers that were under way must find no buffer.
  absl::Status Read(const IscsiLunFacts& facts, std::span<const Range> ranges, const Sink& sink, Nanos deadline);
  static constexpr uint32_t kReadsAtOnce = 8;
  static constexpr uint32_t kReadBytes = 256 * 1024;  // of one command

 private:
  static void Answered(void* self, uint32_t id, const ScsiAnswer& answer);
  absl::Status Run(const Cdb& cdb, uint16_t lun, std::span<uint8_t> data, Nanos deadline);
  // Runs, and again after a unit attention; `got` is what came. An answer that is no success leaves `got` empty.
  absl::Status Ask(const Cdb& cdb, uint16_t lun, std::span<const uint8_t>& got, Nanos deadline);

  struct Reading {
    Range range;
    bool busy = false;
    int attentions = 0;
    Nanos delay = 0;     // before it is sent again, after BUSY or TASK SET FULL
    Nanos again_at = 0;  // 0: it is out
  };
  absl::Status TakeReading(const IscsiLunFacts& facts, uint32_t id, std::span<const uint8_t> piece, const Sink& sink);

  const IscsiConnectionSpec& spec_;
  IscsiSession& session_;
  // Of single commands; of several, each by its id.
  std::array<ScsiAnswer, kReadsAtOnce> answers_;
  std::array<bool, kReadsAtOnce> ended_{};
  std::array<Reading, kReadsAtOnce> readings_;
  ScsiAnswer& answer_ = answers_[0];
  bool& done_ = ended_[0];
  std::vector<uint8_t> buffer_;
};

}  // namespace muster
