#include "agent/session/states.h"

#include <array>
#include <initializer_list>

namespace muster::agent {
namespace {

using Set = uint16_t;
constexpr Set Of(std::initializer_list<MessageKind> kinds) {
  Set set = 0;
  for (MessageKind kind : kinds) set = static_cast<Set>(set | (1u << static_cast<unsigned>(kind)));
  return set;
}

using enum MessageKind;
// A detach may overtake the end of an attach (a cancelled run) and is done after it. While reports are handed over the
// next phase may begin: reports live in the log, not in the phase. A stop of a phase that has just ended by itself
// crosses its end on the way, hence kStop there (the machine checks that it names that phase).
constexpr std::array<Set, kStates> kAccepted = {
    /* kDisconnected */ Of({}),
    /* kGreeting     */ Of({kHelloReply, kGoodbye}),
    /* kIdle         */ Of({kBeatReply, kGoodbye, kAttach, kInspect, kDetach}),
    /* kAttaching    */ Of({kBeatReply, kGoodbye, kDetach}),
    /* kAttached     */ Of({kBeatReply, kGoodbye, kAttach, kInspect, kPrepare, kDetach, kStop}),
    /* kInspecting   */ Of({kBeatReply, kGoodbye}),
    /* kPreparing    */ Of({kBeatReply, kGoodbye, kStop}),
    /* kPrepared     */ Of({kBeatReply, kGoodbye, kStart, kStop}),
    /* kArmed        */ Of({kBeatReply, kGoodbye, kStop}),
    /* kRunning      */ Of({kBeatReply, kGoodbye, kStop}),
    /* kDraining     */ Of({kBeatReply, kGoodbye, kStop}),
    /* kHandingOver  */ Of({kBeatReply, kGoodbye, kAttach, kInspect, kPrepare, kDetach, kStop}),
    /* kDetaching    */ Of({kBeatReply, kGoodbye}),
    /* kPoisoned     */ Of({kBeatReply, kGoodbye, kDetach, kStop}),
    /* kStopped      */ Of({}),
};

}  // namespace

bool Accepts(State state, MessageKind kind) {
  return (kAccepted[static_cast<size_t>(state)] >> static_cast<unsigned>(kind)) & 1u;
}

std::string_view StateName(State state) {
  static constexpr std::array<std::string_view, kStates> kNames = {
      "disconnected", "greeting", "idle",     "attaching",    "attached",  "inspecting", "preparing", "prepared",
      "armed",        "running",  "draining", "handing over", "detaching", "poisoned",   "stopped"};
  return kNames[static_cast<size_t>(state)];
}

std::string_view MessageName(MessageKind kind) {
  static constexpr std::array<std::string_view, kMessageKinds> kNames = {
      "HelloReply", "BeatReply", "Attach", "Inspect", "Prepare", "Start", "Stop", "Detach", "Goodbye"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace muster::agent
