#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/backend/iscsi/iscsi_backend.h"
#include "agent/backend/iscsi/resolve.h"
#include "tests/support/iscsi_proxy.h"
#include "tests/support/look_up_gate.h"
#include "tests/support/tgt.h"

namespace muster::test {

inline constexpr const char* kInitiator = "iqn.2026-01.io.example.test:host1";
inline constexpr const char* kTarget = "iqn.2026-01.io.example.test:disks";

// To LUN 1 of kTarget at a port of the loopback address.
IscsiConnectionSpec SpecFor(uint16_t port);

// A backend under test with page-aligned buffers of its own, one a slot.
class Connection {
 public:
  explicit Connection(IscsiConnectionSpec spec, uint32_t depth = 32, uint32_t buffer_bytes = 64 * 1024);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Nanos op_timeout = 60 * kSecond;
  absl::Status TryOpen(std::vector<BackendObject> objects = {}, Nanos patience = 10 * kSecond);
  void Open(std::vector<BackendObject> objects = {});  // fails the test if it fails

  Backend& backend() { return *backend_; }
  uint8_t* buffer(uint32_t i) { return pool_ + size_t{i} * buffer_bytes_; }
  uint32_t buffer_bytes() const { return buffer_bytes_; }
  IoOp Op(IoKind kind, uint64_t offset, uint32_t bytes, uint32_t i = 0);

  // Submits until all are accepted, waiting out a connection that is down; fails the test after a minute.
  void SubmitAll(std::vector<IoOp> ops);
  // Reaps until `count` more have come.
  std::vector<IoCompletion> Collect(size_t count);
  std::vector<IoCompletion> Run(const std::vector<IoOp>& ops);
  IoCompletion RunOne(const IoOp& op) { return Run({op}).at(0); }
  // Drives the backend until `done` or a minute has passed, which fails the test. Completions are kept for Collect.
  template <typename Done>
  void DriveUntil(Done done) {
    const Nanos deadline = SteadyClock::Get().Now() + kMinute;
    while (!done()) {
      if (SteadyClock::Get().Now() > deadline) Overdue();
      TakeOne(deadline);
    }
  }
  uint64_t Counter(const std::string& name);  // 0 if it is not there
  std::string Parameter(const std::string& name);

 private:
  [[noreturn]] static void Overdue();
  void TakeOne(Nanos deadline);

  std::unique_ptr<Backend> backend_;
  const uint32_t depth_;
  const uint32_t buffer_bytes_;
  uint8_t* pool_ = nullptr;
  std::vector<IoCompletion> kept_;
};

// The code of a typed error ("" for OK), checked for its text: portal and target named, a next step, no secret.
std::string CodeOf(const absl::Status& status, const IscsiConnectionSpec& spec);

void FillRandom(uint8_t* begin, size_t bytes, uint64_t seed);
std::vector<uint8_t> ReadFile(const std::string& path, uint64_t offset, size_t bytes);

}  // namespace muster::test
