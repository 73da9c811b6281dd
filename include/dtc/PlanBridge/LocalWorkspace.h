// The workspace of the ops of a module, found by building each of them alone.
#pragma once

#include "dtc/Plan/Plan/Workspace.h"

#include "mlir/IR/Block.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

#include "llvm/ADT/DenseMap.h"

#include <functional>

namespace dtc::planbridge {

/// For an op on a rank's shapes, makes a module whose @forward holds that op alone, its operands as
/// inputs and its results as outputs. It has the module measured, once for ops that are alike. An
/// example is attention in bf16. Its scores, in fp32, lie beside all of its operands. Its
/// probabilities, half as large, take the place of queries and keys if those are spent, and leave
/// room for the result.
class LocalWorkspace : public plan::Workspace {
public:
  /// The most bytes that the module's function needs at one moment beside all of its arguments and
  /// results, which are its op's operands and results.
  using Measure =
      std::function<mlir::FailureOr<int64_t>(mlir::ModuleOp, const plan::OpPlaces &places)>;

  /// `module`: where the problem was extracted from; it may change afterwards.
  LocalWorkspace(mlir::ModuleOp module, Measure measure);

  int64_t bytes(plan::OpId op, const plan::Shapes &operands, const plan::Shapes &results,
                const plan::OpPlaces &places) const override;

private:
  mlir::Block examples; ///< one of all ops that are alike, on arguments
  std::vector<mlir::Operation *> ops; ///< of those, by number in the problem
  Measure measure;
  /// By op, attributes, types and places.
  mutable llvm::DenseMap<mlir::Attribute, int64_t> known;
};

} // namespace dtc::planbridge
