// Ops of the `dist` dialect between pipeline stages.
#pragma once

#include "dtc/Dialect/Dist/Dist.h"

#define GET_OP_CLASSES
#include "dtc/Dialect/Dist/StageOps.h.inc"
