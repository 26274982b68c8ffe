#pragma once
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "agent/backend/iscsi/inspect.h"

namespace muster {

// A short session that looks at a target and never writes: for attaching, for the write guard, for
// `muster targets probe`. One thread; every call may block until its deadline (absolute, CLOCK_MONOTONIC).
class IscsiProbe {
 public:
  // Connects and logs in. Typed errors: agent/backend/iscsi/errors.h.
  static absl::StatusOr<std::unique_ptr<IscsiProbe>> Login(const IscsiConnectionSpec& spec, Nanos deadline);
  ~IscsiProbe();  // logs out, waiting at most 100 ms for the answer
  IscsiProbe(const IscsiProbe&) = delete;
  IscsiProbe& operator=(const IscsiProbe&) = delete;

  // All LUNs, in ascending order, those that are no disks included.
  absl::StatusOr<std::vector<uint16_t>> ReportLuns(Nanos deadline);
  absl::StatusOr<IscsiLunFacts> Inspect(uint16_t lun, Nanos deadline);
  // As IscsiInspector::Read: several commands at once, pieces in whatever order.
  absl::Status Read(const IscsiLunFacts& facts, std::span<const IscsiInspector::Range> ranges,
                    const IscsiInspector::Sink& sink, Nanos deadline);

  // Portal, names, ISID and what the login agreed on, as (name, value).
  std::vector<std::pair<std::string, std::string>> Negotiated() const;
  // What the target answered to the login's other keys ("MaxConnections", "DefaultTime2Wait" ...).
  std::vector<std::pair<std::string, std::string>> OtherKeys() const;

 private:
  explicit IscsiProbe(const IscsiConnectionSpec& spec);
  const IscsiConnectionSpec spec_;
  IscsiSession session_;
  IscsiInspector inspector_;
};

// The parameters of a session that is up; shared by the probe and the backend's Describe.
std::vector<std::pair<std::string, std::string>> DescribeSession(const IscsiConnectionSpec& spec,
                                                                 const IscsiSession& session);
// Those of a LUN, each name preceded by `prefix`.
std::vector<std::pair<std::string, std::string>> DescribeLun(const IscsiLunFacts& facts, const std::string& prefix);

}  // namespace muster
