// Elements looked up at computed places, each with a share of the result.
#pragma once

#include "dtc/Raise/Emit.h"

#include <vector>

namespace dtc::import {

/// One element that an output is made of: its index along a dimension, how much of it is taken,
/// both of [batch, outputs].
struct Tap {
  mlir::Value index, weight;
};

/// The elements around a place between them, for linear interpolation; the place is of
/// [batch, outputs]. What is outside of `size` elements counts as 0.
std::vector<Tap> linearTaps(raise::Emitter &emit, mlir::Value place, int64_t size);
/// Taps of two dimensions, the second of `size` elements, as such of both merged into one.
Tap mergeTaps(raise::Emitter &emit, const Tap &outer, const Tap &inner, int64_t size);
std::vector<Tap> mergeTaps(raise::Emitter &emit, llvm::ArrayRef<Tap> outer,
                           llvm::ArrayRef<Tap> inner, int64_t size);
/// A tap's elements of `rows`, [batch, channels, elements], times its weight.
mlir::Value takeTap(raise::Emitter &emit, mlir::Value rows, const Tap &tap);
mlir::Value sumTaps(raise::Emitter &emit, mlir::Value rows, llvm::ArrayRef<Tap> taps);

} // namespace dtc::import
