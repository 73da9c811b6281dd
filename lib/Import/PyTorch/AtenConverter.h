// Converts the operators of a PyTorch program, in order, to `dtc` ops.
//
// A converter is a function on an AtenConverter. Each family of operators has its own file and
// registers its converters by name without overload: "aten.add" serves aten.add.Tensor,
// aten.add.Scalar and, in place, aten.add_.Tensor.
#pragma once

#include "AtenGraph.h"

#include "dtc/Import/Build/Conversion.h"

#include "llvm/ADT/StringMap.h"

namespace dtc::import {

class AtenConverter;
using AtenFunction = llvm::LogicalResult (*)(AtenConverter &);
using AtenTable = llvm::StringMap<AtenFunction>;

/// The converters of all operators.
const AtenTable &atenConverters();

void addArithmetic(AtenTable &table);
void addComparisons(AtenTable &table);
void addActivations(AtenTable &table);
void addCreation(AtenTable &table);
void addMovement(AtenTable &table);
void addParts(AtenTable &table);
void addLookups(AtenTable &table);
void addScatters(AtenTable &table);
void addContractions(AtenTable &table);
void addReductions(AtenTable &table);
void addNormalizations(AtenTable &table);
void addVision(AtenTable &table);
void addLosses(AtenTable &table);
void addMargins(AtenTable &table);
void addRecurrence(AtenTable &table);
void addResizes(AtenTable &table);
void addNumbers(AtenTable &table);

/// Of two tensors: maximum and minimum, and an overload of max and min.
llvm::LogicalResult convertExtreme(AtenConverter &node);

/// Euclidean lengths (order 2, with a gradient of 0 at 0), and sums of sizes (order 1).
llvm::FailureOr<Tensor> lengths(AtenConverter &node, const Tensor &x, double order,
                                llvm::ArrayRef<int64_t> axes, bool keep);

/// What a converter sees: one operator, its arguments, and where its results go.
class AtenConverter : public Conversion {
public:
  AtenConverter(const AtenNode &node, Emitter &emit, llvm::StringMap<Tensor> &values,
                mlir::Location file, Budget &budget);

  const AtenNode &node;

  /// The operator without overload and without the mark of working in place: "aten.add". Of two
  /// names that PyTorch has for it the one that the table knows.
  std::string op() const;
  std::string overload() const;

  /// The argument, or null where it is left out or None.
  const Argument *argument(llvm::StringRef name) const;
  bool has(llvm::StringRef name) const { return argument(name) != nullptr; }

  // What isn't there, or isn't of the kind that is asked for, is a diagnostic. Those with a default
  // take it where the argument is left out.

  llvm::FailureOr<Tensor> tensor(llvm::StringRef name);
  llvm::FailureOr<std::vector<Tensor>> tensors(llvm::StringRef name);
  /// Those of a list that are not None.
  llvm::FailureOr<std::vector<Tensor>> presentTensors(llvm::StringRef name);
  /// The tensor, or nothing where the argument is left out or None.
  llvm::FailureOr<std::optional<Tensor>> optionalTensor(llvm::StringRef name);
  llvm::FailureOr<int64_t> integer(llvm::StringRef name, std::optional<int64_t> byDefault = {});
  llvm::FailureOr<double> number(llvm::StringRef name, std::optional<double> byDefault = {});
  llvm::FailureOr<bool> boolean(llvm::StringRef name, std::optional<bool> byDefault = {});
  llvm::FailureOr<Shape> integers(llvm::StringRef name, std::optional<Shape> byDefault = {});
  /// A list of numbers; empty where it is left out.
  llvm::FailureOr<std::vector<double>> numbers(llvm::StringRef name);
  llvm::FailureOr<std::string> text(llvm::StringRef name, std::optional<std::string> byDefault);
  /// An element type; `byDefault` where it is left out.
  llvm::FailureOr<mlir::Type> type(llvm::StringRef name, mlir::Type byDefault);

  /// A tensor, or a number as a constant without dimensions: an i64, a bit, or PyTorch's default
  /// float. `isNumber` says which, for promotion.
  struct Operand {
    Tensor tensor;
    bool isNumber = false;
  };
  llvm::FailureOr<Operand> operand(llvm::StringRef name);

  /// The axis that the argument names.
  llvm::FailureOr<int64_t> axisOf(llvm::StringRef name, int64_t rank,
                                  std::optional<int64_t> byDefault = {});
  /// The axes of a number or of a list; all where it is left out or empty.
  llvm::FailureOr<Shape> axesOf(llvm::StringRef name, int64_t rank);

  llvm::LogicalResult define(size_t result, Tensor tensor);
  llvm::LogicalResult define(Tensor tensor) { return define(0, std::move(tensor)); }
  llvm::LogicalResult define(mlir::Value value) { return define(0, Tensor(value)); }
  llvm::LogicalResult define(llvm::FailureOr<Tensor> tensor) {
    return failed(tensor) ? llvm::failure() : define(0, std::move(*tensor));
  }

  /// Of an operator only the first error is reported.
  mlir::InFlightDiagnostic error() const override;

private:
  llvm::FailureOr<std::vector<Tensor>> listOf(llvm::StringRef name, bool allowsNone);
  llvm::FailureOr<int64_t> integerOf(const Argument &argument, llvm::StringRef name);

  llvm::StringMap<Tensor> &values;
  mlir::Location file;
  mutable bool reported = false;
};

/// The type itself if it is a float, else PyTorch's default one.
mlir::Type floatFor(mlir::Type type);
/// What arithmetic between the operands is done in, as PyTorch promotes them.
mlir::Type promoted(const AtenConverter::Operand &a, const AtenConverter::Operand &b);

/// Converts the nodes on which the outputs depend. `values` holds weights and inputs before, and
/// the outputs afterwards. Operators that are not supported are reported all at once.
llvm::LogicalResult convertAten(const AtenGraph &graph, Emitter &emit,
                                llvm::StringMap<Tensor> &values, mlir::Location file,
                                Budget &budget);

/// Which way from an output to what it depends on.
enum class Dependence { Any, Gradient };
/// The values on which the graph's outputs depend, or to which their gradients pass.
llvm::StringMap<bool> liveValues(const AtenGraph &graph, Dependence kind = Dependence::Any);

} // namespace dtc::import
