// Follows the batch from the inputs of @forward through its ops by their sharding rules, in both
// directions.
//
// A batch of one cannot be told from a dimension of size 1 of a parameter, so it is followed from
// the inputs downwards only.
#pragma once

#include "BatchPlace.h"

#include "llvm/ADT/DenseMap.h"

namespace dtc::raise {

class BatchTrace {
public:
  /// What an op means that doesn't carry the batch on: an error, or that it ends there.
  enum class Ends : uint8_t { Refused, Allowed };

  /// `purpose` begins messages: "cannot change the batch". `advice` ends them; by default it says
  /// how to leave the batch as the file has it.
  BatchTrace(mlir::func::FuncOp func, Ends ends, std::string purpose,
             std::optional<std::string> advice = std::nullopt)
      : func(func), ends(ends), purpose(std::move(purpose)), advice(std::move(advice)) {}

  /// Finds the size of the batch; 0: no input has one. Those in `whole` don't.
  mlir::LogicalResult start(llvm::ArrayRef<std::string> whole = {});
  mlir::LogicalResult propagate();

  int64_t size() const { return old; }
  std::optional<BatchPlace> placeIn(mlir::Value value) const {
    auto found = places.find(value);
    return found == places.end() ? std::nullopt : std::optional(found->second);
  }
  const llvm::DenseMap<mlir::Value, BatchPlace> &all() const { return places; }
  mlir::LogicalResult refuse(mlir::Location at, const llvm::Twine &why) const;

private:
  mlir::LogicalResult visit(mlir::Operation *op);
  mlir::LogicalResult visitReshape(graph::ReshapeOp op);
  mlir::LogicalResult place(mlir::Value value, const BatchPlace &at);
  mlir::LogicalResult end(mlir::Location at, const llvm::Twine &why) const {
    return ends == Ends::Allowed ? mlir::success() : refuse(at, why);
  }

  mlir::func::FuncOp func;
  Ends ends;
  std::string purpose;
  std::optional<std::string> advice;
  int64_t old = 0;
  llvm::DenseMap<mlir::Value, BatchPlace> places; // looked up only
  bool changed = false;
};

} // namespace dtc::raise
