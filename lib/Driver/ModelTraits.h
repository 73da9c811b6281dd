// What tells models apart whose tensors have the same names and shapes.
//
// A Llama of 4 heads of 16 and one of 8 heads of 8 have equal weights, but each one's mean nothing
// to the other. Artifacts and checkpoints carry these traits, so that a run goes on from its own
// model's checkpoint alone:
//
//   heads          4 of 16, 2 of keys
//   windows        128 of 1024 keys; all of 1024 keys
//   masks          causal
//   scale of scores        0.125
//   activations    gelu_tanh
//   norms' eps     1e-05
//   experts of a token     2 of 4
//   adapters       alpha 8
//
// A trait lists what occurs anywhere, as batches and sequences of other sizes may have other ops.
#pragma once

#include "dtc/Import/ImportedModel.h"
#include "dtc/Training/Train.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <string>

namespace dtc::driver {

/// By name. `module` is the model as it was imported.
std::map<std::string, std::string> traitsOf(mlir::ModuleOp module,
                                            const training::TrainOptions &train);

/// What can be told only by computing: the angles of rotary positions, and some results.
std::map<std::string, std::string> computedTraitsOf(const import::ImportedModel &model);

} // namespace dtc::driver
