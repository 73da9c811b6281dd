// The places that outlive a call: one for every role.
//
// A home has as many copies as its scope has numbers. One for the step has one. One for each
// microbatch (inputs, outputs) has as many. The others have one for each slot, place of the inbox
// or of the outbox that calls of their functions name. So two stage chunks have slots of different
// sizes, and of different number.
//
// Take the first rank of two under 1F1B with three microbatches (dtc/Schedule/Schedule.h). Its
// calls name two slots, 0 and 1, and one place of each box:
//
//   home                  scope        copies   copy n begins at
//   parameter "w"         step         1        0
//   input "ids"           microbatch   3        4096 + n * 512
//   outbox "h"            outbox       1        5632
//   inbox "dh"            inbox        1        6656
//   slot "h0.a"           slot         2        7680 + n * 1024
#pragma once

#include "dtc/Dialect/Exec/Exec.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>
#include <vector>

namespace dtc::lower {

inline constexpr uint64_t kAlignment = 64;

inline uint64_t alignUp(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Bytes of a tensor in memory; an i1 takes a byte.
uint64_t bytesOf(mlir::Type tensorType);

/// Where a value begins in its buffer, which has it whole (dtc/Dialect/Exec/Part.h).
int64_t bytesInto(mlir::Value value);

/// The role that names a home: its own, but the count that the prologue returns and the
/// scalar that later functions take are one.
graph::RoleAttr homeRole(graph::RoleAttr role);

/// What a home has a copy for; as in a program (Program.fbs).
enum class Scope : uint8_t { Step, Microbatch, Slot, Inbox, Outbox };

Scope scopeOf(graph::RoleKind kind);

/// Where the arguments and results of a role lie in the arena of its space.
struct Home {
  graph::RoleAttr role;
  mlir::RankedTensorType type; ///< of one copy
  dist::ShardingAttr sharding; ///< null: every rank has the whole
  dist::FlatAttr flat;         ///< null: it lies as it is sharded
  exec::Space space = exec::Space::Device;
  uint64_t offset = 0;
  uint64_t stride = 0; ///< from one copy to the next; 0: there is one
  uint64_t count = 1;  ///< copies
  Scope scope() const { return scopeOf(role.getKind()); }
  bool isOnHost() const { return space == exec::Space::Host; }
  uint64_t bytes() const { return bytesOf(type); }
  uint64_t end() const { return offset + (count - 1) * stride + bytes(); }
};

/// All homes of a module, laid out from the start of their arenas in the order of
/// their roles. Depends on the functions' signatures and the schedule alone.
class HomeTable {
public:
  static mlir::FailureOr<HomeTable> build(mlir::ModuleOp module);

  const std::vector<Home> &getHomes() const { return homes; }
  uint64_t size() const { return end; }
  /// Where a function's temporaries begin. Slots come last, and hold nothing while a function
  /// runs that is called once a step: before all microbatches, or after them.
  uint64_t temporariesOf(mlir::func::FuncOp function) const {
    return graph::runsPerMicrobatch(function) ? end : slots.value_or(end);
  }
  uint64_t hostSize() const { return hostEnd; }
  /// The home of an argument's or result's role.
  size_t find(graph::RoleAttr role) const { return index.at(homeRole(role)); }
  /// True if the function only reads the home and nobody does after it: the next
  /// call that has to do with it writes it anew. So are gradients in the update.
  bool isSpentAfter(mlir::func::FuncOp function, size_t home) const;

private:
  mlir::LogicalResult enter(mlir::func::FuncOp function, graph::RoleAttr role, mlir::Type type,
                            mlir::DictionaryAttr attributes);
  mlir::LogicalResult enterSignature(mlir::func::FuncOp function);
  mlir::LogicalResult countCopies(exec::ScheduleOp schedule);
  mlir::LogicalResult checkWholeBatch(mlir::func::FuncOp function) const;
  void layOut();
  void findSpent(exec::ScheduleOp schedule);

  std::vector<Home> homes;
  llvm::DenseMap<mlir::Attribute, size_t> index; ///< by their homes' roles
  llvm::DenseMap<mlir::Attribute, llvm::BitVector> spent; ///< homes by function
  uint64_t microbatches = 1, end = 0, hostEnd = 0;
  std::optional<uint64_t> slots; ///< where they begin
};

} // namespace dtc::lower
