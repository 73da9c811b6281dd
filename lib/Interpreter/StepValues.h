// The values of a training step: how they are named in all of its functions, and what is drawn
// for those that nothing computes.
#pragma once

#include "dtc/Dialect/Graph/StepOps.h"
#include "dtc/Interpreter/Interpreter.h"
#include "dtc/Interpreter/Step.h"

#include <map>
#include <tuple>

namespace dtc::interpreter {

/// What a value is, the same in all functions of a step.
using Key = std::tuple<graph::RoleKind, std::string, int>;
using Wholes = std::map<Key, Tensor>;

Key keyOf(graph::RoleAttr role);
/// "gradient of h.0.attn.weight".
std::string describe(const Key &key, bool isUpdate);
/// Samples, of which every call has its own.
bool isData(graph::RoleKind kind);
/// What passes add to: a rank of a pipeline has its own terms.
inline bool isSum(const Key &key) {
  return graph::isSummedUp(std::get<graph::RoleKind>(key), std::get<std::string>(key));
}

/// Draws parameters, states and samples of whole tensors.
class Draws {
public:
  explicit Draws(const StepOptions &options) : options(options) {}

  Tensor draw(mlir::func::FuncOp func, unsigned index, graph::RoleAttr role);
  /// The part of an input or target that one call gets; -1: the prologue's, of all calls.
  mlir::FailureOr<Tensor> samples(mlir::func::FuncOp func, unsigned index, graph::RoleAttr role,
                                  int64_t microbatch);

private:
  double drawScalar(graph::ScalarKind kind) const;

  StepOptions options;
  std::map<std::string, Tensor> data; ///< inputs and targets of all microbatches
  uint64_t drawn = 0;                 ///< tensors
};

} // namespace dtc::interpreter
