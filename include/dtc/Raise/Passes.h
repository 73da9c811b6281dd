// Rewrites that bring an imported graph into the form the other phases expect.
#pragma once

#include "mlir/Pass/PassManager.h"

#include <memory>

namespace dtc::raise {

/// Undoes flattening: reshapes that merge batch and sequence around
/// contractions move below them, those that split a contraction's result into
/// heads move above it into the weight; transposes fold into index lists.
std::unique_ptr<mlir::Pass> createUnflattenPass();

/// Recognizes layers that the file spells out: attention, normalizations,
/// activations, softmax.
std::unique_ptr<mlir::Pass> createRaisePass();

/// A reshape directly on a parameter becomes the parameter's view.
std::unique_ptr<mlir::Pass> createViewParametersPass();

/// Gives @forward another batch size.
std::unique_ptr<mlir::Pass> createRebatchPass(int64_t batch);

/// All of it in order; `batch` 0 keeps the file's.
void buildRaisePipeline(mlir::OpPassManager &passes, int64_t batch);

/// --dtc-unflatten, --dtc-raise, --dtc-view-parameters, --dtc-rebatch=batch=N.
void registerRaisePasses();

} // namespace dtc::raise
