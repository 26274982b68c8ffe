#include "controller/service/unread_guard.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "common/base/thread.h"
#include "common/base/units.h"
#include "controller/fleet/receipts.h"
#include "controller/fleet/refusal_log.h"

namespace muster {
namespace {

constexpr Nanos kEvery = 50 * kMillisecond;
constexpr uint64_t kIdleBytesPerSecond = 1024;

uint16_t PortOf(const sockaddr_storage& address) {
  // At the same place for both families.
  return address.ss_family == AF_INET || address.ss_family == AF_INET6
             ? ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port)
             : 0;
}

// As gRPC names it: an IPv4 address that came in by a socket of both families is one all the same.
std::string TextOf(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET6) {
    const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr;
    if (!IN6_IS_ADDR_V4MAPPED(&six)) {
      inet_ntop(AF_INET6, &six, text, sizeof(text));
      return fmt::format("ipv6:[{}]:{}", text, PortOf(address));
    }
    inet_ntop(AF_INET, six.s6_addr + 12, text, sizeof(text));
  } else {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&address)->sin_addr, text, sizeof(text));
  }
  return fmt::format("ipv4:{}:{}", text, PortOf(address));
}

struct Accepted {
  sockaddr_storage peer{};
  uint64_t received = 0;
};

// Of a connection of one of `ports`; nothing: it is something else, or over.
std::optional<Accepted> Inspect(int fd, const std::set<uint16_t>& ports) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  // Fails for all that is no TCP socket.
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) != 0 || ports.count(PortOf(own)) == 0) {
    return std::nullopt;
  }
  Accepted found{.peer = {}, .received = info.tcpi_bytes_received};
  length = sizeof(found.peer);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&found.peer), &length) != 0) return std::nullopt;
  return found;
}

// gRPC may close `fd` at any time: what is ended is a duplicate, looked at once more.
bool End(int fd, const sockaddr_storage& peer, const std::set<uint16_t>& ports) {
  const int held = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (held < 0) return false;
  const auto again = Inspect(held, ports);
  const bool same = again && std::memcmp(&again->peer, &peer, sizeof(peer)) == 0;
  const bool ended = same && shutdown(held, SHUT_RDWR) == 0;
  close(held);
  return ended;
}

}  // namespace

uint64_t UnreadBook::TooMuch(const Connection& connection, Nanos now) {
  const auto [at, fresh] = seen_.try_emplace(connection.port, Seen{0, connection.whole, now});
  Seen& seen = at->second;
  // Fewer bytes than before: another connection from the same port.
  if (connection.received < seen.received) seen = {0, connection.whole, now};
  if (connection.whole != seen.whole) seen = {connection.received, connection.whole, now};
  const uint64_t unread = connection.received - seen.received;
  const uint64_t idle = static_cast<uint64_t>((now - seen.since) / kSecond) * kIdleBytesPerSecond;
  return unread > most_ + idle ? unread : 0;
}

void UnreadBook::Keep(const std::set<uint16_t>& ports) {
  for (auto at = seen_.begin(); at != seen_.end();) at = ports.count(at->first) > 0 ? std::next(at) : seen_.erase(at);
}

UnreadGuard::UnreadGuard(std::vector<uint16_t> ports, uint64_t most)
    : ports_(ports.begin(), ports.end()), book_(most), thread_([this] {
        SetThreadName("unread");
        std::unique_lock lock(mutex_);
        while (!wake_.wait_for(lock, std::chrono::nanoseconds(kEvery), [this] { return over_; })) Look();
      }) {}

UnreadGuard::~UnreadGuard() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void UnreadGuard::Look() {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir("/proc/self/fd"), &closedir);
  if (dir == nullptr) return;  // out of descriptors, or no /proc
  std::set<uint16_t> there;
  const Nanos now = SteadyClock::Get().Now();
  while (const dirent* entry = readdir(dir.get())) {
    const int fd = std::atoi(entry->d_name);
    const auto found = Inspect(fd, ports_);
    if (!found) continue;
    const uint16_t port = PortOf(found->peer);
    there.insert(port);
    const uint64_t unread = book_.TooMuch({.port = port, .received = found->received, .whole = ReceiptsOf(port)}, now);
    if (unread == 0 || !End(fd, found->peer, ports_)) continue;
    LogRefusal(fmt::format("connection of {} refused: {} came without a whole message among them [MESSAGE_TOO_LARGE]",
                           TextOf(found->peer), FormatBytesHuman(static_cast<double>(unread))));
  }
  book_.Keep(there);
}

}  // namespace muster
