#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/tls/peer.h"

namespace muster {

// Paths of PEM files, as --ca, --cert and --key name them.
struct TlsFiles {
  std::string ca;    // certificate(s) of the authority that signed everybody
  std::string cert;  // own certificate, with what is between it and the authority, if anything
  std::string key;   // its private key, without passphrase; not readable for others

  bool any() const { return !ca.empty() || !cert.empty() || !key.empty(); }
};

enum class TlsUse : uint8_t { kController, kAgent, kUser };

struct TlsCredentials {
  std::string ca_pem, cert_pem, key_pem;
  std::optional<PeerIdentity> identity;  // of agents and users
  std::string subject;                   // for people
  int64_t not_after = 0;                 // seconds of the epoch
};

// Reads the three files and checks that they can work: a handshake says little to the side that is refused. Blocks on
// the disk. `now`: seconds of the epoch, wall clock. Typed errors, each naming the file:
//   TLS_FILES_INCOMPLETE  not all three were given
//   SYS_*                 a file cannot be read
//   TLS_FILE_INVALID      no certificate or key in it, too large (1 MiB)
//   TLS_KEY_EXPOSED       other users may read the key
//   TLS_KEY_MISMATCH      the key is not the certificate's
//   TLS_CERT_EXPIRED, TLS_CERT_NOT_YET_VALID  with the date
//   TLS_CERT_UNTRUSTED    the authority did not sign it
//   TLS_CERT_PURPOSE      not made for this use: EKU serverAuth for controllers, clientAuth for agents and users
//   TLS_CERT_NAME         no SAN controller.muster, or no muster:// URI of the use
absl::StatusOr<TlsCredentials> LoadTls(const TlsFiles& files, TlsUse use, int64_t now);

}  // namespace muster
