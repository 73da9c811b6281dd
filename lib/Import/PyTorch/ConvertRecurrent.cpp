// LSTM, GRU and RNN, and their cells. Weights come as a list, for each layer and direction:
//
//     weight_ih [gates * hidden, width], weight_hh [gates * hidden, hidden], bias_ih, bias_hh
#include "AtenConverter.h"

#include "dtc/Import/Build/Dropout.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Build/Recurrence.h"
#include "dtc/Import/Unsupported.h"

using namespace mlir;

namespace dtc::import {

namespace {

class Recurrence {
public:
  explicit Recurrence(AtenConverter &node) : node(node) {
    const std::string op = node.op();
    kind = StringRef(op).starts_with("aten.lstm")  ? CellKind::Lstm
           : StringRef(op).starts_with("aten.gru") ? CellKind::Gru
                                                   : CellKind::Rnn;
    const auto ofRnn =
        StringRef(op).starts_with("aten.rnn_relu") ? CellActivation::Relu : CellActivation::Tanh;
    const auto ofGates = kind == CellKind::Rnn ? ofRnn : CellActivation::Sigmoid;
    activations = {ofGates, CellActivation::Tanh, CellActivation::Tanh};
  }

  LogicalResult runLayers();
  LogicalResult runCell();

private:
  LogicalResult readLayers();
  FailureOr<std::vector<Tensor>> givenStates(const Shape &shape);
  LogicalResult readStates();
  FailureOr<RecurrentCell> cellOf(ArrayRef<Tensor> tensors, int64_t width);
  LogicalResult runLayer(int64_t layer, Tensor &x);

  AtenConverter &node;
  CellKind kind;
  std::vector<CellActivation> activations;
  bool batchFirst = false, hasBiases = true;
  int64_t batch = 0, hidden = 0, numLayers = 1, numDirections = 1;
  double dropped = 0;
  std::vector<Tensor> weights;
  std::vector<CellState> states; ///< by layer and direction: first the initial ones, then the last
};
} // namespace

/// Gates are ordered as input, forget, cell, output, and as reset, update, new.
FailureOr<RecurrentCell> Recurrence::cellOf(ArrayRef<Tensor> tensors, int64_t width) {
  const int64_t rows = numGates(kind) * hidden;
  const Shape expected[] = {{rows, width}, {rows, hidden}, {rows}, {rows}};
  Value values[4];
  for (auto [i, tensor] : llvm::enumerate(tensors)) {
    if (tensor.shape() != expected[i] || !isa<FloatType>(tensor.element()))
      return LogicalResult(node.error() << "has a weight of a shape that does not fit: "
                                        << listed(tensor.shape()));
    values[i] = node.value(tensor);
  }
  return RecurrentCell{
      .kind = kind,
      .order = {.input = 0, .forget = 1, .fresh = 2, .output = 3, .update = 1, .reset = 0},
      .activations = activations,
      .input = values[0],
      .recurrent = values[1],
      .inputBias = values[2],
      .recurrentBias = values[3],
  };
}

LogicalResult Recurrence::readLayers() {
  auto input = node.tensor("input");
  auto params = node.tensors("params");
  auto biases = node.boolean("has_biases"), first = node.boolean("batch_first"),
       both = node.boolean("bidirectional"), train = node.boolean("train");
  auto layers = node.integer("num_layers");
  auto dropout = node.number("dropout", 0);
  if (failed(input) || failed(params) || failed(biases) || failed(first) || failed(both) ||
      failed(train) || failed(layers) || failed(dropout))
    return failure();
  hasBiases = *biases;
  batchFirst = *first;
  numDirections = *both ? 2 : 1;
  numLayers = *layers;
  dropped = *train ? *dropout : 0;
  weights = *params;
  const Shape x = input->shape();
  if (x.size() != 3 || !isa<FloatType>(input->element()))
    return node.error() << "is supported on batches of floats only";
  batch = x[batchFirst ? 0 : 1];
  if (numLayers < 1 || numLayers > int64_t(weights.size()) ||
      int64_t(weights.size()) != numLayers * numDirections * (hasBiases ? 4 : 2))
    return node.error() << "is supported without projections only";
  if (weights[1].rank() != 2)
    return node.error() << "has a weight of a shape that does not fit: "
                        << listed(weights[1].shape());
  hidden = weights[1].shape()[1];
  return success();
}

/// The argument hx: a tensor, of LSTM two of them.
FailureOr<std::vector<Tensor>> Recurrence::givenStates(const Shape &shape) {
  std::vector<Tensor> given;
  if (kind == CellKind::Lstm) {
    auto both = node.tensors("hx");
    if (failed(both))
      return failure();
    given = *both;
  } else {
    auto one = node.tensor("hx");
    if (failed(one))
      return failure();
    given.push_back(*one);
  }
  if (given.size() != (kind == CellKind::Lstm ? 2 : 1))
    return LogicalResult(node.error() << "needs its initial states");
  for (const Tensor &tensor : given)
    if (tensor.shape() != shape)
      return LogicalResult(node.error() << "has states of a shape that does not fit: "
                                        << listed(tensor.shape()));
  return given;
}

LogicalResult Recurrence::readStates() {
  const int64_t count = numLayers * numDirections;
  auto given = givenStates({count, batch, hidden});
  if (failed(given))
    return failure();
  for (int64_t i = 0; i < count; ++i) {
    auto part = [&](const Tensor &tensor) {
      return node.value(reshapeTensor(node, sliceTensor(node, tensor, 0, i, 1), {batch, hidden}));
    };
    states.push_back(
        {part(given->front()), kind == CellKind::Lstm ? part(given->back()) : Value()});
  }
  return success();
}

LogicalResult Recurrence::runLayer(int64_t layer, Tensor &x) {
  const int64_t each = hasBiases ? 4 : 2;
  std::vector<Tensor> outputs;
  for (int64_t d = 0; d < numDirections; ++d) {
    const int64_t at = layer * numDirections + d;
    auto cell = cellOf(ArrayRef(weights).slice(at * each, each), x.shape()[2]);
    if (failed(cell))
      return failure();
    auto output = unrollCell(node, *cell, x, {batchFirst, d == 1, {}}, states[at]);
    if (failed(output))
      return failure();
    outputs.push_back(*output);
  }
  auto joined = concatTensors(node, outputs, 2);
  if (succeeded(joined) && dropped > 0 && layer + 1 < numLayers)
    joined = dropout(node, *joined, dropped);
  if (failed(joined))
    return failure();
  x = *joined;
  return success();
}

LogicalResult Recurrence::runLayers() {
  if (failed(readLayers()) || failed(readStates()))
    return failure();
  Tensor x = *node.tensor("input");
  for (int64_t layer = 0; layer < numLayers; ++layer)
    if (failed(runLayer(layer, x)))
      return failure();
  auto stacked = [&](Value CellState::*part) {
    std::vector<Tensor> all;
    for (const CellState &state : states)
      all.push_back(Tensor(reshape(node.emit, state.*part, {1, batch, hidden})));
    return concatTensors(node, all, 0);
  };
  auto last = stacked(&CellState::hidden);
  if (failed(last) || failed(node.define(0, x)) || failed(node.define(1, *last)))
    return failure();
  if (kind != CellKind::Lstm)
    return success();
  auto cells = stacked(&CellState::cell);
  return failed(cells) ? failure() : node.define(2, *cells);
}

/// One step: input [batch, width], and the state as a tensor, of LSTM as two of them.
LogicalResult Recurrence::runCell() {
  auto input = node.tensor("input"), recurrent = node.tensor("w_hh");
  if (failed(input) || failed(recurrent))
    return failure();
  if (input->rank() != 2 || recurrent->rank() != 2)
    return node.error() << "is supported on batches only";
  batch = input->shape()[0];
  hidden = recurrent->shape()[1];
  for (StringRef name : {"w_ih", "w_hh", "b_ih", "b_hh"}) {
    if (!node.has(name))
      continue;
    auto tensor = node.tensor(name);
    if (failed(tensor))
      return failure();
    weights.push_back(*tensor);
  }
  auto cell = cellOf(weights, input->shape()[1]);
  auto before = givenStates({batch, hidden});
  if (failed(cell) || failed(before))
    return failure();
  CellState state{node.value(before->front()),
                  kind == CellKind::Lstm ? node.value(before->back()) : Value()};
  state = stepCell(node, *cell, node.value(*input), state);
  if (failed(node.define(0, state.hidden)))
    return failure();
  return kind == CellKind::Lstm ? node.define(1, state.cell) : success();
}

static LogicalResult convertLayers(AtenConverter &node) {
  if (node.overload() == "data")
    return unsupported(node.error()) << "is not supported on packed sequences";
  return Recurrence(node).runLayers();
}

static LogicalResult convertCell(AtenConverter &node) { return Recurrence(node).runCell(); }

void addRecurrence(AtenTable &table) {
  for (const char *op : {"aten.lstm", "aten.gru", "aten.rnn_tanh", "aten.rnn_relu"})
    table[op] = convertLayers;
  for (const char *op :
       {"aten.lstm_cell", "aten.gru_cell", "aten.rnn_tanh_cell", "aten.rnn_relu_cell"})
    table[op] = convertCell;
}

} // namespace dtc::import
