// The `exec` dialect: what a rank executes.
#pragma once

#include "dtc/Dialect/Dist/Dist.h"

#include "mlir/Interfaces/ControlFlowInterfaces.h"

#include "dtc/Dialect/Exec/ExecDialect.h.inc"

#define GET_OP_CLASSES
#include "dtc/Dialect/Exec/ExecOps.h.inc"
