// How many experts a token chooses.
//
//   %best = dtc.top_k %scores : tensor<2x8x16xf32> -> tensor<2x8x4xi64>   4 for each token
//   %choices = dtc.reshape %best : ... -> tensor<2x32xi64>                rows 0 to 3 are token 0's
#pragma once

#include "mlir/IR/Value.h"

#include <cstdint>
#include <optional>

namespace dtc::graph {

/// How many of the choices that follow each other are one token's, and so differ; nullopt: unknown.
std::optional<int64_t> choicesOfToken(mlir::Value choices);

} // namespace dtc::graph
