// Converts the nodes of a model, in order, to `dtc` ops.
//
// A converter is a function on a NodeConverter; each family of operators has its own file, and
// registers its converters by operator name with the inputs that they need.
#pragma once

#include "Tensors.h"
#include "dtc/Import/Build/Conversion.h"

#include "llvm/ADT/StringMap.h"

#include <limits>

namespace dtc::import {

class NodeConverter;
using Converter = llvm::LogicalResult (*)(NodeConverter &);

/// How an operator is converted, and which of its inputs a converter may read without asking:
///
///     table["Relu"] = convertRelu;                             input 0
///     table["Gather"] = {convertGather, 2};                    inputs 0 and 1
///     table["Max"] = Operator(convertMax).listsFrom(0);        as many as a node has, at least one
struct Operator {
  Operator() = default;
  Operator(Converter convert, int required = 1) : convert(convert), required(required) {}

  /// From this input on a node has as many as it likes, and leaves out none.
  Operator listsFrom(int input) const {
    Operator result = *this;
    result.firstListed = input;
    return result;
  }
  /// Inputs may be sequences of tensors.
  Operator withSequences() const {
    Operator result = *this;
    result.takesSequences = true;
    return result;
  }

  Converter convert = nullptr; ///< null: it isn't supported
  int required = 1;            ///< leading inputs that it can't do without
  int firstListed = std::numeric_limits<int>::max();
  bool takesSequences = false;
};
using ConverterTable = llvm::StringMap<Operator>;

/// The converters of all operators, by name in the default domain.
const ConverterTable &converters();

void addActivationConverters(ConverterTable &table);
void addElementwiseConverters(ConverterTable &table);
void addShapeConverters(ConverterTable &table);
void addMovementConverters(ConverterTable &table);
void addIndexConverters(ConverterTable &table);
void addGatherNDConverter(ConverterTable &table);
void addSelectionConverters(ConverterTable &table);
void addContractionConverters(ConverterTable &table);
void addReductionConverters(ConverterTable &table);
void addNormConverters(ConverterTable &table);
void addAttentionConverters(ConverterTable &table);
void addResizeConverter(ConverterTable &table);
void addVisionConverters(ConverterTable &table);
void addSequenceConverters(ConverterTable &table);
void addLossConverters(ConverterTable &table);
void addControlConverters(ConverterTable &table);
void addRecurrentConverters(ConverterTable &table);
void addScatterConverters(ConverterTable &table);
void addSpatialConverters(ConverterTable &table);
void addSignalConverters(ConverterTable &table);
void addSamplingConverters(ConverterTable &table);
void addRegionConverters(ConverterTable &table);
void addStateConverters(ConverterTable &table);
void addShiftConverters(ConverterTable &table);

/// What a converter sees: one node, its inputs, and where its outputs go.
class NodeConverter : public Conversion {
public:
  NodeConverter(const onnx::NodeProto &node, Emitter &emit, llvm::StringMap<Tensor> &values,
                TensorReader &tensors, Budget &budget);

  const onnx::NodeProto &node;
  TensorReader &tensors; ///< for tensors inside attributes
  const int64_t opset;   ///< of the file; older operators have other forms
  llvm::StringMap<Tensor> &values; ///< by the file's names
  Budget &budget;                  ///< of the import

  std::string op() const { return node.op_type(); }
  int numInputs() const { return node.input_size(); }
  int numOutputs() const { return node.output_size(); }
  /// Whether the input is given (optional ones may be left out or empty).
  bool has(int index) const;
  bool hasOutput(int index) const;

  const Tensor &input(int index) const;
  /// The constant, or null.
  Host host(int index) const { return has(index) ? input(index).host : Host(); }
  /// The input as a value of the graph, constants materialized.
  mlir::Value value(int index) { return Conversion::value(input(index)); }
  using Conversion::value;

  /// The integers of a constant input; a diagnostic where it is not constant.
  llvm::FailureOr<Shape> ints(int index, llvm::StringRef what);
  /// The same of an input or, in older opsets, of the attribute of this name.
  llvm::FailureOr<Shape> listed(int index, llvm::StringRef name);
  llvm::FailureOr<int64_t> scalarInt(int index, llvm::StringRef what);
  llvm::FailureOr<double> scalarFloat(int index, llvm::StringRef what);

  const onnx::AttributeProto *attribute(llvm::StringRef name) const;
  int64_t attrInt(llvm::StringRef name, int64_t byDefault) const;
  double attrFloat(llvm::StringRef name, double byDefault) const;
  std::optional<Shape> attrInts(llvm::StringRef name) const;
  std::string attrString(llvm::StringRef name, const std::string &byDefault) const;
  /// Axes from input `index` (-1: none) or the attribute "axes", normalized; all axes where
  /// both are absent and `allByDefault`.
  llvm::FailureOr<Shape> axes(int index, int64_t rank, bool allByDefault);

  llvm::LogicalResult define(Tensor tensor) { return define(0, std::move(tensor)); }
  llvm::LogicalResult define(llvm::FailureOr<Tensor> tensor) {
    return failed(tensor) ? llvm::failure() : define(0, std::move(*tensor));
  }
  llvm::LogicalResult define(mlir::Value value) { return define(0, Tensor(value)); }
  llvm::LogicalResult define(Host constant) { return define(0, Tensor(std::move(constant))); }
  llvm::LogicalResult define(int output, Tensor tensor);
  using Conversion::checkResult;

  mlir::InFlightDiagnostic error() const override;
};

/// Converts one node, whose inputs are in `values`, where its outputs go.
llvm::LogicalResult convertNode(const onnx::NodeProto &node, Emitter &emit,
                                llvm::StringMap<Tensor> &values, TensorReader &tensors,
                                Budget &budget);

/// Converts the nodes on which `outputs` depend. `values` holds initializers and
/// inputs before, and `outputs` afterwards. Operators that are not
/// supported are reported all at once.
llvm::LogicalResult convertNodes(const Model &model, llvm::ArrayRef<std::string> outputs,
                                 Emitter &emit, llvm::StringMap<Tensor> &values,
                                 TensorReader &tensors, Budget &budget);

/// Names of values on which `outputs` depend.
llvm::StringMap<bool> liveValues(const Model &model, llvm::ArrayRef<std::string> outputs);

} // namespace dtc::import
