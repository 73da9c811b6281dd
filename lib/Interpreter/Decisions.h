// Whether a step decided in many ways where counts are compared with limits (CountLimits.h).
//
// Experts that are never full keep each token that chose them. What is wrong with the mask of those
// that are kept, or with what it is made of, then changes nothing. Where all samples choose alike,
// one's choices in place of another's change nothing either. So the mask must differ somewhere
// between two neighbours along each of its dimensions, and in two draws: of tokens that choose
// alike any order is right.
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
  /// Whether each mask has differed along each dimension in as many draws as it must.
  bool areVaried() const;

private:
  struct Dim {
    bool hasOne = false;  ///< index; then nothing can differ
    bool differs = false; ///< in this draw
    int draws = 0;        ///< in which it did, before this one
  };
  llvm::DenseMap<mlir::Value, size_t> numbers;
  std::vector<std::vector<Dim>> masks;
};

} // namespace dtc::interpreter
