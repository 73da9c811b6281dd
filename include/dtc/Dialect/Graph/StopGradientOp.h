// Where a model's author stops gradients.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#define GET_OP_CLASSES
#include "dtc/Dialect/Graph/StopGradientOp.h.inc"
