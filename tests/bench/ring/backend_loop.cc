// The same loop through muster's Backend interface, driven as the engine drives it: reap, stamp, record, refill, stamp,
// one Submit, and a wait only when nothing has finished. Its distance to bare_ring is what the backend costs; the
// engine's distance to it is what the engine costs. With --null it measures the null backend.
#include <cerrno>
#include <numeric>

#include "agent/backend/null_backend.h"
#include "agent/backend/uring_backend.h"
#include "fmt/format.h"
#include "tests/bench/ring/loop.h"

namespace muster::bench {
namespace {

void Run(const LoopOptions& options, const LoopFile& file) {
  const auto backend = options.null ? MakeNullBackend({}, 1) : MakeUringBackend();
  const BackendObject object{.fd = file.fd(), .size = file.size(), .logical_block = 512, .is_block_device = false};
  const BufferRegion region{file.pool(), file.pool_bytes()};
  const absl::Status opened = backend->Open({&object, 1}, {&region, 1}, {.depth = options.depth}, kNever);
  if (!opened.ok()) Die(std::string(opened.message()), EIO);

  const uint64_t blocks = file.size() / kBlock;
  Rng rng(1);
  DenseRecorder recorder;
  std::vector<Nanos> issued(options.depth);
  std::vector<IoOp> ops(options.depth);
  std::vector<IoCompletion> done(options.depth);
  std::vector<uint32_t> refill(options.depth);
  std::iota(refill.begin(), refill.end(), 0);
  size_t refills = options.depth;
  uint64_t batches = 0;
  const SteadyClock& clock = SteadyClock::Get();
  const LoopReport report;
  Nanos now = clock.Now();
  const Nanos end = now + static_cast<Nanos>(options.seconds * 1e9);
  for (;;) {
    for (size_t i = 0; i < refills; ++i) {
      const uint32_t slot = refill[i];
      ops[i] = {.offset = rng.Below(blocks) * kBlock, .buffer = file.buffer(slot), .tag = slot, .bytes = kBlock};
    }
    now = clock.Now();
    for (size_t i = 0; i < refills; ++i) issued[refill[i]] = now;
    if (backend->Submit({ops.data(), refills}, now) != refills) Die("Submit took less than was free", EBUSY);
    size_t n = 0;
    while ((n = backend->Reap(done, now)) == 0) {
      backend->WaitUntil(end + kSecond);
      now = clock.Now();
    }
    now = clock.Now();
    for (size_t i = 0; i < n; ++i) {
      if (done[i].outcome != IoOutcome::kOk) Die("operation failed", done[i].native_code);
      recorder.Record(now - issued[done[i].tag]);
      refill[i] = static_cast<uint32_t>(done[i].tag);
    }
    refills = n;
    ++batches;
    if (now >= end) break;
  }
  report.Print(options.null ? "null_backend" : "uring_backend", recorder, batches);
  while (backend->outstanding() > 0) {
    if (backend->Reap(done, clock.Now()) == 0) backend->WaitUntil(clock.Now() + kSecond);
  }
  backend->Close();
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  using namespace muster::bench;
  const LoopOptions options = ParseLoopOptions(argc, argv);
  const LoopFile file(options);
  Run(options, file);
}
