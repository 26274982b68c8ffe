#include "agent/target/iscsi_lun.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "agent/backend/iscsi/errors.h"
#include "agent/guard/content_check.h"
#include "agent/guard/device_info.h"
#include "agent/guard/fd.h"
#include "agent/target/iscsi_io.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace muster {
namespace {

absl::Status Refuse(const char* code, const std::string& place, std::string message, std::string next) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.code = code, .place = place, .message = std::move(message), .next = std::move(next)});
}

void AddIdentities(IscsiLun& lun) {
  auto& out = lun.found.identities;
  for (const std::string& id : lun.facts.device_ids) out.emplace_back("WWID", CollapseBlanks(id));
  if (!lun.facts.serial.empty()) out.emplace_back("serial", CollapseBlanks(lun.facts.serial));
  // What every LUN has: where it is.
  out.emplace_back("LUN", fmt::format("{}+{}", lun.spec.target, lun.facts.lun));
}

absl::Status ReadInto(IscsiProbe& probe, const IscsiLunFacts& facts, IscsiInspector::Range range,
                      std::span<uint8_t> out, Nanos deadline) {
  const auto copy = [&](uint64_t offset, std::span<const uint8_t> piece) {
    std::copy(piece.begin(), piece.end(), out.begin() + static_cast<ptrdiff_t>(offset - range.offset));
    return absl::OkStatus();
  };
  return probe.Read(facts, {&range, 1}, copy, deadline);
}

bool AllZero(std::span<const uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

// `bytes` at each end, less `known` that are read already; in whole blocks, no byte twice.
std::vector<IscsiInspector::Range> Ends(const BlockFindings& found, uint64_t known, uint64_t bytes) {
  const uint64_t half = found.size / 2 / found.logical_block * found.logical_block;
  known = std::min(known, half);
  bytes = std::min(bytes, half);
  std::vector<IscsiInspector::Range> out = {{known, bytes - known}, {found.size - bytes, bytes - known}};
  // A block in the middle of an odd number of them.
  if (bytes == half && known < half && found.size > 2 * half) out[0].bytes += found.size - 2 * half;
  return out;
}

// A sparse file of the LUN's size with what the guard judges by: libblkid answers on it as on the whole. Where a label
// and nothing else lies in the first and last MiB, those are all; otherwise the first and last 8 MiB.
absl::StatusOr<Fd> ImageOf(const IscsiLun& lun, IscsiProbe& probe, Nanos deadline) {
  const BlockFindings& found = lun.found;
  const auto no_image = [&] {
    return ErrnoError(errno != 0 ? errno : EIO, "cannot make an image of the LUN's ends", found.place,
                      "Check the agent's memory limits.");
  };
  Fd image(memfd_create("muster-lun-ends", MFD_CLOEXEC));
  if (!image || ftruncate(image.get(), static_cast<off_t>(found.size)) != 0) return no_image();
  bool ours = false;
  bool other = false;
  const auto keep = [&](uint64_t offset, std::span<const uint8_t> piece) -> absl::Status {
    size_t label = 0;
    if (offset == 0) {
      const std::optional<Label> there = DecodeLabel(piece);
      ours = there.has_value() && there->device_size == found.size;
      label = ours ? std::min(kLabelBytes, piece.size()) : 0;
    }
    if (AllZero(piece.subspan(label))) {  // stays a hole
      piece = piece.first(label);
    } else {
      other = true;
    }
    while (!piece.empty()) {
      const ssize_t n = pwrite(image.get(), piece.data(), piece.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return no_image();
      piece = piece.subspan(static_cast<size_t>(n));
      offset += static_cast<uint64_t>(n);
    }
    return absl::OkStatus();
  };
  MUSTER_RETURN_IF_ERROR(probe.Read(lun.facts, Ends(found, 0, kReservedBytes), keep, deadline));
  if (ours && !other) return image;
  MUSTER_RETURN_IF_ERROR(probe.Read(lun.facts, Ends(found, kReservedBytes, kExaminedBytes), keep, deadline));
  return image;
}

absl::StatusOr<std::unique_ptr<IscsiProbe>> Login(const IscsiConnectionSpec& spec, IscsiLun& lun, Nanos deadline) {
  // A portal that takes connections and never answers is told long before the time for attaching is over.
  const Nanos answered_by = std::min(deadline, SteadyClock::Get().Now() + spec.login_timeout);
  MUSTER_ASSIGN_OR_RETURN(auto probe, IscsiProbe::Login(spec, answered_by));
  MUSTER_ASSIGN_OR_RETURN(lun.facts, probe->Inspect(spec.luns.front(), deadline));
  lun.spec = spec;
  lun.found = {};
  lun.found.place = PlaceOf(spec, spec.luns.front());
  lun.found.size = lun.facts.bytes();
  lun.found.logical_block = lun.facts.capacity.block_bytes;
  lun.found.read_only = lun.facts.has_mode && lun.facts.mode.write_protected;
  lun.negotiated = probe->Negotiated();
  AddIdentities(lun);
  return probe;
}

}  // namespace

absl::StatusOr<IscsiLun> LookAtLun(const IscsiConnectionSpec& spec, Nanos deadline) {
  IscsiLun lun;
  MUSTER_ASSIGN_OR_RETURN(const auto probe, Login(spec, lun, deadline));
  std::vector<uint8_t> head(std::max<size_t>(kLabelBytes, lun.found.logical_block));
  if (lun.found.size < head.size()) return lun;
  MUSTER_RETURN_IF_ERROR(ReadInto(*probe, lun.facts, {0, head.size()}, head, deadline));
  lun.label = DecodeLabel(head);
  if (lun.label && lun.label->device_size != lun.found.size) lun.label.reset();
  return lun;
}

absl::Status ExamineLun(IscsiLun& lun, const std::optional<Overwrite>& overwrite, uint64_t needed, Nanos deadline) {
  MUSTER_ASSIGN_OR_RETURN(const auto probe, Login(IscsiConnectionSpec(lun.spec), lun, deadline));
  if (lun.found.read_only) {
    return Refuse("TARGET_READ_ONLY", lun.found.place, "the LUN is write-protected",
                  "Allow writing at the target, or run read-only steps.");
  }
  if (lun.found.Usable() < std::max<uint64_t>(needed, 1)) {
    return Refuse("TARGET_TOO_SMALL", lun.found.place,
                  fmt::format("the working set needs {} bytes, but the LUN offers {} ({} less 1 MiB at each end)",
                              needed, lun.found.Usable(), lun.found.size),
                  "Lower `size` or name a larger LUN.");
  }
  MUSTER_ASSIGN_OR_RETURN(const Fd image, ImageOf(lun, *probe, deadline));
  MUSTER_RETURN_IF_ERROR(CheckContent(overwrite, image.get(), lun.found));
  lun.label = lun.found.ends.content == Content::kOurs ? lun.found.ends.label : std::nullopt;
  return absl::OkStatus();
}

absl::Status ClaimLun(IscsiLun& lun, const std::optional<Overwrite>& overwrite, uint64_t needed,
                      const std::string& created_by, Nanos deadline) {
  const BlockFindings seen = lun.found;
  // Logged in for writing first, so that nothing but the writes comes between the last look and the first of them.
  MUSTER_ASSIGN_OR_RETURN(const auto writer, IscsiWriter::Open(lun.spec, seen.place, deadline));
  IscsiLun now;
  now.spec = lun.spec;
  now.spec.isid_qualifier = static_cast<uint16_t>(lun.spec.isid_qualifier + 1);  // beside the writer's session
  MUSTER_RETURN_IF_ERROR(ExamineLun(now, overwrite, needed, deadline));
  if (now.found.size != seen.size || now.found.identities != seen.identities) {
    return Refuse("TARGET_CHANGED", seen.place, "another LUN took its place since it was checked", "Start again.");
  }
  Label label;
  if (now.label.has_value()) {
    label = *now.label;
  } else {
    label.uuid = NewUuid();
    label.created_micros = WallMicros();
  }
  label.generation += 1;
  label.device_size = now.found.size;
  label.created_by = created_by;
  if (now.found.overwrites) {
    const uint64_t end =
        std::min(kExaminedBytes, now.found.size / 2 / now.found.logical_block * now.found.logical_block);
    const IscsiWriter::Range ends[] = {{now.found.size - end, end}, {0, end}};
    MUSTER_RETURN_IF_ERROR(writer->Zero(ends));
    MUSTER_RETURN_IF_ERROR(writer->Flush());
  }
  const auto encoded = EncodeLabel(label);
  std::vector<uint8_t> block(std::max<size_t>(kLabelBytes, now.found.logical_block), 0);
  std::copy(encoded.begin(), encoded.end(), block.begin());
  MUSTER_RETURN_IF_ERROR(writer->Write(0, block));
  MUSTER_RETURN_IF_ERROR(writer->Flush());
  now.label = label;
  now.spec = lun.spec;
  lun = std::move(now);
  return absl::OkStatus();
}

absl::StatusOr<Fd> HoldLun(const IscsiLun& lun) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "muster-lun/" + FormatUuid(lun.label->uuid);
  std::copy(name.begin(), name.end(), address.sun_path + 1);  // a leading zero: no file
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  Fd held(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (held && bind(held.get(), reinterpret_cast<const sockaddr*>(&address), bytes) == 0) return held;
  if (errno == EADDRINUSE) {
    return Refuse("TARGET_HELD", lun.found.place, "a run on this host is using the LUN, by this or another path",
                  "Wait for its end; within one campaign, let all steps name one target for it.");
  }
  return ErrnoError(errno, "cannot hold the LUN for this run", lun.found.place, "Check the agent's limits.");
}

}  // namespace muster
