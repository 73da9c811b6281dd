// The interpreter as a pass.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#include "mlir/Pass/Pass.h"

namespace dtc::interpreter {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "dtc/Interpreter/Passes.h.inc"

} // namespace dtc::interpreter
