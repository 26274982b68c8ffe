#pragma once
#include <memory>

#include "agent/backend/backend.h"
#include "agent/backend/iscsi/connection_spec.h"

namespace muster {

// What libiscsi 1.19 allocates and pins for each iSER connection: 256 buffers of 256 KiB.
inline constexpr uint64_t kIserConnectionBytes = uint64_t{64} << 20;

// One iSCSI session over one connection, to one or several LUNs of a target (IoOp::object indexes spec.luns).
//
// Open resolves the portal's name, logs in and inspects every LUN; it blocks until the deadline or spec.login_timeout,
// whichever is first. It takes no objects, or one for each LUN: base and size as for a labelled device, ISCSI_LUN_SIZE
// and ISCSI_BLOCK_SIZE if they do not fit. Typed errors: errors.h.
//
// Submit accepts only what may go on the wire: the target's command window has room for it (MaxCmdSN, read from every
// answer), at most 256 commands are out (128 over iSER), and everything accepted before has gone to the socket; each
// operation is sent before the next is taken. An operation larger than one transfer goes out as several commands; if
// they do not all fit into the window or the 256, the rest follows as answers come, and nothing else is accepted
// before.
//
// BUSY and TASK SET FULL are retried after 1, 2, 4 ... 100 ms until the operation's timeout, UNIT ATTENTION once at
// once: inside the operation's time. Nothing else is ever sent twice.
//
// limits.op_timeout is watched here. When an operation reaches it: that one ends kTimeout (ETIMEDOUT), all others
// kIo (ECONNABORTED). When the connection is lost all end kIo with an errno (EBADMSG: a header digest). Then the
// context is gone, its socket reset, and late answers find nothing. A new login follows at once, or after 100 ms
// doubled up to spec.max_backoff, driven by Reap: it must be called when WaitFd is readable and at NextTimer, with
// nothing outstanding too. Until it is up and the LUNs' unit attentions are taken, Submit accepts nothing.
//
// Abort ends everything as kAborted (ECANCELED) by the same way, so a login follows. Close always ends everything and
// returns true; with nothing outstanding it logs out first, waiting at most 100 ms.
std::unique_ptr<Backend> MakeIscsiBackend(IscsiConnectionSpec spec);

}  // namespace muster
