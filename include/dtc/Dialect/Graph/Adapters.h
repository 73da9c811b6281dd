// Adapters: parameters that are made for training, and that no file has.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#include "dtc/Dialect/Graph/AdapterEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dtc/Dialect/Graph/AdapterAttr.h.inc"

namespace dtc::graph {

/// Makes an adapter of a parameter.
void setAdapter(ParameterOp parameter, AdapterAttr adapter);
/// Null where the parameter is no adapter.
AdapterAttr adapterOf(ParameterOp parameter);

} // namespace dtc::graph
