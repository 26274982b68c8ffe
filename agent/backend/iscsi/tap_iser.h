#pragma once
#include <pthread.h>

#include <cstdint>

struct rdma_event_channel;

namespace muster {

// What libiscsi 1.19 gets wrong over iSER, put right at the link like the rest of tap.h (found in the lab, tests/lab):
//
// - iscsi_malloc: the library takes its connection for zeroed and does not zero it, so that its list of free
// descriptors
//   ends anywhere (a crash at the first use). While in use, what it allocates on this thread is zeroed.
// - pthread_create, pthread_cancel: the library follows connection events on a thread of its own, cancels it when the
//   connection ends and frees what that thread may be writing to (an error text, into memory that is the next login's
//   by then). Here it has ended by itself before anything is freed (EndIserHelper); a cancellation could take an event
//   with it, for whose acknowledgement rdma_destroy_id would wait for ever.
// - rdma_create_event_channel: the library never destroys it, which is a descriptor lost with each connection.
// - rdma_get_cm_event, on that thread: fails once the thread is to end, and takes note of the peer's disconnect, which
// the
//   library tells nobody (IserGone).
struct IserTap {
  bool used = false;
  enum class Helper : uint8_t { kNone, kRunning, kEnded } helper = Helper::kNone;
  pthread_t thread{};
  rdma_event_channel* channel = nullptr;
  int stop_fd = -1;  // an event: the thread is to end
};

// Ends the library's thread of this connection and waits for its end. Afterwards the connection may be taken apart.
void EndIserHelper(IserTap& tap);
// After the context is gone.
void DestroyIserChannel(IserTap& tap);

// Whether the peer of this iSER context (an iscsi_context) has disconnected since WatchIser. Any thread. ForgetIser
// comes before the context is freed, and is nothing for one that is not watched.
void WatchIser(const void* context);
void ForgetIser(const void* context);
bool IserGone(const void* context);

}  // namespace muster
