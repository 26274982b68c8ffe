#include "agent/backend/iscsi/tap.h"

#include <netinet/in.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

// Of libiscsi 1.19, private to it. Only hdr, data_pos and data are read.
struct iscsi_context;
struct iscsi_in_pdu {
  iscsi_in_pdu* next;
  long long hdr_pos;
  unsigned char* hdr;
  long long data_pos;
  unsigned char* data;
};

namespace muster {
namespace {

constexpr size_t kMaxLoginKeys = 8192;
constexpr uint8_t kLoginResponse = 0x23;

thread_local LibiscsiTap* current_tap = nullptr;

uint32_t Big32(const unsigned char* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | p[3];
}

// Keys of CHAP are proofs of a secret: they are not kept.
void KeepLoginKeys(LibiscsiTap& tap, const iscsi_in_pdu& in) {
  if (in.data == nullptr || in.data_pos <= 0) return;
  std::string_view text(reinterpret_cast<const char*>(in.data), static_cast<size_t>(in.data_pos));
  while (!text.empty()) {
    const std::string_view key = text.substr(0, text.find('\0'));
    text.remove_prefix(std::min(text.size(), key.size() + 1));
    if (key.empty() || key.substr(0, 5) == "CHAP_") continue;
    if (tap.login_keys.size() + key.size() + 1 > kMaxLoginKeys) return;
    tap.login_keys.append(key).push_back('\0');
  }
}

void NoteWindow(LibiscsiTap& tap, const unsigned char* header) {
  const uint32_t exp = Big32(header + 28);
  const uint32_t max = Big32(header + 32);
  // Answers may be overtaken, so only a later number counts (RFC 7143 3.2.2.1: serial arithmetic).
  if (!tap.answered || static_cast<int32_t>(max - tap.max_cmd_sn) > 0) tap.max_cmd_sn = max;
  if (!tap.answered || static_cast<int32_t>(exp - tap.exp_cmd_sn) > 0) tap.exp_cmd_sn = exp;
  tap.answered = true;
  if (!tap.measure_window) return;
  const auto width = static_cast<int32_t>(max - exp + 1);
  const uint32_t window = width > 0 ? static_cast<uint32_t>(width) : 0;
  if (window < tap.smallest_window) tap.smallest_window = window;
  if (window > tap.largest_window) tap.largest_window = window;
}

}  // namespace

TapScope::TapScope(LibiscsiTap* tap) : previous_(current_tap) {
  current_tap = tap;
}
TapScope::~TapScope() {
  current_tap = previous_;
}

LibiscsiTap* CurrentTap() {
  return current_tap;
}

}  // namespace muster

// The names are the linker's (--wrap), whatever else is reserved.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {

int __real_connect(int fd, const sockaddr* address, socklen_t bytes);
ssize_t __real_send(int fd, const void* data, size_t bytes, int flags);
ssize_t __real_writev(int fd, const iovec* vectors, int count);
int __real_iscsi_process_pdu(iscsi_context* context, iscsi_in_pdu* in);
int __real_iscsi_reconnect(iscsi_context* context);

int __wrap_connect(int fd, const sockaddr* address, socklen_t bytes) {
  muster::LibiscsiTap* const tap = muster::current_tap;
  if (tap == nullptr || tap->source.ss_family == AF_UNSPEC) return __real_connect(fd, address, bytes);
  const int on = 1;
  // Without a port the kernel chooses one at connect, unique for the pair of addresses only, so that more than 28,000
  // sessions may share a source address. With one, a connection that has just ended must not keep it busy.
  if (tap->source_port_given) {
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  } else {
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  }
  if (bind(fd, reinterpret_cast<const sockaddr*>(&tap->source), tap->source_bytes) != 0) {
    tap->bind_errno = errno;
    return -1;
  }
  const int result = __real_connect(fd, address, bytes);
  // Bound, yet not to be had for this destination: somebody else's connection has the same four numbers.
  if (result != 0 && (errno == EADDRNOTAVAIL || errno == EADDRINUSE)) tap->bind_errno = errno;
  return result;
}

ssize_t __wrap_send(int fd, const void* data, size_t bytes, int flags) {
  muster::LibiscsiTap* const tap = muster::current_tap;
  if (tap == nullptr) return __real_send(fd, data, bytes, flags);
  // The library sends 48 bytes of header, or 52 with the digest, and data that is not its own after it.
  const auto* const header = static_cast<const unsigned char*>(data);
  const bool data_follows = (bytes == 48 || bytes == 52) &&
                            ((header[0] & 0x3f) == 0x01 || (header[0] & 0x3f) == 0x05) &&
                            (header[5] | header[6] | header[7]) != 0;
  tap->unpushed = tap->more || data_follows;
  return __real_send(fd, data, bytes, flags | (tap->unpushed ? MSG_MORE : 0));
}

ssize_t __wrap_writev(int fd, const iovec* vectors, int count) {
  if (muster::current_tap == nullptr) return __real_writev(fd, vectors, count);
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(vectors);
  message.msg_iovlen = static_cast<size_t>(count);
  muster::current_tap->unpushed = muster::current_tap->more;
  return sendmsg(fd, &message, MSG_NOSIGNAL | (muster::current_tap->more ? MSG_MORE : 0));
}

int __wrap_iscsi_process_pdu(iscsi_context* context, iscsi_in_pdu* in) {
  muster::LibiscsiTap* const tap = muster::current_tap;
  if (tap == nullptr) return __real_iscsi_process_pdu(context, in);
  const uint8_t opcode = in->hdr[0] & 0x3f;
  if (__builtin_expect(opcode == muster::kLoginResponse, 0)) {
    tap->login_status = static_cast<uint16_t>(in->hdr[36] << 8 | in->hdr[37]);
    muster::KeepLoginKeys(*tap, *in);
  }
  const int result = __real_iscsi_process_pdu(context, in);
  // Numbers of a header that did not pass its digest are not believed, nor those of a refused login (11.13.5).
  if (result == 0 && !(opcode == muster::kLoginResponse && (tap->login_status >> 8) != 0)) {
    muster::NoteWindow(*tap, in->hdr);
  }
  return result;
}

int __wrap_iscsi_reconnect(iscsi_context* context) {
  if (muster::current_tap == nullptr) return __real_iscsi_reconnect(context);
  muster::current_tap->lost = true;
  return 0;
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)
