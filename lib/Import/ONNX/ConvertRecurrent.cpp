// RNN, GRU and LSTM, and ReverseSequence. Lengths of samples must be known while compiling.
#include "GraphBuilder.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Build/Recurrence.h"
#include "dtc/Import/Unsupported.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace dtc::import {

namespace {

/// What one direction goes through.
struct Direction {
  int64_t index;
  bool reverse;
};

class Recurrence {
public:
  explicit Recurrence(NodeConverter &node)
      : node(node), emit(node.emit), kind(llvm::StringSwitch<CellKind>(node.op())
                                              .Case("LSTM", CellKind::Lstm)
                                              .Case("GRU", CellKind::Gru)
                                              .Default(CellKind::Rnn)) {}

  LogicalResult run();

private:
  LogicalResult readSizes();
  LogicalResult readActivations();
  LogicalResult readLengths();
  bool hasShape(int index, const Shape &shape) const {
    return !node.has(index) || node.input(index).shape() == shape;
  }
  /// A direction's part of an input with directions first, without that dimension.
  Value ofDirection(int index, int64_t direction);
  RecurrentCell cellOf(int64_t direction);
  CellState initialState(int64_t direction);
  LogicalResult define(int output, ArrayRef<Tensor> ofDirections, int64_t dim);

  NodeConverter &node;
  Emitter &emit;
  CellKind kind;
  bool batchFirst = false;
  int64_t length = 0, batch = 0, width = 0, hidden = 0, numDirections = 1;
  std::vector<Direction> directions;
  std::vector<CellActivation> activations; ///< of all directions
  std::optional<Shape> lengths;            ///< where some are shorter
};
} // namespace

LogicalResult Recurrence::readSizes() {
  const Shape x = node.input(0).shape(), w = node.input(1).shape(), r = node.input(2).shape();
  batchFirst = node.attrInt("layout", 0);
  const std::string way = node.attrString("direction", "forward");
  if (way == "bidirectional")
    directions = {{0, false}, {1, true}};
  else if (way == "forward" || way == "reverse")
    directions = {{0, way == "reverse"}};
  else
    return node.error() << "has an unknown direction: " << way;
  numDirections = directions.size();
  if (x.size() != 3 || w.size() != 3 || r.size() != 3 || !isa<FloatType>(node.input(0).element()))
    return node.error() << "needs floats of three dimensions";
  length = x[batchFirst ? 1 : 0];
  batch = x[batchFirst ? 0 : 1];
  width = x[2];
  hidden = r[2];
  const int64_t rows = numGates(kind) * hidden;
  const Shape state =
      batchFirst ? Shape{batch, numDirections, hidden} : Shape{numDirections, batch, hidden};
  if (w != Shape{numDirections, rows, width} || r != Shape{numDirections, rows, hidden} ||
      !hasShape(3, {numDirections, 2 * rows}) || !hasShape(5, state) ||
      (kind == CellKind::Lstm &&
       (!hasShape(6, state) || !hasShape(7, {numDirections, 3 * hidden}))))
    return node.error() << "operands of shapes that do not fit";
  if (node.attrInt("input_forget", 0))
    return node.error() << "is supported with gates of their own only (input_forget=0)";
  return success();
}

LogicalResult Recurrence::readActivations() {
  static const std::vector<std::string> kDefaults[] = {
      {"Tanh"}, {"Sigmoid", "Tanh"}, {"Sigmoid", "Tanh", "Tanh"}};
  std::vector<std::string> names;
  if (const auto *given = node.attribute("activations"))
    names.assign(given->strings().begin(), given->strings().end());
  if (node.attribute("activation_alpha") || node.attribute("activation_beta"))
    return node.error() << "is supported without activation_alpha and activation_beta only";
  const auto &byDefault = kDefaults[int(kind)];
  while (names.size() < byDefault.size() * size_t(numDirections) &&
         names.size() % byDefault.size() == 0)
    names.insert(names.end(), byDefault.begin(), byDefault.end());
  if (names.size() != byDefault.size() * size_t(numDirections))
    return node.error() << "has a bad number of activations: " << names.size();
  for (const std::string &name : names) {
    auto known = llvm::StringSwitch<std::optional<CellActivation>>(name)
                     .Case("Tanh", CellActivation::Tanh)
                     .Case("Sigmoid", CellActivation::Sigmoid)
                     .Case("Relu", CellActivation::Relu)
                     .Case("Softsign", CellActivation::Softsign)
                     .Default(std::nullopt);
    if (!known)
      return unsupported(node.error()) << "has an unsupported activation: " << name;
    activations.push_back(*known);
  }
  return success();
}

LogicalResult Recurrence::readLengths() {
  if (!node.has(4))
    return success();
  auto given = node.ints(4, "sequence_lens");
  if (failed(given))
    return failure();
  if (int64_t(given->size()) != batch)
    return node.error() << "needs one length for each sample";
  for (int64_t each : *given)
    if (each < 0 || each > length)
      return node.error() << "has a bad length of a sample: " << each;
  if (llvm::any_of(*given, [&](int64_t each) { return each != length; }))
    lengths = *given;
  return success();
}

Value Recurrence::ofDirection(int index, int64_t direction) {
  Value all = node.value(index);
  Shape shape(tensorType(all).getShape());
  shape.erase(shape.begin());
  return reshape(emit, sliceDim(emit, all, 0, direction, 1), shape);
}

/// Gates are ordered as input, output, forget, cell, and as update, reset, hidden.
RecurrentCell Recurrence::cellOf(int64_t direction) {
  const size_t each = activations.size() / numDirections;
  RecurrentCell cell{
      .kind = kind,
      .order = {.input = 0, .forget = 2, .fresh = 3, .output = 1, .update = 0, .reset = 1},
      .activations = ArrayRef(activations).slice(direction * each, each).vec(),
      .input = ofDirection(1, direction),
      .recurrent = ofDirection(2, direction),
      .inputBias = {},
      .recurrentBias = {},
  };
  if (node.has(3)) {
    const int64_t rows = numGates(kind) * hidden;
    Value both = ofDirection(3, direction);
    cell.inputBias = sliceDim(emit, both, 0, 0, rows);
    cell.recurrentBias = sliceDim(emit, both, 0, rows, rows);
  }
  if (kind == CellKind::Lstm && node.has(7))
    cell.peepholes = ofDirection(7, direction);
  cell.resetsProduct = node.attrInt("linear_before_reset", 0) != 0;
  cell.clip = node.attrFloat("clip", 0);
  return cell;
}

CellState Recurrence::initialState(int64_t direction) {
  auto given = [&](int index) -> Value {
    if (!node.has(index))
      return splat(emit, RankedTensorType::get({batch, hidden}, node.input(0).element()), 0);
    Value all = node.value(index);
    return reshape(emit, sliceDim(emit, all, batchFirst ? 1 : 0, direction, 1), {batch, hidden});
  };
  return {given(5), kind == CellKind::Lstm ? given(6) : Value()};
}

LogicalResult Recurrence::define(int output, ArrayRef<Tensor> ofDirections, int64_t dim) {
  auto all = concatTensors(node, ofDirections, dim);
  return failed(all) ? failure() : node.define(output, *all);
}

LogicalResult Recurrence::run() {
  if (failed(readSizes()) || failed(readActivations()) || failed(readLengths()))
    return failure();
  SmallVector<Tensor> sequences, hiddens, cells;
  const Shape positions =
      batchFirst ? Shape{batch, length, 1, hidden} : Shape{length, 1, batch, hidden};
  const Shape last = batchFirst ? Shape{batch, 1, hidden} : Shape{1, batch, hidden};
  for (const Direction &direction : directions) {
    CellState state = initialState(direction.index);
    auto outputs = unrollCell(node, cellOf(direction.index), node.input(0),
                              {batchFirst, direction.reverse, lengths}, state);
    if (failed(outputs))
      return failure();
    sequences.push_back(reshapeTensor(node, *outputs, positions));
    hiddens.push_back(Tensor(reshape(emit, state.hidden, last)));
    if (state.cell)
      cells.push_back(Tensor(reshape(emit, state.cell, last)));
  }
  const int64_t dimOfStates = batchFirst ? 1 : 0;
  if (failed(define(0, sequences, batchFirst ? 2 : 1)) || failed(define(1, hiddens, dimOfStates)))
    return failure();
  return cells.empty() ? success() : define(2, cells, dimOfStates);
}

static LogicalResult convertRecurrent(NodeConverter &node) { return Recurrence(node).run(); }

static LogicalResult convertReverseSequence(NodeConverter &node) {
  auto lengths = node.ints(1, "sequence_lens");
  auto time = node.axis(node.attrInt("time_axis", 0), node.input(0).rank());
  auto batch = node.axis(node.attrInt("batch_axis", 1), node.input(0).rank());
  if (failed(lengths) || failed(time) || failed(batch))
    return failure();
  return node.define(reverseSequence(node, node.input(0), *time, *batch, *lengths));
}

void addRecurrentConverters(ConverterTable &table) {
  for (const char *op : {"RNN", "GRU", "LSTM"})
    table[op] = {convertRecurrent, 3};
  table["ReverseSequence"] = {convertReverseSequence, 2};
}

} // namespace dtc::import
