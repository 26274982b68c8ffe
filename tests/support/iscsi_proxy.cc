#include "tests/support/iscsi_proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace muster::test {
namespace {

constexpr size_t kHeader = 48;
constexpr size_t kHeldBytes = 4096;
constexpr size_t kMostBuffered = 64 << 20;  // of one direction; beyond it the sender has to wait

struct Pdu {
  Nanos due = 0;
  std::string bytes;
};

// One direction of a connection: bytes come in, whole PDUs go out.
struct Direction {
  int from = -1;
  int to = -1;
  std::string partial;
  std::deque<Pdu> queue;
  size_t queued = 0;
  size_t sent = 0;  // of the first in the queue
  bool ended = false;
  bool shut = false;
  bool blocked = false;   // the socket takes no more
  bool admitted = false;  // a held PDU at the head has been released
};
struct Connection {
  Direction up, down;  // to the target, to the initiator
};

uint8_t Opcode(const std::string& pdu) {
  return static_cast<uint8_t>(pdu[0]) & 0x3f;
}
size_t DataBytes(const std::string& pdu) {
  const auto byte = [&](size_t i) { return size_t{static_cast<uint8_t>(pdu[i])}; };
  return byte(5) << 16 | byte(6) << 8 | byte(7);
}

// Size of the PDU at the front, 0 while its header is incomplete. Login PDUs never carry a digest.
size_t PduBytes(const std::string& bytes, bool digest) {
  if (bytes.size() < kHeader) return 0;
  const uint8_t opcode = Opcode(bytes);
  const size_t extra = digest && opcode != 0x03 && opcode != 0x23 ? 4 : 0;
  return kHeader + size_t{static_cast<uint8_t>(bytes[4])} * 4 + extra + (DataBytes(bytes) + 3) / 4 * 4;
}

// Makes a login response one that the target moved temporarily.
void Redirect(const std::string& address, std::string& response) {
  const std::string key = "TargetAddress=" + address + '\0';
  response.resize(kHeader);
  response[4] = response[5] = response[6] = 0;
  response[7] = static_cast<char>(key.size());
  response[36] = response[37] = 1;
  response += key;
  response.resize((response.size() + 3) / 4 * 4, '\0');
}

void SetUp(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

void ResetAndClose(int fd) {
  const linger abort{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
  close(fd);
}

}  // namespace

IscsiProxy::IscsiProxy(uint16_t target_port, bool digest) : target_port_(target_port), digest_(digest) {
  listen_fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  if (listen_fd_ < 0 || wake_fd_ < 0 || bind(listen_fd_, reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
      listen(listen_fd_, 64) != 0 || getsockname(listen_fd_, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    throw std::runtime_error("the proxy cannot listen");
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Run(); });
}

IscsiProxy::~IscsiProxy() {
  stop_ = true;
  Wake();
  thread_.join();
  close(listen_fd_);
  close(wake_fd_);
}

void IscsiProxy::Wake() {
  eventfd_write(wake_fd_, 1);
}
void IscsiProxy::Delay(Nanos by) {
  delay_ = by;
}
void IscsiProxy::HoldReads(bool hold) {
  hold_ = hold;
  Wake();
}
void IscsiProxy::Release(uint32_t pdus) {
  credits_ += pdus;
  Wake();
}
void IscsiProxy::FlipNextAnswer() {
  flip_answer_ = true;
}
void IscsiProxy::FlipNextRequest() {
  flip_request_ = true;
}
void IscsiProxy::AnswerNext(uint32_t count, uint8_t status) {
  status_ = status;
  replace_ = count;
}
void IscsiProxy::RedirectNext(const std::string& address) {
  const std::lock_guard lock(mutex_);
  redirect_ = address;
}
void IscsiProxy::Reset() {
  reset_ = true;
  Wake();
}

void IscsiProxy::Run() {
  std::list<Connection> connections;
  std::vector<char> buffer(1 << 20);
  const SteadyClock clock;
  while (!stop_) {
    std::vector<pollfd> set = {{listen_fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    std::vector<Direction*> of = {nullptr, nullptr};
    Nanos next = clock.Now() + kSecond;
    for (Connection& c : connections) {
      for (Direction* d : {&c.up, &c.down}) {
        if (!d->ended && d->queued < kMostBuffered) {
          set.push_back({d->from, POLLIN, 0});
          of.push_back(d);
        }
        if (d->blocked) {
          set.push_back({d->to, POLLOUT, 0});
          of.push_back(d);
        } else if (!d->queue.empty() && d->queue.front().due > clock.Now()) {
          next = std::min(next, d->queue.front().due);
        }
      }
    }
    const Nanos wait = std::max<Nanos>(next - clock.Now(), 0);
    const timespec ts{.tv_sec = wait / kSecond, .tv_nsec = wait % kSecond};
    ppoll(set.data(), set.size(), &ts, nullptr);
    eventfd_t ignored = 0;
    eventfd_read(wake_fd_, &ignored);
    if (reset_.exchange(false)) {
      for (Connection& c : connections) {
        ResetAndClose(c.up.from);
        ResetAndClose(c.up.to);
      }
      connections.clear();
    } else {
      for (size_t i = 2; i < set.size(); ++i) {
        Direction& d = *of[i];
        if (set[i].revents == 0) continue;
        if (set[i].events == POLLOUT) {
          d.blocked = false;
          continue;
        }
        const ssize_t n = recv(d.from, buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (n > 0) {
          d.partial.append(buffer.data(), static_cast<size_t>(n));
        } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
          d.ended = true;
        }
      }
    }
    uint32_t held = 0;
    for (auto c = connections.begin(); c != connections.end();) {
      for (Direction* d : {&c->up, &c->down}) {
        const bool down = d == &c->down;
        for (size_t size = PduBytes(d->partial, digest_); size != 0 && d->partial.size() >= size;
             size = PduBytes(d->partial, digest_)) {
          Pdu pdu{clock.Now() + (down ? delay_.load() : 0), d->partial.substr(0, size)};
          d->partial.erase(0, size);
          const uint8_t opcode = Opcode(pdu.bytes);
          // Bit 0 of byte 9: in the LUN field, which no length depends on.
          if (opcode != 0x03 && opcode != 0x23 && (down ? flip_answer_ : flip_request_).exchange(false)) {
            pdu.bytes[9] = static_cast<char>(pdu.bytes[9] ^ 1);
          }
          const auto command = static_cast<uint8_t>(pdu.bytes[32]);
          if (!down && opcode == 0x01 && (command == 0x28 || command == 0x2a || command == 0x88 || command == 0x8a)) {
            ++transfers_;
          }
          if (down && opcode == 0x21 && DataBytes(pdu.bytes) == 0 && replace_ > 0) {
            --replace_;
            pdu.bytes[3] = static_cast<char>(status_.load());
          }
          if (down && opcode == 0x23) {
            const std::lock_guard lock(mutex_);
            if (!redirect_.empty()) Redirect(std::exchange(redirect_, {}), pdu.bytes);
          }
          d->queued += pdu.bytes.size();
          d->queue.push_back(std::move(pdu));
        }
        while (!d->queue.empty() && !d->blocked && d->queue.front().due <= clock.Now()) {
          const std::string& bytes = d->queue.front().bytes;
          if (down && hold_ && d->sent == 0 && !d->admitted && Opcode(bytes) == 0x25 &&
              DataBytes(bytes) >= kHeldBytes) {
            uint32_t credits = credits_;
            if (credits == 0) {
              ++held;
              break;
            }
            --credits_;
            d->admitted = true;
          }
          const ssize_t n = send(d->to, bytes.data() + d->sent, bytes.size() - d->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
          if (n < 0) {
            if (errno == EAGAIN) {
              d->blocked = true;
            } else {
              d->ended = true;
              d->queue.clear();
            }
            break;
          }
          d->sent += static_cast<size_t>(n);
          if (d->sent == bytes.size()) {
            d->queued -= bytes.size();
            d->queue.pop_front();
            d->sent = 0;
            d->admitted = false;
          }
        }
        if (d->ended && d->queue.empty() && !d->shut) {
          shutdown(d->to, SHUT_WR);
          d->shut = true;
        }
      }
      // An initiator that has gone takes what is held for it along.
      if ((c->up.shut && c->down.shut) || (c->up.ended && c->up.queue.empty())) {
        close(c->up.from);
        close(c->up.to);
        c = connections.erase(c);
      } else {
        ++c;
      }
    }
    held_ = held;
    if ((set[0].revents & POLLIN) == 0) continue;
    const int initiator = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (initiator < 0) continue;
    const int target = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(target_port_);
    if (connect(target, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      ResetAndClose(initiator);
      close(target);
      continue;
    }
    SetUp(initiator);
    SetUp(target);
    ++accepted_;
    Connection& c = connections.emplace_back();
    c.up.from = c.down.to = initiator;
    c.up.to = c.down.from = target;
  }
  for (Connection& c : connections) {
    close(c.up.from);
    close(c.up.to);
  }
}

}  // namespace muster::test
