// The interfaces by which phases see ops.
#pragma once

#include "dtc/Sharding/OpCost.h"
#include "dtc/Sharding/Rule.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

#include <functional>

namespace dtc {

/// Whether a rule has factors of size 1. They can't be split, so that planning omits them; but a
/// batch of one is such a factor, and rebatching makes it a larger one.
enum class UnitFactors : uint8_t { Omitted, Kept };

/// How an op gives results of a wider float type than its operands have now.
enum class Widening : uint8_t {
  None,     ///< by a conversion after it
  Result,   ///< its result may be wider than its operands: it accumulates in the wider type
  Operands, ///< its operands are widened: it acts alike in every type, which all of them share
};

/// From where in an operand an element of a result comes. In order of what it costs to compute the
/// operand there again.
enum class Reach : uint8_t {
  Same,     ///< the same position in row-major order, of a row those summed up or the one picked
  Rows,     ///< the row's position: the operand is repeated along the columns
  Moved,    ///< another position, which follows from the element's own
  Repeated, ///< a position that several elements share
  LookedUp, ///< a position that depends on values, which several elements may share
};

/// An op that targets compute by a call of a library.
template <typename ConcreteOp>
class LibraryCall : public mlir::OpTrait::TraitBase<ConcreteOp, LibraryCall> {};

/// An op through which nothing is differentiated: it is part of a backward pass or an update, or
/// its result is an index. Every other op of a graph has DifferentiableOpInterface.
template <typename ConcreteOp>
class NoGradient : public mlir::OpTrait::TraitBase<ConcreteOp, NoGradient> {};

/// An op whose answers to an interface are those of a family of ops. GraphBase.td has the families;
/// each writes the interface's methods into the classes of its ops.
template <typename ConcreteOp>
class BuiltByCloning : public mlir::OpTrait::TraitBase<ConcreteOp, BuiltByCloning> {};
template <typename ConcreteOp>
class SeenByKernels : public mlir::OpTrait::TraitBase<ConcreteOp, SeenByKernels> {};
template <typename ConcreteOp>
class HasFloatTypes : public mlir::OpTrait::TraitBase<ConcreteOp, HasFloatTypes> {};

/// What ShardingRuleOpInterface::buildLocal may ask about the shard it builds.
struct LocalContext {
  const sharding::ShardingRule &rule;
  const sharding::OpSharding &sharding;
  const sharding::Mesh &mesh;
  /// Start of this rank's shard of a factor, in elements, as a tensor<i64>
  /// value; null when the factor is not split.
  std::function<mlir::Value(mlir::OpBuilder &, sharding::FactorId)> offset;
};

/// Clones `op` onto `operands` with `resultTypes`.
llvm::SmallVector<mlir::Value> cloneLocal(mlir::Operation *op, mlir::OpBuilder &builder,
                                          mlir::ValueRange operands,
                                          mlir::TypeRange resultTypes);

} // namespace dtc

#include "dtc/Interfaces/CostInterface.h.inc"
#include "dtc/Interfaces/DifferentiableInterface.h.inc"
#include "dtc/Interfaces/KernelInterface.h.inc"
#include "dtc/Interfaces/PrecisionInterface.h.inc"
#include "dtc/Interfaces/ShardingRuleInterface.h.inc"
