// Choices between what a step's calls compute where they evaluate, and where they train. The
// scalar `evaluation` says which (ScalarKind::Evaluation), so that one program does both:
//
//   %mean = select(broadcast(%evaluation) != 0, %running_mean, %batch_mean)
#pragma once

#include "dtc/Dialect/Graph/TensorBuilder.h"

namespace dtc::graph {

mlir::Value chooseByEvaluation(TensorBuilder &b, mlir::Value evaluation, mlir::Value evaluated,
                               mlir::Value trained);

/// The operand that training takes where an op is such a choice; else null.
mlir::Value trainedChoice(mlir::Operation *op);

} // namespace dtc::graph
