// Complex tensors as their real and imaginary parts.
//
//   f = torch.polar(one, angle)            fr = one * cos(angle);  fi = one * sin(angle)
//   c = torch.view_as_complex(x)           cr = x[..., 0];         ci = x[..., 1]
//   d = c * f                   becomes    dr = cr * fr - ci * fi; di = cr * fi + ci * fr
//   y = torch.view_as_real(d)              y = torch.stack([dr, di], -1)
//
// So rotary embeddings of complex numbers are what they are in models that write both parts out.
// Operators that only move elements are done to both parts. Others are refused, all at once.
#pragma once

#include "AtenGraph.h"

#include "mlir/IR/Location.h"
#include "llvm/Support/LogicalResult.h"

#include <optional>

namespace dtc::import {

/// The type of each part of a complex one; nothing for real types.
std::optional<ScalarType> partType(ScalarType type);

/// Leaves no complex value in the graph. A stored tensor that is complex has its parts in a last
/// dimension. Errors are diagnostics at `file`.
llvm::LogicalResult separateComplex(AtenGraph &graph, mlir::Location file);

} // namespace dtc::import
