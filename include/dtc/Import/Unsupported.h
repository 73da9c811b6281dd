// Errors about what dtc doesn't take yet, told from those about files that are wrong.
#pragma once

#include "mlir/IR/Attributes.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Diagnostics.h"

namespace dtc::import {

/// The error, of which isUnsupported holds.
inline mlir::InFlightDiagnostic unsupported(mlir::InFlightDiagnostic error) {
  if (mlir::Diagnostic *diagnostic = error.getUnderlyingDiagnostic())
    diagnostic->getMetadata().emplace_back(
        mlir::UnitAttr::get(diagnostic->getLocation().getContext()));
  return error;
}

/// Whether the input is sound. No other diagnostic has metadata.
inline bool isUnsupported(mlir::Diagnostic &diagnostic) {
  return !diagnostic.getMetadata().empty();
}

} // namespace dtc::import
