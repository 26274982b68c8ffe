// The bare ring loop: the same ring flags and registrations as muster's io_uring backend, and nothing else of muster.
// One system call a batch submits the refilled operations and waits for the next completion; O_DIRECT goes out in
// portions of 4, as the backend's does.
#include <liburing.h>
#include <unistd.h>

#include <bit>
#include <cerrno>

#include "tests/bench/ring/loop.h"

namespace muster::bench {
namespace {

void RunRing(const LoopOptions& options, const LoopFile& file) {
  io_uring ring{};
  io_uring_params params{};
  params.flags =
      IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL;
  if (const int r = io_uring_queue_init_params(std::bit_ceil(options.depth), &ring, &params); r != 0) {
    Die("io_uring_setup", -r);
  }
  if (const int r = io_uring_register_ring_fd(&ring); r != 1) Die("register ring", -r);
  const int fd = file.fd();
  if (const int r = io_uring_register_files(&ring, &fd, 1); r != 0) Die("register file", -r);
  const iovec region{file.pool(), file.pool_bytes()};
  if (const int r = io_uring_register_buffers(&ring, &region, 1); r != 0) Die("register buffers", -r);

  const uint64_t blocks = file.size() / kBlock;
  Rng rng(1);
  DenseRecorder recorder;
  std::vector<Nanos> issued(options.depth);
  std::vector<uint32_t> refill(options.depth);
  for (uint32_t i = 0; i < options.depth; ++i) refill[i] = i;
  uint32_t refills = options.depth;
  uint64_t batches = 0;
  const SteadyClock& clock = SteadyClock::Get();
  const LoopReport report;
  Nanos now = clock.Now();
  const Nanos end = now + static_cast<Nanos>(options.seconds * 1e9);
  const uint32_t batch = options.direct ? 4 : options.depth;
  for (;;) {
    uint32_t stamped = 0;
    for (uint32_t i = 0; i < refills; ++i) {
      const uint32_t slot = refill[i];
      io_uring_sqe* sqe = io_uring_get_sqe(&ring);
      io_uring_prep_read_fixed(sqe, 0, file.buffer(slot), kBlock, rng.Below(blocks) * kBlock, 0);
      sqe->flags |= IOSQE_FIXED_FILE;
      sqe->user_data = slot;
      if ((i + 1) % batch != 0 && i + 1 < refills) continue;
      now = clock.Now();
      for (; stamped <= i; ++stamped) issued[refill[stamped]] = now;
      if (i + 1 == refills) break;
      if (const int r = io_uring_submit(&ring); r < 0) Die("submit", -r);
    }
    if (const int r = io_uring_submit_and_wait(&ring, 1); r < 0 && r != -EINTR) Die("submit", -r);
    now = clock.Now();
    refills = 0;
    unsigned head = 0;
    unsigned seen = 0;
    io_uring_cqe* cqe = nullptr;
    io_uring_for_each_cqe(&ring, head, cqe) {
      if (cqe->res != static_cast<int>(kBlock)) Die("read", cqe->res < 0 ? -cqe->res : EIO);
      const auto slot = static_cast<uint32_t>(cqe->user_data);
      recorder.Record(now - issued[slot]);
      refill[refills++] = slot;
      ++seen;
    }
    io_uring_cq_advance(&ring, seen);
    ++batches;
    if (now >= end) break;
  }
  report.Print("bare_ring", recorder, batches);
  for (uint32_t left = options.depth - refills; left > 0; --left) {
    io_uring_cqe* cqe = nullptr;
    if (io_uring_wait_cqe(&ring, &cqe) != 0) break;
    io_uring_cqe_seen(&ring, cqe);
  }
  io_uring_queue_exit(&ring);
}

void RunPread(const LoopOptions& options, const LoopFile& file) {
  const uint64_t blocks = file.size() / kBlock;
  Rng rng(1);
  DenseRecorder recorder;
  const SteadyClock& clock = SteadyClock::Get();
  const LoopReport report;
  Nanos now = clock.Now();
  const Nanos end = now + static_cast<Nanos>(options.seconds * 1e9);
  while (now < end) {
    const uint64_t offset = rng.Below(blocks) * kBlock;
    const Nanos issued = clock.Now();
    const ssize_t r = pread(file.fd(), file.buffer(0), kBlock, static_cast<off_t>(offset));
    now = clock.Now();
    if (r != kBlock) Die("pread", r < 0 ? errno : EIO);
    recorder.Record(now - issued);
  }
  report.Print("pread", recorder, recorder.count());
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  using namespace muster::bench;
  const LoopOptions options = ParseLoopOptions(argc, argv);
  const LoopFile file(options);
  if (options.pread) {
    RunPread(options, file);
  } else {
    RunRing(options, file);
  }
}
