// Which typed error a refused login becomes, and that no text carries a secret.
#include "agent/backend/iscsi/errors.h"

#include <catch2/catch.hpp>
#include <cerrno>

#include "common/base/status.h"

namespace muster {
namespace {

IscsiConnectionSpec Spec() {
  IscsiConnectionSpec spec;
  spec.host = "2001:db8::5";
  spec.target = "iqn.2026-01.io.example:t";
  spec.initiator = "iqn.2026-01.io.example:i";
  spec.user = "alice";
  spec.secret = "secretsecret12";
  spec.mutual_secret = "mutualmutual34";
  return spec;
}

TEST_CASE("statuses of a login become typed errors") {
  const auto code = [](uint16_t status) { return GetErrorInfo(LoginStatusError(Spec(), status)).code; };
  CHECK(code(0x0201) == "ISCSI_LOGIN_AUTH");
  CHECK(code(0x0202) == "ISCSI_LOGIN_ACL");
  CHECK(code(0x0203) == "ISCSI_NO_TARGET");
  CHECK(code(0x0204) == "ISCSI_NO_TARGET");
  CHECK(code(0x0301) == "ISCSI_NO_TARGET");
  CHECK(code(0x0200) == "ISCSI_NEGOTIATION");
  IscsiConnectionSpec digest = Spec();
  digest.header_digest = IscsiHeaderDigest::kCrc32c;
  CHECK(GetErrorInfo(LoginStatusError(digest, 0x0200)).code == "ISCSI_DIGEST");
  for (const uint16_t status : {0x0205, 0x0206, 0x020b, 0x0300, 0x0302}) {
    CHECK(code(status) == "ISCSI_PROTOCOL");
  }
}

TEST_CASE("every error names the place, the next step, and no secret") {
  const IscsiConnectionSpec spec = Spec();
  for (const absl::Status& status :
       {ConnectError(spec, "refused"), BindError(spec, EADDRNOTAVAIL), NoRdmaError(spec, "none"), MutualChapError(spec),
        LoginStatusError(spec, 0x0201), DigestError(spec, "why"), NoLunError(spec, 3, "why"), ReadOnlyError(spec, 3),
        BlockSizeError(spec, 3, 4096, 512), LunSizeError(spec, 3, 1, 2), ProtocolError(spec, "why")}) {
    const ErrorInfo info = GetErrorInfo(status);
    const std::string text = FormatError(status);
    INFO(text);
    CHECK(info.code.rfind("ISCSI_", 0) == 0);
    CHECK(info.place.find("[2001:db8::5]:3260") != std::string::npos);
    CHECK(info.place.find(spec.target) != std::string::npos);
    CHECK_FALSE(info.next.empty());
    CHECK(text.find(spec.secret) == std::string::npos);
    CHECK(text.find(spec.mutual_secret) == std::string::npos);
  }
  CHECK(WithoutSecrets(spec, "a text with secretsecret12 in it").empty());
  CHECK(WithoutSecrets(spec, "a text with mutualmutual34 in it").empty());
  CHECK(WithoutSecrets(spec, "a text") == "a text");
}

}  // namespace
}  // namespace muster
