// The bare libiscsi loop: its own tasks, its own wait, and nothing of muster but the report.
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
#include <poll.h>

#include <vector>

#include "fmt/format.h"
#include "tests/bench/iscsi/loop.h"

namespace muster::bench {
namespace {

struct Bare;
struct Slot {
  Bare* bare;
  scsi_iovec vector;
  Nanos issued;
};

struct Bare {
  const IscsiLoopOptions& options;
  iscsi_context* context = nullptr;
  uint32_t block = 0;  // of the LUN
  uint64_t size = 0;
  std::vector<Slot> slots;
  std::vector<uint32_t> idle;
  LoopMeter* meter = nullptr;
  Nanos now = 0;
};

void Done(iscsi_context* /*context*/, int status, void* task, void* slot) {
  Slot& s = *static_cast<Slot*>(slot);
  if (status != SCSI_STATUS_GOOD) Die("an operation failed");
  scsi_free_scsi_task(static_cast<scsi_task*>(task));
  s.bare->meter->Record(SteadyClock::Get().Now() - s.issued);
  s.bare->idle.push_back(static_cast<uint32_t>(&s - s.bare->slots.data()));
}

void Run(const IscsiLoopOptions& options) {
  Bare bare{.options = options};
  bare.context = iscsi_create_context("iqn.2026-01.io.example.muster:bare");
  iscsi_set_targetname(bare.context, options.target.c_str());
  iscsi_set_session_type(bare.context, ISCSI_SESSION_NORMAL);
  iscsi_set_header_digest(bare.context, ISCSI_HEADER_DIGEST_NONE);
  const std::string portal = fmt::format("{}:{}", options.host, options.port);
  if (iscsi_full_connect_sync(bare.context, portal.c_str(), options.lun) != 0) Die(iscsi_get_error(bare.context));
  scsi_task* const task = iscsi_readcapacity16_sync(bare.context, options.lun);
  if (task == nullptr || task->status != SCSI_STATUS_GOOD) Die("no capacity");
  const auto* const capacity = static_cast<scsi_readcapacity16*>(scsi_datain_unmarshall(task));
  bare.block = capacity->block_length;
  bare.size = (capacity->returned_lba + 1) * capacity->block_length;
  scsi_free_scsi_task(task);

  const LoopBuffers buffers(options);
  LoopOffsets offsets(options, bare.size);
  bare.slots.resize(options.depth);
  for (uint32_t i = 0; i < options.depth; ++i) {
    bare.slots[i] = {&bare, {buffers[i], options.block}, 0};
    bare.idle.push_back(i);
  }
  LoopMeter meter;
  bare.meter = &meter;
  const SteadyClock& clock = SteadyClock::Get();
  const Nanos end = clock.Now() + static_cast<Nanos>(options.seconds * 1e9);
  while (clock.Now() < end) {
    while (!bare.idle.empty()) {
      Slot& slot = bare.slots[bare.idle.back()];
      bare.idle.pop_back();
      slot.issued = clock.Now();
      const uint64_t lba = offsets.Next() / bare.block;
      const bool ok = options.write ? iscsi_write16_iov_task(bare.context, options.lun, lba, nullptr, options.block,
                                                             static_cast<int>(bare.block), 0, 0, 0, 0, 0, Done, &slot,
                                                             &slot.vector, 1) != nullptr
                                    : iscsi_read16_iov_task(bare.context, options.lun, lba, options.block,
                                                            static_cast<int>(bare.block), 0, 0, 0, 0, 0, Done, &slot,
                                                            &slot.vector, 1) != nullptr;
      if (!ok) Die(iscsi_get_error(bare.context));
    }
    pollfd p{
        .fd = iscsi_get_fd(bare.context), .events = static_cast<short>(iscsi_which_events(bare.context)), .revents = 0};
    if (poll(&p, 1, 1000) < 0 || iscsi_service(bare.context, p.revents) != 0) Die(iscsi_get_error(bare.context));
  }
  meter.Print("bare_iscsi");
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::Run(muster::bench::ParseIscsiLoop(argc, argv));
}
