#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "common/base/clock.h"

namespace muster::test {

// A TCP proxy on a loopback port before an iSCSI target that knows where PDUs begin: it passes them on, later, not yet,
// damaged, or not at all. One thread of its own; every call may come from any thread and takes effect at once.
class IscsiProxy {
 public:
  // `digest`: PDUs after the login carry a header digest.
  explicit IscsiProxy(uint16_t target_port, bool digest = false);  // throws std::runtime_error
  ~IscsiProxy();
  IscsiProxy(const IscsiProxy&) = delete;
  IscsiProxy& operator=(const IscsiProxy&) = delete;

  uint16_t port() const { return port_; }
  // What the target sends is passed on so much later.
  void Delay(Nanos by);
  // Data-In of at least 4,096 bytes, and all after it on its connection, waits until released.
  void HoldReads(bool hold);
  void Release(uint32_t pdus);
  uint32_t held() const { return held_; }  // connections at whose head one waits now
  // One bit of the next header after a login is turned over, on its way to the initiator or to the target.
  void FlipNextAnswer();
  void FlipNextRequest();
  // The status of the next `count` SCSI responses (of commands without read data) is replaced: the command was done.
  void AnswerNext(uint32_t count, uint8_t status);
  // The next login is answered with a redirect (RFC 7143 11.13.5, 13.8) to `address`, a host or host:port.
  void RedirectNext(const std::string& address);
  // Both sides of every connection get a reset.
  void Reset();
  uint32_t accepted() const { return accepted_; }
  // READ and WRITE commands that have come from initiators.
  uint64_t transfers() const { return transfers_; }

 private:
  void Run();
  void Wake();

  const uint16_t target_port_;
  const bool digest_;
  uint16_t port_ = 0;
  int listen_fd_ = -1;
  int wake_fd_ = -1;
  std::atomic<bool> stop_{false}, reset_{false}, hold_{false}, flip_answer_{false}, flip_request_{false};
  std::atomic<Nanos> delay_{0};
  std::atomic<uint64_t> transfers_{0};
  std::atomic<uint8_t> status_{0};
  std::atomic<uint32_t> replace_{0}, credits_{0}, held_{0}, accepted_{0};
  std::mutex mutex_;
  std::string redirect_;  // under mutex_
  std::thread thread_;
};

}  // namespace muster::test
