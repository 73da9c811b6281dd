// Ops of mixtures of experts whose rows have slots.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#define GET_OP_CLASSES
#include "dtc/Dialect/Graph/SlotOps.h.inc"
