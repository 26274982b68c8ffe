// The closed loop through muster's Backend interface, driven as the engine drives it: wait, reap, stamp, record,
// refill, stamp, one Submit.
#include <cstdlib>
#include <numeric>
#include <vector>

#include "agent/backend/iscsi/iscsi_backend.h"
#include "common/base/status.h"
#include "fmt/format.h"
#include "tests/bench/iscsi/loop.h"

namespace muster::bench {
namespace {

void Run(const IscsiLoopOptions& options) {
  IscsiConnectionSpec spec;
  spec.host = options.host;
  spec.port = options.port;
  spec.target = options.target;
  spec.initiator = "iqn.2026-01.io.example.muster:bench";
  spec.luns = {options.lun};
  const auto backend = MakeIscsiBackend(spec);
  const SteadyClock& clock = SteadyClock::Get();
  const absl::Status opened = backend->Open({}, {}, {.depth = options.depth}, clock.Now() + 10 * kSecond);
  if (!opened.ok()) Die(FormatError(opened));
  uint64_t size = 0;
  for (const auto& [name, value] : backend->Describe().parameters) {
    if (name == "LUN size") size = std::strtoull(value.c_str(), nullptr, 10);
  }
  const LoopBuffers buffers(options);
  LoopOffsets offsets(options, size);
  std::vector<Nanos> issued(options.depth);
  std::vector<IoOp> ops(options.depth);
  std::vector<IoCompletion> done(options.depth);
  std::vector<uint32_t> refill(options.depth);
  std::iota(refill.begin(), refill.end(), 0);
  size_t refills = options.depth;
  LoopMeter meter;
  Nanos now = clock.Now();
  const Nanos end = now + static_cast<Nanos>(options.seconds * 1e9);
  while (now < end) {
    for (size_t i = 0; i < refills; ++i) {
      ops[i] = {.offset = offsets.Next(),
                .buffer = buffers[refill[i]],
                .tag = refill[i],
                .bytes = options.block,
                .kind = options.write ? IoKind::kWrite : IoKind::kRead};
    }
    now = clock.Now();
    for (size_t i = 0; i < refills; ++i) issued[refill[i]] = now;
    std::span<const IoOp> left(ops.data(), refills);
    size_t n = 0;
    do {
      left = left.subspan(backend->Submit(left, now));
      backend->WaitUntil(end + kSecond);
      now = clock.Now();
      n = backend->Reap(done, now);
    } while (n == 0);
    // What was not taken is offered again with the next batch.
    size_t kept = 0;
    for (const IoOp& op : left) refill[kept++] = static_cast<uint32_t>(op.tag);
    now = clock.Now();
    for (size_t i = 0; i < n; ++i) {
      if (done[i].outcome != IoOutcome::kOk) Die(fmt::format("an operation failed: {}", done[i].native_code));
      meter.Record(now - issued[done[i].tag]);
      refill[kept++] = static_cast<uint32_t>(done[i].tag);
    }
    refills = kept;
  }
  meter.Print("iscsi_backend");
  backend->Close();
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::Run(muster::bench::ParseIscsiLoop(argc, argv));
}
