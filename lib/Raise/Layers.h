// Patterns that recognize layers which a file spells out in simple operators.
#pragma once

#include "Reshapes.h"
#include "Rounding.h"

namespace dtc::raise {

void addAttentionPatterns(mlir::RewritePatternSet &patterns);
void addNormPatterns(mlir::RewritePatternSet &patterns);
void addActivationPatterns(mlir::RewritePatternSet &patterns);
/// Mixtures whose tokens look up the weights of their experts become grouped products.
void addExpertPatterns(mlir::RewritePatternSet &patterns);

/// Whether a term [..., s, t] of attention scores hides exactly the keys after the query. It is 0
/// where key t is not after query s (t <= s + keys - queries) and hides all other keys. True only
/// when that is proven for every element: by evaluation where the term has at most 2^18 distinct
/// elements, else from its expression. Every query must see a key.
bool isCausalMask(mlir::Value term, int64_t queryDim, int64_t keyDim);

/// Whether a constant number hides a key when added to its score.
bool hidesKey(double value);

/// Flattens a product: constant factors multiplied up, and the others. Divisions by
/// constants count. Products that have other users are not entered.
struct Product {
  double constant = 1;
  llvm::SmallVector<double, 2> numbers; ///< the constant factors, of which `constant` is made
  llvm::SmallVector<mlir::Value> factors;
};
Product flattenProduct(mlir::Value value);

} // namespace dtc::raise
