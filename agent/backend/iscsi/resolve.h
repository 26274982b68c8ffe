#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "agent/backend/iscsi/connection_spec.h"

namespace muster {

// A lookup under way or done. getaddrinfo can be neither told when to end nor ended: whoever waited long enough drops
// the object and thereby abandons the lookup, whose thread ends when the system's resolver lets it.
class IscsiLookup {
 public:
  IscsiLookup();
  ~IscsiLookup();
  IscsiLookup(const IscsiLookup&) = delete;
  IscsiLookup& operator=(const IscsiLookup&) = delete;

  int fd() const { return event_fd_; }  // readable from the end of the lookup on; never read from
  bool done() const { return done_.load(std::memory_order_acquire); }
  // Once done: a numeric address, or nothing and why.
  const std::string& address() const { return address_; }
  const std::string& why() const { return why_; }

  // Whoever looked up, once.
  void End(std::string address, std::string why);

 private:
  const int event_fd_;
  std::atomic<bool> done_{false};
  std::string address_, why_;
};

// Names into numeric addresses, on threads of its own, so that a name server that does not answer costs a deadline and
// not a thread of the caller's. Thread-safe.
//
// At most kThreads lookups run at once, abandoned ones included, and kWaiting wait for one of these threads. Whoever
// asks for what is being looked up joins that lookup. A thread without work ends. What the destructor leaves running
// ends by itself; `look_up` must live until then.
class IscsiResolver {
 public:
  static constexpr size_t kThreads = 8;
  static constexpr size_t kWaiting = 256;

  // A blocking lookup of `host` in an address family (AF_UNSPEC: any): the first address, or nothing and why.
  using LookUp = std::function<std::string(const std::string& host, int family, std::string& why)>;

  static IscsiResolver& System();  // getaddrinfo; never destroyed
  explicit IscsiResolver(LookUp look_up);

  // Never blocks. An address is done at once and never handed to `look_up`.
  std::shared_ptr<const IscsiLookup> Begin(const std::string& host, int family);

 private:
  struct Shared;
  static void Work(const std::shared_ptr<Shared>& shared);
  const std::shared_ptr<Shared> shared_;
};

// The family that spec.source_address asks for.
int FamilyOf(const IscsiConnectionSpec& spec);
// "10.0.0.5:3260", "[::1]:3260".
std::string PortalText(const std::string& address, int port);

// Begins to look up `host` by spec.resolver.
std::shared_ptr<const IscsiLookup> BeginLookup(const IscsiConnectionSpec& spec, const std::string& host);
// The numeric portal of the spec. Blocks until `deadline` (absolute) at most. ISCSI_RESOLVE.
absl::StatusOr<std::string> ResolvePortal(const IscsiConnectionSpec& spec, Nanos deadline);

}  // namespace muster
