#include <sys/stat.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/base/status.h"
#include "common/tls/credentials.h"
#include "common/tls/endpoint.h"
#include "tests/support/certs.h"

namespace muster::test {
namespace {

std::string Code(const TlsFiles& files, TlsUse use, int64_t now = std::time(nullptr)) {
  const auto loaded = LoadTls(files, use, now);
  return loaded.ok() ? "" : GetErrorInfo(loaded.status()).code;
}

}  // namespace

TEST_CASE("endpoints are read, written and dialled as they are") {
  struct Case {
    const char* text;
    const char* back;
    const char* dial;
  };
  const Case good[] = {
      {"unix:/run/m.sock", "unix:/run/m.sock", "unix:/run/m.sock"},
      {"ctl.lab", "ctl.lab:7676", "dns:///ctl.lab:7676"},
      {"ctl.lab:80", "ctl.lab:80", "dns:///ctl.lab:80"},
      {"192.0.2.1:65535", "192.0.2.1:65535", "ipv4:192.0.2.1:65535"},
      {"[2001:db8::1]:9", "[2001:db8::1]:9", "ipv6:[2001:db8::1]:9"},
      {"2001:db8::1", "[2001:db8::1]:7676", "ipv6:[2001:db8::1]:7676"},
      {"[::]", "[::]:7676", "ipv6:[::]:7676"},
      {"127.0.0.1:0", "127.0.0.1:0", "ipv4:127.0.0.1:0"},
  };
  for (const Case& one : good) {
    INFO(one.text);
    const auto endpoint = ParseEndpoint(one.text);
    REQUIRE(endpoint.ok());
    CHECK(endpoint->Text() == one.back);
    CHECK(endpoint->DialTarget() == one.dial);
    CHECK(ParseEndpoint(endpoint->Text())->Text() == one.back);
  }
  for (const char* bad : {"", "unix:", "unix:rel/path", "host:", "host:65536", "host:-1", "host:1x", "[::1", "[::1]x",
                          "[::1]:", "[name]:5", "a:b:c", "http://x", "ho st", ":80", "unix"}) {
    INFO(bad);
    const auto endpoint = ParseEndpoint(bad);
    if (std::string(bad) == "unix") {
      CHECK(endpoint.ok());  // a host of that name
      continue;
    }
    REQUIRE(!endpoint.ok());
    CHECK(GetErrorInfo(endpoint.status()).code == "ENDPOINT_INVALID");
  }
}

TEST_CASE("the URI of a certificate says who its holder is") {
  const auto agent = ParsePeerUri("muster://agent/nas-1.lab");
  REQUIRE(agent);
  CHECK(agent->role == Role::kAgent);
  CHECK(agent->name == "nas-1.lab");
  CHECK(ParsePeerUri("muster://user/alice?role=operator")->role == Role::kOperator);
  CHECK(ParsePeerUri("muster://user/bob?role=viewer")->role == Role::kViewer);
  for (const char* bad : {"", "muster://agent/", "muster://agent/a/b", "muster://agent/a?role=operator",
                          "muster://user/alice", "muster://user/alice?role=agent", "muster://user/?role=viewer",
                          "muster://user/a?role=viewer&x", "https://agent/a", "muster://agent/a\n"}) {
    INFO(bad);
    CHECK(!ParsePeerUri(bad));
  }
  CHECK(!ParsePeerUri("muster://agent/" + std::string(65, 'a')));
}

TEST_CASE("what the script makes works for its use, and for no other") {
  const Certs certs;
  CHECK(Code(certs.Of("controller"), TlsUse::kController).empty());
  const auto agent = LoadTls(certs.Of("agent-a1"), TlsUse::kAgent, std::time(nullptr));
  REQUIRE(agent.ok());
  CHECK(agent->identity->name == "a1");
  const auto user = LoadTls(certs.Of("user-bob"), TlsUse::kUser, std::time(nullptr));
  REQUIRE(user.ok());
  CHECK(user->identity->role == Role::kViewer);
  CHECK(user->not_after > std::time(nullptr) + 800 * 86'400);
  CHECK(Code(certs.Of("agent-a1"), TlsUse::kController) == "TLS_CERT_PURPOSE");
  CHECK(Code(certs.Of("controller"), TlsUse::kAgent) == "TLS_CERT_PURPOSE");
  CHECK(Code(certs.Of("agent-a1"), TlsUse::kUser) == "TLS_CERT_NAME");
  CHECK(Code(certs.Of("user-alice"), TlsUse::kAgent) == "TLS_CERT_NAME");
}

TEST_CASE("certificates that cannot work are refused with the file's name") {
  const Certs certs, others;
  const int64_t now = std::time(nullptr);
  TlsFiles files = certs.Of("agent-a1");
  CHECK(Code(files, TlsUse::kAgent, now + int64_t{826} * 86'400) == "TLS_CERT_EXPIRED");
  CHECK(Code(files, TlsUse::kAgent, now - 86'400) == "TLS_CERT_NOT_YET_VALID");

  files.ca = others.Of("").ca;
  CHECK(Code(files, TlsUse::kAgent) == "TLS_CERT_UNTRUSTED");
  files = certs.Of("agent-a1");
  files.key = certs.Of("user-alice").key;
  CHECK(Code(files, TlsUse::kAgent) == "TLS_KEY_MISMATCH");

  files = certs.Of("agent-a1");
  files.key = certs.dir.path() + "/not-there.key";
  const auto missing = LoadTls(files, TlsUse::kAgent, now);
  CHECK(GetErrorInfo(missing.status()).code == "SYS_ENOENT");
  CHECK_THAT(FormatError(missing.status()), Catch::Contains("not-there.key"));
  files.key = "";
  const auto incomplete = LoadTls(files, TlsUse::kAgent, now);
  CHECK(GetErrorInfo(incomplete.status()).code == "TLS_FILES_INCOMPLETE");
  CHECK_THAT(FormatError(incomplete.status()), Catch::Contains("--key"));

  files = certs.Of("agent-a1");
  REQUIRE(chmod(files.key.c_str(), 0644) == 0);
  CHECK(Code(files, TlsUse::kAgent) == "TLS_KEY_EXPOSED");
  REQUIRE(chmod(files.key.c_str(), 0600) == 0);
  files.ca = files.key;
  CHECK(Code(files, TlsUse::kAgent) == "TLS_FILE_INVALID");
  files.ca = certs.dir.path();
  CHECK(Code(files, TlsUse::kAgent) == "TLS_FILE_INVALID");
  files = certs.Of("agent-a1");
  std::swap(files.cert, files.key);
  CHECK(Code(files, TlsUse::kAgent) != "");

  // Cut anywhere: an error, never a crash.
  const std::string pem = ReadAll(certs.Of("agent-a1").cert);
  files = certs.Of("agent-a1");
  files.cert = certs.dir.path() + "/cut.crt";
  for (size_t size = 0; size + 2 < pem.size(); size += 7) {
    std::ofstream(files.cert) << pem.substr(0, size);
    CHECK(Code(files, TlsUse::kAgent) == "TLS_FILE_INVALID");
  }
}

TEST_CASE("a key with a passphrase is refused, nobody is asked for it") {
  const Certs certs;
  TlsFiles files = certs.Of("agent-a1");
  const std::string locked = certs.dir.path() + "/locked.key";
  Sh("openssl pkcs8 -topk8 -in " + files.key + " -out " + locked + " -passout pass:secret && chmod 600 " + locked);
  files.key = locked;
  CHECK(Code(files, TlsUse::kAgent) == "TLS_FILE_INVALID");
}

TEST_CASE("the script keeps what it has made and names what it cannot take") {
  const Certs certs;
  const std::string before = ReadAll(certs.Of("agent-a1").cert);
  Sh(std::string(MUSTER_MAKE_CERTS) + " " + certs.dir.path() + " --agent a1 --agent a7");
  CHECK(ReadAll(certs.Of("agent-a1").cert) == before);
  CHECK(Code(certs.Of("agent-a7"), TlsUse::kAgent).empty());
  const auto status = [&](const std::string& arguments) {
    const std::string command = std::string(MUSTER_MAKE_CERTS) + " " + arguments + " >/dev/null 2>&1";
    return WEXITSTATUS(std::system(command.c_str()));
  };
  CHECK(status(certs.dir.path() + " --agent 'a b'") == 2);
  CHECK(status(certs.dir.path() + " --user x:admin") == 2);
  CHECK(status("--days 5") == 2);
  // Half an authority signs nothing.
  std::filesystem::remove(certs.dir.path() + "/ca.key");
  CHECK(status(certs.dir.path() + " --agent a3") == 2);
  CHECK(!std::filesystem::exists(certs.dir.path() + "/agent-a3.crt"));
}

}  // namespace muster::test
