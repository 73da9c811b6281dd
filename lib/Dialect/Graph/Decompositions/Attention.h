// Attention over grouped heads, as contractions around a softmax.
//
// Heads are handled as two indices, g key-value heads of r query heads each:
//
//   scores[b,g,r,s,t] = scale * sum_e q[b,s,g,r,e] * k[b,t,g,e]
//   result[b,s,g,r,f] = sum_t softmax(scores)[b,g,r,s,t] * v[b,t,g,f]
//
// Without grouping (r = 1) index r is left out, so that no reshape is needed.
#pragma once

#include "Softmax.h"

namespace dtc::graph {

/// What the forward and the backward pass are asked to work on.
struct AttentionOperands {
  mlir::Value query, key, value;
  mlir::Value bias; ///< may be null
  double scale = 1.0;
  bool causal = false;
  int64_t window = 0; ///< of causal attention: keys that a query sees; 0: all up to its own
};

class AttentionBuilder {
public:
  AttentionBuilder(TensorBuilder &b, const AttentionOperands &operands);

  /// Scaled, biased and masked scores [b,g,r,s,t] in the statistics type.
  mlir::Value scores();
  /// Probabilities from scores and row statistics [b,(g r),s]; zeros where a row sees nothing.
  mlir::Value probabilities(mlir::Value scores, mlir::Value lse);
  /// sum_t p v, in the layout and type of `like` [b,s,(g r),f].
  mlir::Value weightedValues(mlir::Value p, mlir::Value like);
  /// Gradient of the scores from that of the result.
  mlir::Value scoresGrad(mlir::Value p, mlir::Value grad);
  /// The same where keys are a part of all, of which `output` is the result. The sum over all keys
  /// of p times its gradient is that of the result times its gradient.
  mlir::Value partScoresGrad(mlir::Value p, mlir::Value output, mlir::Value grad);
  /// Gradients of query and key from that of the scores; of value from that of the result.
  mlir::Value queryGrad(mlir::Value scoresGrad);
  mlir::Value keyGrad(mlir::Value scoresGrad);
  mlir::Value valueGrad(mlir::Value p, mlir::Value grad);

  /// Row statistics [b,g,r,s] as [b,(g r),s] and scores [b,g,r,s,t] as [b,(g r),s,t].
  mlir::Value mergeHeads(mlir::Value v);
  int64_t keyDim() const { return shapeOfScores.size() - 1; }

private:
  /// A query-like tensor [b,s,(g r),e] with its heads apart.
  mlir::Value splitQueryHeads(mlir::Value v);
  /// [b,(g r),...] with its heads apart.
  mlir::Value splitHeads(mlir::Value v);
  mlir::Value maskedCausally(mlir::Value scores);
  mlir::Value probabilitiesGrad(mlir::Value p, mlir::Value grad);

  TensorBuilder &b;
  AttentionOperands operands;
  int64_t group; ///< r
  llvm::SmallVector<int64_t> shapeOfScores;
  /// Index lists for contractions; r is missing without grouping.
  llvm::SmallVector<int64_t> queryIndices, keyIndices, scoreIndices, resultIndices, valueIndices;
};

} // namespace dtc::graph
