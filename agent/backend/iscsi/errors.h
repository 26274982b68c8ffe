#pragma once
#include <string>

#include "absl/status/status.h"
#include "agent/backend/iscsi/connection_spec.h"

namespace muster {

// The typed errors of an iSCSI connection. Each names the portal, the target and, where one is meant, the LUN, and says
// what to do next. None contains a secret.
//
//   ISCSI_CONNECT     refused, unreachable, no answer in time
//   ISCSI_RESOLVE     a name, of the portal or of a redirect, is unknown, or nobody answered in time
//   ISCSI_BIND        the source address or port cannot be had
//   ISCSI_NO_RDMA     iSER asked and no RDMA device
//   ISCSI_LOGIN_AUTH  CHAP failed, in either direction, or one side demands it and the other does not offer it
//   ISCSI_LOGIN_ACL   the initiator may not use the target
//   ISCSI_NO_TARGET   unknown IQN (some targets, tgtd among them, answer so to an initiator that is not allowed, too),
//   or
//                     a target that is not in service (what LIO says of an unknown IQN)
//   ISCSI_DIGEST      the header digest asked for was not agreed on, or a header did not pass it
//   ISCSI_NEGOTIATION the target accepts no value offered for some key, such as one that insists on data digests
//   ISCSI_NO_LUN      absent, or not a disk
//   ISCSI_READ_ONLY   write-protected, and writes are wanted
//   ISCSI_BLOCK_SIZE  another logical block size than planned with
//   ISCSI_LUN_SIZE    smaller than planned with
//   ISCSI_PROTOCOL    anything else the target or the library refuses
std::string PlaceOf(const IscsiConnectionSpec& spec);
std::string PlaceOf(const IscsiConnectionSpec& spec, uint16_t lun);

absl::Status ConnectError(const IscsiConnectionSpec& spec, const std::string& why);
// `host` is the name; `patience` how long was waited for its address.
absl::Status ResolveError(const IscsiConnectionSpec& spec, const std::string& host, const std::string& why);
absl::Status ResolveTimeout(const IscsiConnectionSpec& spec, const std::string& host, Nanos patience);
absl::Status BindError(const IscsiConnectionSpec& spec, int err);
absl::Status NoRdmaError(const IscsiConnectionSpec& spec, const std::string& why);
// `status`: class and detail of a login response with class 2 or 3 (RFC 7143 11.13.5).
absl::Status LoginStatusError(const IscsiConnectionSpec& spec, uint16_t status);
absl::Status MutualChapError(const IscsiConnectionSpec& spec);
absl::Status DigestError(const IscsiConnectionSpec& spec, const std::string& why);
absl::Status NoLunError(const IscsiConnectionSpec& spec, uint16_t lun, const std::string& why);
absl::Status ReadOnlyError(const IscsiConnectionSpec& spec, uint16_t lun);
absl::Status BlockSizeError(const IscsiConnectionSpec& spec, uint16_t lun, uint32_t found, uint32_t planned);
absl::Status LunSizeError(const IscsiConnectionSpec& spec, uint16_t lun, uint64_t found, uint64_t planned);
absl::Status ProtocolError(const IscsiConnectionSpec& spec, const std::string& why);

// `text` if it contains none of the spec's secrets, else nothing.
std::string WithoutSecrets(const IscsiConnectionSpec& spec, const std::string& text);

}  // namespace muster
