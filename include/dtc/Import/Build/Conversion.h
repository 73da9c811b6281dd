// Converting one operator of a model file to `dtc` ops.
//
// A value of the file is a value of the graph, a constant known while importing (see Host.h), or a
// sequence of such. An importer derives its own conversion, which knows how its file says what the
// operator reads and writes. What is common to files of all kinds is built by functions on a
// Conversion. They emit, report errors at the operator, and charge the budget of the import.
#pragma once

#include "dtc/Import/Build/Budget.h"
#include "dtc/Import/Build/Host.h"
#include "dtc/Raise/Emit.h"

#include "mlir/IR/Diagnostics.h"

namespace dtc::import {

struct Tensor {
  mlir::Value value;            ///< in the graph, or
  Host host;                    ///< a constant, or
  std::vector<Tensor> sequence; ///< elements of a sequence
  bool isSequence = false;

  Tensor() = default;
  Tensor(mlir::Value value) : value(value) {}
  Tensor(Host host) : host(std::move(host)) {}

  mlir::Type element() const { return host ? host->element : elementOf(value); }
  Shape shape() const { return host ? host->shape : Shape(tensorType(value).getShape()); }
  int64_t rank() const { return shape().size(); }
};

/// The most numbers of a list that says sizes, axes and the like; far beyond any rank.
inline constexpr size_t kMaxListed = 1 << 12;

class Conversion {
public:
  Conversion(Emitter &emit, Budget &budget) : emit(emit), budget(budget) {}
  virtual ~Conversion() = default;

  Emitter &emit;

  /// A diagnostic that names the file and the operator.
  virtual mlir::InFlightDiagnostic error() const = 0;

  /// As a value of the graph, constants materialized.
  mlir::Value value(const Tensor &tensor);
  /// The same, broadcast to `shape`.
  mlir::Value valueAs(const Tensor &tensor, llvm::ArrayRef<int64_t> shape);

  /// An axis counted from the end when negative; a diagnostic when out of range.
  llvm::FailureOr<int64_t> axis(int64_t axis, int64_t rank);

  /// To be called before a shape is made of numbers that the file states.
  llvm::LogicalResult checkShape(llvm::ArrayRef<int64_t> shape) const;
  /// To be called before a loop that emits so many operations, or makes as many tensors.
  llvm::LogicalResult chargeNodes(int64_t count);
  /// For a constant that was computed on the way to the one that is defined.
  llvm::LogicalResult chargeFolded(const Tensor &tensor);

protected:
  /// For a result: what it takes to compute it, and to hold it.
  llvm::LogicalResult chargeResult(const Tensor &tensor);
  /// Whether the sizes of a result make sense; arithmetic on sizes cannot overflow then.
  llvm::LogicalResult checkResult(const Tensor &tensor) const;

private:
  llvm::LogicalResult charge(llvm::StringRef error) const;

  Budget &budget;
};

} // namespace dtc::import
