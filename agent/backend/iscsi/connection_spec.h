#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"

namespace muster {

class IscsiResolver;

enum class IscsiTransport : uint8_t { kTcp, kIser };
enum class IscsiHeaderDigest : uint8_t { kNone, kCrc32c };

// One iSCSI session of one initiator: who logs in, where, as whom, and which LUNs it uses. Plain data.
// Secrets stand in the four CHAP fields only and are never part of an error text, a log line or a description.
struct IscsiConnectionSpec {
  std::string host;      // portal: an address, or a name that is resolved once, at Open ("10.0.0.5", "::1", "nas1")
  uint16_t port = 3260;  // portal
  IscsiResolver* resolver = nullptr;  // of names, of the portal and of redirects; null: the system's
  std::string target;                 // IQN, EUI or NAA name of the target
  std::string initiator;
  // Sessions of one initiator to one target differ in it. Same initiator, qualifier and portal group is session
  // reinstatement (RFC 7143 6.3.5): the target ends the older one.
  uint16_t isid_qualifier = 0;
  std::vector<uint16_t> luns;  // IoOp::object is the index in here

  std::string user, secret;                // CHAP; empty: none offered
  std::string mutual_user, mutual_secret;  // the target's answer to our challenge; needs user and secret

  IscsiHeaderDigest header_digest = IscsiHeaderDigest::kNone;
  IscsiTransport transport = IscsiTransport::kTcp;
  std::string source_address;  // empty: the system chooses
  uint16_t source_port = 0;    // 0: any

  bool writes = false;        // Open refuses a write-protected LUN (ISCSI_READ_ONLY)
  uint32_t queue_limit = 0;   // operations outstanding at most; 0: what the engine asks. Never more than 256
  uint32_t max_transfer = 0;  // bytes of one command at most; 0: no bound beyond the target's and the library's

  Nanos login_timeout = 15 * kSecond;  // one attempt: connect, login and the first commands; Open's deadline rules too
  Nanos first_backoff = 100 * kMillisecond;  // before the first reconnect; doubled at each failure
  Nanos max_backoff = 5 * kSecond;
};

}  // namespace muster
