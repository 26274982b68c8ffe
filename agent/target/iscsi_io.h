#pragma once
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/backend/backend.h"
#include "agent/backend/iscsi/connection_spec.h"

namespace muster {

// Writes to a LUN what comes before the load: zeroes and the label. One thread; every call
// may block until the deadline (absolute, CLOCK_MONOTONIC) given at Open.
class IscsiWriter {
 public:
  // Typed errors: agent/backend/iscsi/errors.h.
  static absl::StatusOr<std::unique_ptr<IscsiWriter>> Open(IscsiConnectionSpec spec, std::string place, Nanos deadline);
  ~IscsiWriter();
  IscsiWriter(const IscsiWriter&) = delete;
  IscsiWriter& operator=(const IscsiWriter&) = delete;

  // Whole blocks. ISCSI_RESERVED, or ISCSI_WRITE with what the target answered.
  absl::Status Write(uint64_t offset, std::span<uint8_t> bytes);
  // Zeroes at several places, several writes under way at once.
  struct Range {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  absl::Status Zero(std::span<const Range> ranges);
  absl::Status Flush();

 private:
  IscsiWriter(std::unique_ptr<Backend> backend, std::string place, Nanos deadline);
  absl::Status Run(std::span<const IoOp> ops, const char* what);

  std::unique_ptr<Backend> backend_;
  const std::string place_;
  const Nanos deadline_;
};

}  // namespace muster
