// Adapters: parameters that are made for training, and that no file has.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#include <optional>

namespace dtc::graph {

/// One of the two factors of what is added to a weight, scale * B A.
struct Adapter {
  double deviation;     ///< at first it is drawn from a normal distribution around 0
  llvm::StringRef base; ///< the weight
  bool isUp;            ///< B, [out, rank]; else A, [rank, in]
  double scale;
  /// How the weight lies in the file: [out, in], [in, out], or otherwise.
  enum class Layout : int64_t { OutIn, InOut, Other } layout;
};

/// Makes an adapter of a parameter.
void setAdapter(ParameterOp parameter, const Adapter &adapter);
/// Nothing where the parameter is no adapter.
std::optional<Adapter> adapterOf(ParameterOp parameter);

} // namespace dtc::graph
