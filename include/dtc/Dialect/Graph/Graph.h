// The `dtc` dialect: training graphs on tensors.
#pragma once

#include "dtc/Interfaces/Interfaces.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dtc/Dialect/Graph/GraphDialect.h.inc"
#include "dtc/Dialect/Graph/GraphEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dtc/Dialect/Graph/GraphAttrs.h.inc"

#define GET_OP_CLASSES
#include "dtc/Dialect/Graph/GraphOps.h.inc"

namespace dtc::graph {

/// Attaches sharding rules, gradients and costs to the arith and math ops that
/// graphs use. To be called once for each context's registry.
void registerElementwiseModels(mlir::DialectRegistry &registry);
/// The gradients' part of it.
void registerElementwiseGradients(mlir::DialectRegistry &registry);

/// True for arith and math ops that act element by element on tensors.
bool isElementwise(mlir::Operation *op);

/// Whether an arith or math op takes many instructions for an element, as exponentials, roots and
/// divisions do.
bool isDear(mlir::Operation *op);

/// The role of a function's argument or result; null when it has none.
RoleAttr getArgRole(mlir::func::FuncOp func, unsigned index);
RoleAttr getResultRole(mlir::func::FuncOp func, unsigned index);

/// How often a function runs; null when it doesn't say.
RunsAttr getRuns(mlir::func::FuncOp func);
/// Once for each microbatch.
inline bool runsPerMicrobatch(mlir::func::FuncOp func) {
  RunsAttr runs = getRuns(func);
  return runs && runs.getCadence() == Cadence::Microbatch;
}
/// "forward|backward".
std::string textOf(Passes passes);
void setRuns(mlir::func::FuncOp func, Cadence cadence, Passes passes = Passes::None,
             int64_t chunk = 0);

/// Sets the attribute `name` of all arguments or results at once, in linear time (one by one it
/// would be quadratic). Where `attrs` is null the present one stays.
void setArgAttrs(mlir::func::FuncOp func, llvm::StringRef name,
                 llvm::ArrayRef<mlir::Attribute> attrs);
void setResultAttrs(mlir::func::FuncOp func, llvm::StringRef name,
                    llvm::ArrayRef<mlir::Attribute> attrs);

/// Sets dtc.limit on integer arguments that are used as indices: the rows of the
/// table, the classes of the loss. For functions of global shapes.
void annotateIndexLimits(mlir::func::FuncOp function);

/// The factor of a mixture's op (ExpertOps.td) that counts parts of its experts, each with the rows
/// that chose one of them. It is -1 where there is none.
int expertsFactor(mlir::Operation *op, const sharding::ShardingRule &rule);

/// The static shape of a tensor value.
llvm::ArrayRef<int64_t> shapeOf(mlir::Value value);

/// What a value is but for its shape: the input of the first of the reshapes that make it.
mlir::Value withoutReshapes(mlir::Value value);

} // namespace dtc::graph
