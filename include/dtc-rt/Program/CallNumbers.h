// What a call's references mean, for whoever executes programs and whoever replays them.
#pragma once

#include "dtc-rt/Program_generated.h"

namespace dtc::rt {

/// The number of a call that a scope goes by.
inline uint64_t numberOf(const fbs::Call &call, fbs::Scope scope) {
  switch (scope) {
  case fbs::Scope::Microbatch:
    return call.microbatch();
  case fbs::Scope::Slot:
    return call.slot();
  case fbs::Scope::Inbox:
    return call.inbox();
  case fbs::Scope::Outbox:
    return call.outbox();
  default:
    return 0;
  }
}

/// The address of a reference for a call, from the start of the arena of its space.
inline uint64_t offsetOf(const fbs::Ref &ref, const fbs::Call &call) {
  return ref.offset() + numberOf(call, ref.scope()) * ref.stride();
}

} // namespace dtc::rt
