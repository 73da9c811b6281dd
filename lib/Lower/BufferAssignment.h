// Which buffer each value of a step function lies in, and when it is needed.
#pragma once

#include "Flights.h"
#include "Homes.h"

#include "dtc/Dialect/Exec/Part.h"
#include "dtc/Lower/PartialFunction.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <optional>
#include <vector>

namespace dtc::lower {

/// Memory of one size. Times are positions of ops in the function; arguments
/// are there from -1, what is returned is needed until the terminator.
struct Buffer {
  uint64_t bytes = 0;
  int64_t first = 0, last = 0;
  std::optional<size_t> home; ///< index into HomeTable; none: temporary
};

/// Assigns buffers so that no value is written over while it is needed.
///
/// Reshapes share their operand's buffer. A launch or all-reduce result takes
/// the buffer of the operand that it may overwrite when that operand dies
/// there. A result takes its home from its first write on, if the argument that
/// lives there is no longer read by then. Parts lie in the place of the concat that joins them
/// (dtc/Dialect/Exec/Part.h). It takes that of a tensor whose parts are read before. Buffers of
/// what was started on another queue are taken until it is done (Flights.h).
class BufferAssignment {
public:
  /// `part`: of a function that stands for a part of a larger one. Spent arguments are temporaries,
  /// and so are results that aren't apart.
  BufferAssignment(mlir::func::FuncOp function, const HomeTable &homes,
                   const PartPlaces *part = nullptr);

  const std::vector<Buffer> &getBuffers() const { return buffers; }
  size_t bufferOf(mlir::Value value) const { return valueBuffers.at(value); }
  int64_t timeOf(mlir::Operation *op) const { return times.at(op); }

  /// Operands of the terminator that don't lie in their home and have to be
  /// copied there.
  const std::vector<unsigned> &getMisplacedResults() const { return misplaced; }

private:
  void numberOps();
  void findLastUses();
  void holdOperandsInFlight();
  void placeArguments(const PartPlaces *part);
  void placeResultsOf(mlir::Operation *op);
  void placePart(mlir::Operation *copy, graph::ConcatOp join);
  llvm::SmallVector<mlir::Value> tensorsBefore(graph::ConcatOp join);
  std::optional<size_t> replacedBy(graph::ConcatOp join);
  bool isReadBefore(mlir::Value root, graph::ConcatOp join) const;
  using BufferUsers = llvm::SmallDenseMap<size_t, unsigned, 8>;
  std::optional<size_t> reusable(mlir::Operation *op, mlir::OpResult result, int64_t operand,
                                 const BufferUsers &users);
  void claimHomes(const PartPlaces *part);
  bool isFree(size_t home, int64_t from) const;
  int64_t lastUse(mlir::Value value) const { return lastUses.lookup(exec::bufferRoot(value)); }
  /// True while an op that was started before `op` has to do with the value.
  bool isInFlight(mlir::Value root, mlir::Operation *op) const;

  mlir::func::FuncOp function;
  const HomeTable &homes;
  std::vector<Buffer> buffers;
  std::vector<unsigned> misplaced;
  std::vector<int64_t> argumentLastUse; ///< by home; -1: holds no argument that is used
  llvm::BitVector claimed;              ///< homes that a buffer takes
  llvm::DenseMap<mlir::Value, size_t> valueBuffers;
  llvm::DenseMap<mlir::Value, int64_t> lastUses; ///< by root
  llvm::DenseMap<mlir::Value, size_t> resultHomes; ///< by root: where it is returned to
  llvm::DenseMap<mlir::Operation *, int64_t> times;
  std::optional<Flights> flights;
  /// By root: the started ops that read or write it.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Operation *, 1>> holders;
  llvm::SmallDenseSet<size_t> replaced; ///< buffers that a concat has taken, part by part
  int64_t end = 0;                      ///< time of the terminator
};

} // namespace dtc::lower
