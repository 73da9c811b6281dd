// The functions that a step may consist of.
#pragma once

#include "dtc/Lower/ScheduleBuilder.h"

#include "llvm/ADT/StringRef.h"

namespace dtc::lower {

struct KnownFunction {
  llvm::StringLiteral name;
  Cadence cadence;
};

inline constexpr llvm::StringLiteral kClear = "clear";
inline constexpr llvm::StringLiteral kLossAndGrads = "loss_and_grads";

/// In the order in which one microbatch needs them.
inline constexpr KnownFunction kStepFunctions[] = {
    {"prologue", Cadence::OncePerStep},
    {kClear, Cadence::OncePerStep},
    {kLossAndGrads, Cadence::OncePerMicrobatch},
    {"forward", Cadence::OncePerMicrobatch},
    {"update", Cadence::OncePerStep},
};

} // namespace dtc::lower
