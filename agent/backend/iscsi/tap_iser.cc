#include "agent/backend/iscsi/tap_iser.h"

#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "agent/backend/iscsi/tap.h"

struct iscsi_context;

namespace muster {
namespace {

struct Watched {
  std::mutex mutex;
  std::map<const void*, bool> gone;                   // by iscsi_context; one entry a connection
  std::map<const rdma_event_channel*, int> stop_fds;  // one a connection
};

Watched& Contexts() {
  static auto* const contexts = new Watched;  // never destroyed: a thread of the library may outlive main
  return *contexts;
}

IserTap* CurrentIser() {
  LibiscsiTap* const tap = CurrentTap();
  return tap != nullptr && tap->iser.used ? &tap->iser : nullptr;
}

}  // namespace

void WatchIser(const void* context) {
  const std::lock_guard lock(Contexts().mutex);
  Contexts().gone[context] = false;
}

void ForgetIser(const void* context) {
  const std::lock_guard lock(Contexts().mutex);
  Contexts().gone.erase(context);
}

bool IserGone(const void* context) {
  const std::lock_guard lock(Contexts().mutex);
  const auto found = Contexts().gone.find(context);
  return found != Contexts().gone.end() && found->second;
}

}  // namespace muster

// The names are the linker's (--wrap), whatever else is reserved.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {

void* __real_iscsi_malloc(iscsi_context* context, size_t bytes);
int __real_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*routine)(void*), void* argument);
int __real_pthread_cancel(pthread_t thread);
rdma_event_channel* __real_rdma_create_event_channel();
int __real_rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event);

void* __wrap_iscsi_malloc(iscsi_context* context, size_t bytes) {
  void* const memory = __real_iscsi_malloc(context, bytes);
  if (muster::CurrentIser() != nullptr && memory != nullptr) std::memset(memory, 0, bytes);
  return memory;
}

int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*routine)(void*),
                          void* argument) {
  const int result = __real_pthread_create(thread, attributes, routine, argument);
  if (muster::IserTap* const tap = muster::CurrentIser(); tap != nullptr && result == 0) {
    tap->thread = *thread;
    tap->helper = muster::IserTap::Helper::kRunning;
  }
  return result;
}

int __wrap_pthread_cancel(pthread_t thread) {
  muster::IserTap* const tap = muster::CurrentIser();
  if (tap == nullptr) return __real_pthread_cancel(thread);
  muster::EndIserHelper(*tap);
  return 0;
}

rdma_event_channel* __wrap_rdma_create_event_channel() {
  rdma_event_channel* const channel = __real_rdma_create_event_channel();
  if (muster::IserTap* const tap = muster::CurrentIser(); tap != nullptr && channel != nullptr) {
    tap->channel = channel;
    tap->stop_fd = eventfd(0, EFD_CLOEXEC);
    const std::lock_guard lock(muster::Contexts().mutex);
    muster::Contexts().stop_fds[channel] = tap->stop_fd;
  }
  return channel;
}

// On the library's thread. It made the identifier with its context as the user's pointer.
int __wrap_rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  pollfd waits[2] = {{.fd = channel->fd, .events = POLLIN, .revents = 0}, {.fd = -1, .events = POLLIN, .revents = 0}};
  {
    const std::lock_guard lock(muster::Contexts().mutex);
    const auto found = muster::Contexts().stop_fds.find(channel);
    if (found != muster::Contexts().stop_fds.end()) waits[1].fd = found->second;
  }
  while (poll(waits, 2, -1) < 0 && errno == EINTR) {
  }
  if (waits[1].revents != 0 && waits[0].revents == 0) {
    errno = ECANCELED;
    return -1;
  }
  const int result = __real_rdma_get_cm_event(channel, event);
  if (result != 0 || (*event)->id == nullptr) return result;
  if ((*event)->event == RDMA_CM_EVENT_DISCONNECTED || (*event)->event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
    const std::lock_guard lock(muster::Contexts().mutex);
    const auto found = muster::Contexts().gone.find((*event)->id->context);
    if (found != muster::Contexts().gone.end()) found->second = true;
  }
  return result;
}

}  // extern "C"

namespace muster {

void EndIserHelper(IserTap& tap) {
  if (tap.helper != IserTap::Helper::kRunning) return;
  tap.helper = IserTap::Helper::kEnded;
  if (eventfd_write(tap.stop_fd, 1) != 0) __real_pthread_cancel(tap.thread);  // there was no descriptor for the event
  pthread_join(tap.thread, nullptr);
}

void DestroyIserChannel(IserTap& tap) {
  if (tap.channel == nullptr) return;
  {
    const std::lock_guard lock(Contexts().mutex);
    Contexts().stop_fds.erase(tap.channel);
  }
  if (tap.stop_fd >= 0) close(tap.stop_fd);
  rdma_destroy_event_channel(tap.channel);
  tap.channel = nullptr;
  tap.stop_fd = -1;
}

}  // namespace muster
// NOLINTEND(bugprone-reserved-identifier)
