#pragma once
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "common/tls/credentials.h"
#include "tests/support/loop_fs.h"

namespace muster::test {

inline std::string ReadAll(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

inline void Sh(const std::string& command) {
  INFO(command);
  REQUIRE(std::system(("(" + command + ") >/dev/null 2>&1").c_str()) == 0);
}

// One authority: agents a1, a2 and "old" (expired), users alice (operator) and bob (viewer), a controller.
struct Certs {
  TempDir dir{"muster-tls"};
  Certs() {
    Sh(std::string(MUSTER_MAKE_CERTS) + " " + dir.path() +
       " --agent a1 --agent a2 --agent old --user alice --user bob:viewer");
    const std::string d = dir.path() + "/";
    Sh("printf 'extendedKeyUsage=clientAuth\\nsubjectAltName=URI:muster://agent/old\\n' >" + d +
       "ext && openssl req -new -key " + d + "agent-old.key -subj /CN=old -out " + d + "csr && openssl x509 -req -in " +
       d + "csr -CA " + d + "ca.crt -CAkey " + d + "ca.key -set_serial 77 -days -1 -extfile " + d + "ext -out " + d +
       "agent-old.crt");
  }
  TlsFiles Of(const std::string& name) const {
    return {.ca = dir.path() + "/ca.crt",
            .cert = dir.path() + "/" + name + ".crt",
            .key = dir.path() + "/" + name + ".key"};
  }
};

}  // namespace muster::test
