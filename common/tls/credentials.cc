#include "common/tls/credentials.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <memory>
#include <vector>

#include "common/base/status.h"

namespace muster {
namespace {

constexpr size_t kLargest = 1 << 20;

struct Free {
  void operator()(BIO* p) const { BIO_free(p); }
  void operator()(X509* p) const { X509_free(p); }
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
  void operator()(X509_STORE* p) const { X509_STORE_free(p); }
  void operator()(X509_STORE_CTX* p) const { X509_STORE_CTX_free(p); }
  void operator()(GENERAL_NAMES* p) const { GENERAL_NAMES_free(p); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

absl::Status Bad(std::string code, const std::string& path, std::string message, std::string next) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.code = std::move(code), .place = path, .message = std::move(message), .next = std::move(next)});
}

absl::StatusOr<std::string> ReadPem(const std::string& path, bool secret) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return ErrnoError(errno, "open", path, "Name a PEM file that this user may read.");
  struct stat st {};
  absl::Status status;
  std::string text;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    status = Bad("TLS_FILE_INVALID", path, "it is no regular file", "Name a PEM file.");
  } else if (static_cast<size_t>(st.st_size) > kLargest) {
    status = Bad("TLS_FILE_INVALID", path, "it is larger than 1 MiB", "Name a PEM file.");
  } else if (secret && (st.st_mode & 07) != 0) {
    status = Bad("TLS_KEY_EXPOSED", path,
                 fmt::format("every user of this host may reach the key (mode {:04o})", st.st_mode & 07777),
                 "chmod 600 it, and make a new key if it was exposed.");
  } else {
    text.resize(static_cast<size_t>(st.st_size));
    size_t have = 0;
    for (ssize_t n = 1; have < text.size() && n > 0; have += static_cast<size_t>(n)) {
      n = read(fd, text.data() + have, text.size() - have);
      if (n < 0) {
        status = ErrnoError(errno, "read", path);
        n = 0;
      }
    }
    text.resize(have);
  }
  close(fd);
  if (!status.ok()) return status;
  return text;
}

std::vector<Owned<X509>> Certificates(const std::string& pem) {
  std::vector<Owned<X509>> out;
  Owned<BIO> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (X509* one = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) out.emplace_back(one);
  ERR_clear_error();
  return out;
}

int64_t Seconds(const ASN1_TIME* time) {
  std::tm tm{};
  return ASN1_TIME_to_tm(time, &tm) == 1 ? static_cast<int64_t>(timegm(&tm)) : 0;
}

std::string Date(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm tm{};
  gmtime_r(&time, &tm);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
                     tm.tm_hour, tm.tm_min, tm.tm_sec);
}

std::string SubjectOf(X509* cert) {
  char text[256] = "";
  X509_NAME_oneline(X509_get_subject_name(cert), text, sizeof(text));
  return text;
}

// SANs of one type, as text.
std::vector<std::string> Names(X509* cert, int type) {
  std::vector<std::string> out;
  Owned<GENERAL_NAMES> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(cert, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != type) continue;
    const ASN1_IA5STRING* text = type == GEN_DNS ? name->d.dNSName : name->d.uniformResourceIdentifier;
    out.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                     static_cast<size_t>(ASN1_STRING_length(text)));
  }
  return out;
}

absl::Status CheckChain(const TlsFiles& files, const std::vector<Owned<X509>>& chain,
                        const std::vector<Owned<X509>>& authorities, TlsUse use, int64_t now) {
  Owned<X509_STORE> store(X509_STORE_new());
  for (const auto& one : authorities) X509_STORE_add_cert(store.get(), one.get());
  STACK_OF(X509)* between = sk_X509_new_null();
  for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(between, chain[i].get());
  Owned<X509_STORE_CTX> context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), chain[0].get(), between);
  X509_STORE_CTX_set_time(context.get(), 0, now);
  X509_STORE_CTX_set_purpose(context.get(),
                             use == TlsUse::kController ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT);
  const bool good = X509_verify_cert(context.get()) == 1;
  const int error = X509_STORE_CTX_get_error(context.get());
  sk_X509_free(between);
  ERR_clear_error();
  if (good) return absl::OkStatus();
  if (error == X509_V_ERR_INVALID_PURPOSE) {
    return Bad("TLS_CERT_PURPOSE", files.cert,
               fmt::format("it is not made for {}",
                           use == TlsUse::kController ? "a server (EKU serverAuth)" : "a client (EKU clientAuth)"),
               "deploy/make-certs.sh makes one for each use.");
  }
  return Bad("TLS_CERT_UNTRUSTED", files.cert,
             fmt::format("{} does not vouch for it: {}", files.ca, X509_verify_cert_error_string(error)),
             "Use the certificate that this authority signed, or its authority.");
}

std::string_view UseName(TlsUse use) {
  return use == TlsUse::kController ? "a controller" : use == TlsUse::kAgent ? "an agent" : "a user";
}

absl::Status CheckName(const TlsFiles& files, X509* cert, TlsUse use, TlsCredentials& out) {
  if (use == TlsUse::kController) {
    for (const std::string& name : Names(cert, GEN_DNS)) {
      if (name == kControllerName) return absl::OkStatus();
    }
  } else {
    for (const std::string& uri : Names(cert, GEN_URI)) {
      const auto peer = ParsePeerUri(uri);
      if (!peer || (peer->role == Role::kAgent) != (use == TlsUse::kAgent)) continue;
      out.identity = peer;
      return absl::OkStatus();
    }
  }
  const std::string_view wanted = use == TlsUse::kController ? "the DNS name controller.muster"
                                  : use == TlsUse::kAgent    ? "a URI muster://agent/ID"
                                                             : "a URI muster://user/NAME?role=viewer|operator";
  return Bad("TLS_CERT_NAME", files.cert,
             fmt::format("it is no certificate of {}: it does not carry {}", UseName(use), wanted),
             "deploy/make-certs.sh makes one for each use.");
}

}  // namespace

absl::StatusOr<TlsCredentials> LoadTls(const TlsFiles& files, TlsUse use, int64_t now) {
  if (files.ca.empty() || files.cert.empty() || files.key.empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.code = "TLS_FILES_INCOMPLETE",
                      .place = files.ca.empty()     ? "--ca"
                               : files.cert.empty() ? "--cert"
                                                    : "--key",
                      .message = "TCP needs the certificate of the authority, an own certificate and its key",
                      .next = "Give --ca, --cert and --key; deploy/make-certs.sh DIR makes them."});
  }
  TlsCredentials out;
  MUSTER_ASSIGN_OR_RETURN(out.ca_pem, ReadPem(files.ca, /*secret=*/false));
  MUSTER_ASSIGN_OR_RETURN(out.cert_pem, ReadPem(files.cert, /*secret=*/false));
  MUSTER_ASSIGN_OR_RETURN(out.key_pem, ReadPem(files.key, /*secret=*/true));
  const auto authorities = Certificates(out.ca_pem), chain = Certificates(out.cert_pem);
  if (authorities.empty() || chain.empty()) {
    return Bad("TLS_FILE_INVALID", authorities.empty() ? files.ca : files.cert, "there is no PEM certificate in it",
               "Name a file that begins with -----BEGIN CERTIFICATE-----.");
  }
  Owned<BIO> bio(BIO_new_mem_buf(out.key_pem.data(), static_cast<int>(out.key_pem.size())));
  // A passphrase would be asked for on the terminal: there is none for us.
  Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(
      bio.get(), nullptr, [](char*, int, int, void*) { return -1; }, nullptr));
  ERR_clear_error();
  if (!key) {
    return Bad("TLS_FILE_INVALID", files.key, "there is no PEM private key without passphrase in it",
               "Name a file that begins with -----BEGIN PRIVATE KEY-----.");
  }
  X509* cert = chain[0].get();
  out.subject = SubjectOf(cert);
  if (X509_check_private_key(cert, key.get()) != 1) {
    ERR_clear_error();
    return Bad("TLS_KEY_MISMATCH", files.key, "it is not the key of " + files.cert, "Name the key that belongs to it.");
  }
  out.not_after = Seconds(X509_get0_notAfter(cert));
  const int64_t not_before = Seconds(X509_get0_notBefore(cert));
  if (now > out.not_after) {
    return Bad("TLS_CERT_EXPIRED", files.cert, "it has expired on " + Date(out.not_after),
               "Make a new one: deploy/make-certs.sh keeps the authority it finds.");
  }
  if (now < not_before) {
    return Bad("TLS_CERT_NOT_YET_VALID", files.cert, "it is valid from " + Date(not_before) + " on",
               "Look at this host's clock.");
  }
  MUSTER_RETURN_IF_ERROR(CheckChain(files, chain, authorities, use, now));
  MUSTER_RETURN_IF_ERROR(CheckName(files, cert, use, out));
  return out;
}

}  // namespace muster
