#include "common/stats/op_stats.h"

namespace muster {

std::string_view OpKindName(OpKind kind) {
  switch (kind) {
    case OpKind::kRead:
      return "read";
    case OpKind::kWrite:
      return "write";
    case OpKind::kFlush:
      return "flush";
    case OpKind::kTrim:
      return "trim";
  }
  return "unknown";
}

std::string_view OutcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk:
      return "ok";
    case Outcome::kIo:
      return "io";
    case Outcome::kTimeout:
      return "timeout";
    case Outcome::kNoSpace:
      return "no_space";
    case Outcome::kShort:
      return "short";
    case Outcome::kUnsupported:
      return "unsupported";
    case Outcome::kAborted:
      return "aborted";
    case Outcome::kOther:
      return "other";
  }
  return "unknown";
}

}  // namespace muster
