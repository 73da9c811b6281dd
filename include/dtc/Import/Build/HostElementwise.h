// Elementwise operators on constants.
#pragma once

#include "dtc/Import/Build/Host.h"

#include "llvm/ADT/StringRef.h"

namespace dtc::import {

/// The operator applied to constants of equal element type. It is null for an operator that isn't
/// evaluated, and for what would exceed the size of a constant. It is null for what is undefined,
/// too, as a division by zero.
Host evaluateUnary(llvm::StringRef op, const Host &input);
Host evaluateBinary(llvm::StringRef op, const Host &lhs, const Host &rhs);
Host evaluateWhere(const Host &condition, const Host &lhs, const Host &rhs);
Host evaluateCast(const Host &input, mlir::Type to);

/// Towards zero. No standard says what NaN and numbers out of range become; here it is what x86
/// computes, the least integer.
int64_t truncated(double value);

} // namespace dtc::import
