// Ops that draw random numbers.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#define GET_OP_CLASSES
#include "dtc/Dialect/Graph/RandomOps.h.inc"
