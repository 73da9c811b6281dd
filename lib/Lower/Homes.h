// The places that live through a step: one for every role.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace dtc::lower {

inline constexpr uint64_t kAlignment = 64;

inline uint64_t alignUp(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Bytes of a tensor in memory; an i1 takes a byte.
uint64_t bytesOf(mlir::Type tensorType);

/// The role that names a home: its own, but the count that the prologue returns and the
/// scalar that later functions take are one.
graph::RoleAttr homeRole(graph::RoleAttr role);

/// Where the arguments and results of a role lie in the arena.
struct Home {
  graph::RoleAttr role;
  mlir::RankedTensorType type; ///< of one microbatch
  dist::ShardingAttr sharding; ///< null: every rank has the whole
  uint64_t offset = 0;
  uint64_t stride = 0; ///< from one microbatch to the next; 0: one place for the step
  uint64_t count = 1;  ///< microbatches
  uint64_t bytes() const { return bytesOf(type); }
  uint64_t end() const { return offset + (count - 1) * stride + bytes(); }
};

/// All homes of a module, laid out from the start of the arena in the order of
/// their roles. Depends on the functions' signatures and the schedule alone.
class HomeTable {
public:
  static mlir::FailureOr<HomeTable> build(mlir::ModuleOp module);

  const std::vector<Home> &getHomes() const { return homes; }
  uint64_t size() const { return end; }
  /// The home of an argument's or result's role.
  size_t find(graph::RoleAttr role) const { return index.at(homeRole(role)); }
  /// True if the function only reads the home and nobody does after it: the next
  /// call that has to do with it writes it anew. So are gradients in the update.
  bool isSpentAfter(mlir::func::FuncOp function, size_t home) const;

private:
  mlir::LogicalResult enter(mlir::func::FuncOp function, graph::RoleAttr role, mlir::Type type,
                            dist::ShardingAttr sharding);
  mlir::LogicalResult enterSignature(mlir::func::FuncOp function);
  mlir::LogicalResult checkWholeBatch(mlir::func::FuncOp function) const;
  void layOut();
  void findSpent(exec::ScheduleOp schedule);

  std::vector<Home> homes;
  llvm::DenseMap<mlir::Attribute, size_t> index; ///< by their homes' roles
  llvm::DenseMap<mlir::Attribute, llvm::BitVector> spent; ///< homes by function
  uint64_t microbatches = 1, end = 0;
};

/// Functions whose arguments cover all microbatches at once.
bool runsOncePerStep(mlir::func::FuncOp function);

} // namespace dtc::lower
