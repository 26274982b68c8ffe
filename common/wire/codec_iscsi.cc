#include "common/wire/codec_iscsi.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "common/base/status.h"
#include "common/plan/portal.h"
#include "common/wire/invalid.h"
#include "common/wire/rules.h"

namespace muster {
namespace {

constexpr uint32_t kLargestLun = 16'383;  // flat addressing, SAM-5 4.7.7.3
constexpr size_t kMostLuns = 256;
constexpr uint32_t kMostConnections = 1024;  // of one initiator

// `place` is the option of the campaign's target.
absl::Status Syntax(std::string place, std::string message, std::string next) {
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.code = "UNIT_SYNTAX", .place = std::move(place), .message = std::move(message), .next = std::move(next)});
}

bool Number(std::string_view text, uint32_t most, uint32_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && out <= most;
}

absl::StatusOr<uint32_t> Connections(const std::string& text) {
  uint32_t count = 0;
  if (text.empty()) return 1u;
  if (text == "per_stream") return kPerStream;
  if (Number(text, kMostConnections, count) && count > 0) return count;
  return Syntax("iscsi.connections", fmt::format("{} is no number of connections", QuoteText(text)),
                fmt::format("Write 1 to {}, or per_stream.", kMostConnections));
}

Secret DecodeSecret(const v1::Secret& from) {
  Secret out;
  if (from.source_case() == v1::Secret::kEnv) out.reference = "env:" + from.env();
  if (from.source_case() == v1::Secret::kFile) out.reference = "file:" + from.file();
  out.value = from.value();
  return out;
}

void EncodeSecret(const Secret& from, v1::Secret& to) {
  if (from.reference.starts_with("env:")) to.set_env(from.reference.substr(4));
  if (from.reference.starts_with("file:")) to.set_file(from.reference.substr(5));
}

absl::Status NoPortal(size_t index, const std::string& text) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.code = "INVALID_FIELD",
                    .place = fmt::format("iscsi.portal[{}]", index),
                    .message = fmt::format("{} is no HOST[:PORT]", QuoteText(text)),
                    .next = "Write an address or a name, and a port from 1 to 65535: 192.0.2.10:3260, "
                            "[2001:db8::1]:3260."});
}

absl::Status NoDataDigest() {
  return MakeError(absl::StatusCode::kUnimplemented,
                   {.code = "NOT_SUPPORTED",
                    .place = "iscsi.data_digest",
                    .message = "data digests are not supported by libiscsi 1.19",
                    .next = "Remove it; header_digest: crc32c is there. Kernel initiators have data digests."});
}

absl::Status NotOverIser(const char* place, const char* why) {
  return MakeError(absl::StatusCode::kInvalidArgument, {.code = "CONTRADICTION",
                                                        .place = place,
                                                        .message = fmt::format("not over iSER: {}", why),
                                                        .next = "Remove it, or use transport: tcp."});
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> ParseLuns(const std::vector<std::string>& texts) {
  std::vector<uint32_t> luns;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string& text = texts[i];
    const std::string place = fmt::format("iscsi.lun[{}]", i);
    const size_t dots = text.find("..");
    uint32_t first = 0;
    uint32_t last = 0;
    const bool good = dots == std::string::npos
                          ? Number(text, kLargestLun, first) && ((last = first), true)
                          : Number(std::string_view(text).substr(0, dots), kLargestLun, first) &&
                                Number(std::string_view(text).substr(dots + 2), kLargestLun, last) && first <= last;
    if (!good) {
      return Syntax(place, fmt::format("{} is no LUN", QuoteText(text)),
                    fmt::format("Write a number up to {}, or a range like 0..7.", kLargestLun));
    }
    if (luns.size() + (last - first) + 1 > kMostLuns) {
      return Syntax(place, fmt::format("more than {} LUNs", kMostLuns), "Name fewer.");
    }
    for (uint32_t lun = first; lun <= last; ++lun) {
      if (std::find(luns.begin(), luns.end(), lun) != luns.end()) {
        return Syntax(place, fmt::format("LUN {} is named twice", lun), "Name each once.");
      }
      luns.push_back(lun);
    }
  }
  if (luns.empty()) luns.push_back(0);
  return luns;
}

absl::StatusOr<IscsiTarget> DecodeIscsi(const v1::Target& target) {
  const v1::IscsiTarget& from = target.iscsi();
  IscsiTarget out;
  out.portals.assign(from.portal().begin(), from.portal().end());
  if (out.portals.empty()) return InvalidField("iscsi.portal", "is empty");
  for (size_t i = 0; i < out.portals.size(); ++i) {
    if (!ParsePortal(out.portals[i])) return NoPortal(i, out.portals[i]);
  }
  out.iqn = from.iqn();
  MUSTER_ASSIGN_OR_RETURN(out.luns, ParseLuns({from.lun().begin(), from.lun().end()}));
  out.initiator = from.initiator();
  out.sources.assign(from.source().begin(), from.source().end());
  MUSTER_ASSIGN_OR_RETURN(out.connections, Connections(from.connections()));
  out.header_digest = from.header_digest() == v1::ISCSI_DIGEST_CRC32C;
  if (from.data_digest() == v1::ISCSI_DIGEST_CRC32C) return NoDataDigest();
  out.iser = from.transport() == v1::ISCSI_TRANSPORT_ISER;
  if (out.iser && out.header_digest) {
    return NotOverIser("iscsi.header_digest", "RDMA has checksums of its own, the login must ask for no digest");
  }
  if (out.iser && !out.sources.empty()) {
    return NotOverIser("iscsi.source", "libiscsi 1.19 takes the RDMA device and address of the route to the portal");
  }
  if (!from.driver().empty() && from.driver() != "user") {
    return Syntax("iscsi.driver", fmt::format("{} is no driver of this release", QuoteText(from.driver())),
                  "Write driver: user. A LUN that the kernel has logged in to is a block target.");
  }
  if (from.has_overwrite()) out.overwrite = Overwrite{.id = from.overwrite().id(), .size = from.overwrite().size()};
  if (target.has_chap()) {
    out.user = target.chap().user();
    out.secret = DecodeSecret(target.chap().secret());
    out.mutual_user = target.chap().mutual_user();
    out.mutual_secret = DecodeSecret(target.chap().mutual_secret());
  }
  return out;
}

void EncodeIscsi(const IscsiTarget& from, v1::Target& out) {
  v1::IscsiTarget& to = *out.mutable_iscsi();
  for (const std::string& portal : from.portals) to.add_portal(portal);
  to.set_iqn(from.iqn);
  for (const uint32_t lun : from.luns) to.add_lun(std::to_string(lun));
  to.set_initiator(from.initiator);
  for (const std::string& source : from.sources) to.add_source(source);
  to.set_connections(from.connections == kPerStream ? "per_stream" : std::to_string(from.connections));
  to.set_header_digest(from.header_digest ? v1::ISCSI_DIGEST_CRC32C : v1::ISCSI_DIGEST_NONE);
  to.set_data_digest(v1::ISCSI_DIGEST_NONE);
  to.set_transport(from.iser ? v1::ISCSI_TRANSPORT_ISER : v1::ISCSI_TRANSPORT_TCP);
  to.set_driver("user");
  if (from.overwrite) {
    to.mutable_overwrite()->set_id(from.overwrite->id);
    to.mutable_overwrite()->set_size(from.overwrite->size);
  }
  if (from.user.empty()) return;
  out.mutable_chap()->set_user(from.user);
  EncodeSecret(from.secret, *out.mutable_chap()->mutable_secret());
  out.mutable_chap()->set_mutual_user(from.mutual_user);
  if (!from.mutual_secret.reference.empty()) {
    EncodeSecret(from.mutual_secret, *out.mutable_chap()->mutable_mutual_secret());
  }
}

}  // namespace muster
