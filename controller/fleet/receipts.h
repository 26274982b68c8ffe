#pragma once
#include <cstdint>
#include <string_view>

namespace muster {

// How often a whole message has come over connections from a port of the other side, for the whole process. gRPC tells
// nobody how much of a message that is not whole it holds; a connection that brings bytes and no message is told by
// this (service/unread_guard.h). By port alone: two peers with one port are taken for one, which only makes it milder.
// Thread-safe, one atomic addition; `peer` as gRPC names it ("ipv4:192.0.2.1:50000"); without a port: nothing.
void NoteReceipt(std::string_view peer);
uint32_t ReceiptsOf(uint16_t port);

}  // namespace muster
