#include "agent/backend/errno_outcome.h"

#include <cerrno>

namespace muster {

IoOutcome OutcomeOfErrno(int err) {
  switch (err) {
    case EIO:
    case EREMOTEIO:  // SCSI target failure
    case ENODATA:    // critical medium error
    case EILSEQ:     // protection information does not match
    case EBADMSG:
    case ENOLINK:  // transport failed
    case ENXIO:
    case ENODEV:     // device gone
    case ESHUTDOWN:  // file system shut down
    case EUCLEAN:    // file system corrupt
      return IoOutcome::kIo;
    case ETIMEDOUT:
    case ETIME:
      return IoOutcome::kTimeout;
    case ENOSPC:
    case EDQUOT:
      return IoOutcome::kNoSpace;
    case EINVAL:  // O_DIRECT alignment, above all
    case EOPNOTSUPP:
    case ENOSYS:
      return IoOutcome::kUnsupported;
    case ECANCELED:
    case EINTR:
      return IoOutcome::kAborted;
    default:
      return IoOutcome::kOther;
  }
}

}  // namespace muster
