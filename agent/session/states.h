#pragma once
#include <cstdint>
#include <string_view>

namespace muster::agent {

// Where a session stands. Every state has a deadline (session_machine.h); a lost link alone changes none of those from
// kIdle on, for the session goes on without it; with the session ended the states from kAttaching
// on are left in order (abort, drain, detach) before kDisconnected.
enum class State : uint8_t {
  kDisconnected,  // no link; the next dial has its time
  kGreeting,      // dialled, Hello sent
  kIdle,          // accepted, nothing attached
  kAttaching,     // a target is being attached
  kAttached,      // at least one target attached, no phase
  kInspecting,    // targets are being looked at, read only
  kPreparing,     // the engine is being prepared, then the clock burst runs
  kPrepared,      // workers are parked at the gate
  kArmed,         // the start instant is known and ahead
  kRunning,       // the start instant has passed
  kDraining,      // the last edge has passed or an abort was asked; operations come back
  kHandingOver,   // the phase has ended; its reports are not all committed yet
  kDetaching,     // targets are being released
  kPoisoned,      // something did not come back in time; no new phase until it does
  kStopped,       // the process is to exit
};
inline constexpr int kStates = 15;
std::string_view StateName(State state);

// In the order of the alternatives of ControllerSays.
enum class MessageKind : uint8_t {
  kHelloReply,
  kBeatReply,
  kAttach,
  kInspect,
  kPrepare,
  kStart,
  kStop,
  kDetach,
  kGoodbye
};
inline constexpr int kMessageKinds = 9;
std::string_view MessageName(MessageKind kind);

// Whether a message may come in a state at all; keys are checked after it. What is not accepted is answered by Refused
// (MESSAGE_OUT_OF_ORDER) and changes nothing.
bool Accepts(State state, MessageKind kind);

}  // namespace muster::agent
