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

/// How many keys a query sees where a term [..., s, t] of attention scores hides exactly the keys
/// after the query, and those before its last few. It is 0 where the query sees all up to itself,
/// which is key s + keys - queries. The term is 0 for keys that are seen. Nothing unless that is
/// proven for every element: from its expression, or by evaluation where the term has at most 2^18
/// distinct elements. Every query must see a key. With `isCausal`, keys after the query are hidden
/// without the term.
std::optional<int64_t> causalWindow(mlir::Value term, int64_t queryDim, int64_t keyDim,
                                    bool isCausal);

/// Flattens a product: constant factors multiplied up, and the others. Divisions by
/// constants count. Products that have other users are not entered.
struct Product {
  double constant = 1;
  llvm::SmallVector<double, 2> numbers; ///< the constant factors, of which `constant` is made
  llvm::SmallVector<mlir::Value> factors;
};
Product flattenProduct(mlir::Value value);

} // namespace dtc::raise
