#include "agent/guard/content_check.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "agent/guard/device_info.h"
#include "agent/guard/fd.h"
#include "agent/guard/signatures.h"
#include "common/base/status.h"

namespace muster {
namespace {

absl::Status Refuse(const char* code, const std::string& place, std::string message, std::string next) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.code = code, .place = place, .message = std::move(message), .next = std::move(next)});
}

std::string OverwriteHint(const BlockFindings& found) {
  std::string id = found.identities.empty() ? std::string() : found.identities.front().second;
  if (id.empty())
    return "This device tells no WWID or serial, so it cannot be named for overwriting: clear it yourself.";
  return "If its content may be lost, add `overwrite: {id: \"" + id + "\", size: " + std::to_string(found.size) +
         "B}` to the target.";
}

}  // namespace

absl::Status MatchOverwrite(const Overwrite& overwrite, const BlockFindings& found) {
  const std::string asked = CollapseBlanks(overwrite.id);
  bool match = false;
  std::string known;
  for (const auto& [kind, value] : found.identities) {
    match = match || (!asked.empty() && value == asked);
    if (!known.empty()) known += ", ";
    known += kind;
    known += " ";
    known += value;
  }
  if (!match) {
    return Refuse("TARGET_WRONG_ID", found.place,
                  "`overwrite` names \"" + overwrite.id + "\", but this device is " +
                      (known.empty() ? std::string("without any WWID or serial") : known) +
                      " (content: " + found.content + ")",
                  "Check that the right device is named; nothing was written.");
  }
  if (overwrite.size != found.size) {
    return Refuse("TARGET_WRONG_SIZE", found.place,
                  "`overwrite` names a size of " + std::to_string(overwrite.size) + " bytes, but the device has " +
                      std::to_string(found.size),
                  "Check that the right device is named; nothing was written.");
  }
  return absl::OkStatus();
}

absl::Status CheckContent(const std::optional<Overwrite>& overwrite, int fd, BlockFindings& found) {
  MUSTER_ASSIGN_OR_RETURN(found.ends, ReadEnds(fd, found.size, found.place));
  const DeviceEnds& ends = found.ends;
  found.overwrites = false;
  if (ends.content == Content::kBlank) {
    found.content = "blank";
  } else if (ends.content == Content::kOurs) {
    found.content = "muster label, generation " + std::to_string(ends.label->generation);
  } else {
    // libblkid reads through the page cache: a plain descriptor of the very same device.
    const std::string self = "/proc/self/fd/" + std::to_string(fd);
    Fd plain(open(self.c_str(), O_RDONLY | O_CLOEXEC));
    if (!plain) return ErrnoError(errno, "cannot open for probing", found.place, "Check the device's permissions.");
    struct stat st {};
    const bool image = fstat(plain.get(), &st) == 0 && S_ISREG(st.st_mode);
    MUSTER_ASSIGN_OR_RETURN(found.content, FindSignatures(plain.get(), found.place, image ? found.logical_block : 0));
    if (!ends.why.empty()) {
      found.content = found.content.empty() ? ends.why : ends.why + "; " + found.content;
    } else if (found.content.empty()) {
      found.content = "unknown data at offset " + std::to_string(ends.first_nonzero);
    }
  }
  // A campaign that names a device means that device: another one in its place is refused even if it is blank.
  if (overwrite.has_value()) {
    MUSTER_RETURN_IF_ERROR(MatchOverwrite(*overwrite, found));
    found.overwrites = ends.content == Content::kForeign;
    return absl::OkStatus();
  }
  if (ends.content != Content::kForeign) return absl::OkStatus();
  return Refuse("TARGET_HAS_DATA", found.place, "the device is not blank: " + found.content, OverwriteHint(found));
}

}  // namespace muster
