#include "agent/backend/iscsi/resolve.h"

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "agent/backend/iscsi/errors.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace muster {
namespace {

constexpr Nanos kPollWithoutEvent = 10 * kMillisecond;  // no descriptor was left for the lookup's end

// `flags` as of getaddrinfo.
std::string FirstAddress(const std::string& host, int family, int flags, std::string& why) {
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  int err = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  char text[NI_MAXHOST] = "";
  if (err == 0) {
    err = getnameinfo(list->ai_addr, list->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
    freeaddrinfo(list);
  }
  if (err != 0) why = gai_strerror(err);
  return err == 0 ? text : "";
}

}  // namespace

IscsiLookup::IscsiLookup() : event_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

IscsiLookup::~IscsiLookup() {
  if (event_fd_ >= 0) close(event_fd_);
}

void IscsiLookup::End(std::string address, std::string why) {
  address_ = std::move(address);
  why_ = std::move(why);
  done_.store(true, std::memory_order_release);
  if (event_fd_ >= 0) eventfd_write(event_fd_, 1);
}

struct IscsiResolver::Shared {
  using Key = std::pair<std::string, int>;
  explicit Shared(LookUp f) : look_up(std::move(f)) {}

  const LookUp look_up;
  std::mutex mutex;
  size_t threads = 0;
  std::deque<Key> waiting;                              // not begun; each is in `running` too
  std::map<Key, std::shared_ptr<IscsiLookup>> running;  // until its end
};

IscsiResolver::IscsiResolver(LookUp look_up) : shared_(std::make_shared<Shared>(std::move(look_up))) {}

IscsiResolver& IscsiResolver::System() {
  static auto* const resolver = new IscsiResolver(
      [](const std::string& host, int family, std::string& why) { return FirstAddress(host, family, 0, why); });
  return *resolver;
}

void IscsiResolver::Work(const std::shared_ptr<Shared>& shared) {
  prctl(PR_SET_NAME, "muster-resolve");
  std::unique_lock lock(shared->mutex);
  while (!shared->waiting.empty()) {
    const Shared::Key key = std::move(shared->waiting.front());
    shared->waiting.pop_front();
    lock.unlock();
    std::string why;
    std::string address = shared->look_up(key.first, key.second, why);
    lock.lock();
    const auto found = shared->running.find(key);
    found->second->End(std::move(address), std::move(why));
    shared->running.erase(found);
  }
  --shared->threads;
}

std::shared_ptr<const IscsiLookup> IscsiResolver::Begin(const std::string& host, int family) {
  auto lookup = std::make_shared<IscsiLookup>();
  std::string why;
  if (std::string numeric = FirstAddress(host, family, AI_NUMERICHOST, why); !numeric.empty()) {
    lookup->End(std::move(numeric), {});
    return lookup;
  }
  const std::lock_guard lock(shared_->mutex);
  Shared::Key key(host, family);
  if (const auto found = shared_->running.find(key); found != shared_->running.end()) return found->second;
  if (shared_->waiting.size() >= kWaiting) {
    lookup->End({}, fmt::format("{} lookups hang and {} more wait for them", shared_->threads, kWaiting));
    return lookup;
  }
  shared_->waiting.push_back(key);
  shared_->running.emplace(key, lookup);
  if (shared_->threads == kThreads) return lookup;
  try {
    std::thread([shared = shared_] { Work(shared); }).detach();
    ++shared_->threads;
  } catch (const std::system_error& error) {
    if (shared_->threads > 0) return lookup;  // one of those takes it
    shared_->waiting.pop_back();
    shared_->running.erase(key);
    lookup->End({}, fmt::format("no thread for the lookup: {}", error.code().message()));
  }
  return lookup;
}

int FamilyOf(const IscsiConnectionSpec& spec) {
  if (spec.source_address.empty()) return AF_UNSPEC;
  return spec.source_address.find(':') == std::string::npos ? AF_INET : AF_INET6;
}

std::string PortalText(const std::string& address, int port) {
  return address.find(':') == std::string::npos ? fmt::format("{}:{}", address, port)
                                                : fmt::format("[{}]:{}", address, port);
}

std::shared_ptr<const IscsiLookup> BeginLookup(const IscsiConnectionSpec& spec, const std::string& host) {
  IscsiResolver& resolver = spec.resolver != nullptr ? *spec.resolver : IscsiResolver::System();
  return resolver.Begin(host, FamilyOf(spec));
}

absl::StatusOr<std::string> ResolvePortal(const IscsiConnectionSpec& spec, Nanos deadline) {
  const Clock& clock = SteadyClock::Get();
  const Nanos begin = clock.Now();
  const auto lookup = BeginLookup(spec, spec.host);
  while (!lookup->done()) {
    const Nanos left = deadline - clock.Now();
    if (left <= 0) return ResolveTimeout(spec, spec.host, deadline - begin);
    const Nanos wait = lookup->fd() >= 0 ? left : std::min(left, kPollWithoutEvent);
    pollfd p{.fd = lookup->fd(), .events = POLLIN, .revents = 0};
    const timespec ts{.tv_sec = wait / kSecond, .tv_nsec = wait % kSecond};
    ppoll(&p, 1, &ts, nullptr);
  }
  if (lookup->address().empty()) return ResolveError(spec, spec.host, lookup->why());
  return PortalText(lookup->address(), spec.port);
}

}  // namespace muster
