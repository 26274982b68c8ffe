#pragma once
#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "muster/v1/campaign.pb.h"

namespace muster {

// The iscsi part of a target, CHAP included. Typed errors INVALID_FIELD, UNIT_SYNTAX (lists of LUNs, connections),
// NOT_SUPPORTED (data digests). A secret's value is read, and never written by EncodeIscsi: see ToProtoWithSecrets.
absl::StatusOr<IscsiTarget> DecodeIscsi(const v1::Target& target);
void EncodeIscsi(const IscsiTarget& from, v1::Target& out);

// "3", "0..7". At most 256 in all, none twice.
absl::StatusOr<std::vector<uint32_t>> ParseLuns(const std::vector<std::string>& texts);

}  // namespace muster
