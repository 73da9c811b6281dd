// Whether a step decided in many ways where values decide: which experts a token chooses, and where
// counts are compared with limits (CountLimits.h).
//
// Of tokens that choose alike any order is right, and one's choices are as good as another's. Ranks
// that get rows of the same tokens look alike, too: where each token chooses one expert of each of
// two ranks, these may return each other's rows, as a token takes the sum of both. And experts that
// are never full keep each token that chose them, so that nothing shows what is wrong with the mask
// of those that are kept. So these must be so in the draws of a step:
//
//   mask by a limit     differs between two neighbours along each dimension, in two draws
//   choices of top_k    differ between two neighbours along each dimension but the last
//   slots of experts    two parts that have rows have those of other tokens in some section
#pragma once

#include "dtc/Interpreter/Tensor.h"

#include "mlir/IR/BuiltinOps.h"

#include <vector>

namespace dtc::interpreter {

class Decisions {
public:
  explicit Decisions(mlir::ModuleOp global);
  /// After which they can be varied.
  int leastDraws() const;
  /// What a value of a function was.
  void see(mlir::Value value, const Tensor &tensor);
  void endDraw();
  /// Whether each decision was seen to vary in as many draws as it must.
  bool areVaried() const;

private:
  /// A way in which what an op decides must vary.
  struct Way {
    bool isSeen = false; ///< in this draw
    int draws = 0;       ///< in which it was, before this one
  };
  struct Decision {
    int leastDraws;
    std::vector<Way> ways;
  };
  void add(mlir::Value value, int leastDraws);

  llvm::DenseMap<mlir::Value, size_t> numbers;
  std::vector<Decision> decisions;
};

} // namespace dtc::interpreter
