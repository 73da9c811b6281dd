// The product of rows with the matrices of their experts, as a kernel computes it.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"

#define GET_OP_CLASSES
#include "dtc/Dialect/Exec/GroupedMatmulOp.h.inc"
