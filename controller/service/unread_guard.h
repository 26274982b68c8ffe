#pragma once
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "common/base/clock.h"

namespace muster {

// How much has come over each connection since its last whole message. Pure; not thread-safe.
class UnreadBook {
 public:
  explicit UnreadBook(uint64_t most) : most_(most) {}
  struct Connection {
    uint16_t port = 0;      // of the other side
    uint64_t received = 0;  // bytes, since it was made
    uint32_t whole = 0;     // count of whole messages (ReceiptsOf)
  };
  // Bytes since the last whole message if they are too many, else 0. Beside `most` 1 KiB a second is allowed: what a
  // connection that is only listened to brings (window updates, pings) is no message.
  uint64_t TooMuch(const Connection& connection, Nanos now);
  // Forgets all but those ports.
  void Keep(const std::set<uint16_t>& ports);

 private:
  struct Seen {
    uint64_t received = 0;  // at the last whole message
    uint32_t whole = 0;
    Nanos since = 0;
  };
  const uint64_t most_;
  std::map<uint16_t, Seen> seen_;
};

// Ends connections of TCP ports over which more than `most` bytes came without a whole message, and logs it: gRPC 1.51
// looks at a message's size when all of it is there, and its memory quota ends the calls of others first. Looks 20
// times a second at the kernel's counters (TCP_INFO), so a peer as fast as memory gets ahead by a twentieth of a
// second.
class UnreadGuard {
 public:
  UnreadGuard(std::vector<uint16_t> ports, uint64_t most);
  ~UnreadGuard();

 private:
  void Look();

  const std::set<uint16_t> ports_;
  UnreadBook book_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace muster
