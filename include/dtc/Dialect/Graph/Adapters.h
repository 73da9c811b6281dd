// Adapters: parameters that are made for training, and that no file has.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#include <optional>

namespace dtc::graph {

/// Makes an adapter of a parameter: at first it is drawn from a normal distribution of that
/// deviation around 0.
void setAdapter(ParameterOp parameter, double deviation);
/// The deviation; nothing where the parameter is no adapter.
std::optional<double> adapterDeviation(ParameterOp parameter);

} // namespace dtc::graph
