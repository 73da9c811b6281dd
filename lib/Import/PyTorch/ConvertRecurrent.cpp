// LSTM, GRU and RNN, and their cells: one copy of the cell for each position of the sequence.
//
// What the inputs add to the gates is one product for all positions; only that of the state is
// made step by step. PyTorch orders gates as input, forget, cell, output, and as reset, update,
// new. Weights come as a list, for each layer and direction:
//
//     weight_ih [gates * hidden, width], weight_hh [gates * hidden, hidden], bias_ih, bias_hh
#include "AtenConverter.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Import/Build/Dropout.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Unsupported.h"

using namespace mlir;

namespace dtc::import {

using graph::TensorBuilder;

namespace {
enum class Cell { Tanh, Relu, Gru, Lstm };

/// Of one layer and direction; biases may be null.
struct CellWeights {
  Value input, recurrent, inputBias, recurrentBias;
};

struct State {
  Value hidden, cell; ///< [batch, hidden]; the cell's of LSTM alone
};

class Recurrence {
public:
  explicit Recurrence(AtenConverter &node)
      : node(node), emit(node.emit), b(node.emit, node.emit.getLoc()) {
    const std::string op = node.op();
    kind = StringRef(op).starts_with("aten.lstm")       ? Cell::Lstm
           : StringRef(op).starts_with("aten.gru")      ? Cell::Gru
           : StringRef(op).starts_with("aten.rnn_relu") ? Cell::Relu
                                                        : Cell::Tanh;
  }

  LogicalResult runLayers();
  LogicalResult runCell();

private:
  int64_t numGates() const { return kind == Cell::Lstm ? 4 : kind == Cell::Gru ? 3 : 1; }
  LogicalResult readLayers();
  FailureOr<std::vector<Tensor>> givenStates(const Shape &shape);
  LogicalResult readStates();
  FailureOr<CellWeights> weightsOf(ArrayRef<Tensor> tensors, int64_t width);
  Value inputsOf(const CellWeights &weights, Value x);
  State step(const CellWeights &weights, Value inputs, const State &state);
  State stepLstm(Value gates, const State &state);
  Value stepGru(const CellWeights &weights, Value inputs, Value state);
  Value runDirection(const CellWeights &weights, Value x, bool reverse, State &state);
  LogicalResult runLayer(int64_t layer, Value &x);

  Value gate(Value gates, int64_t g, int64_t count = 1) {
    return sliceDim(emit, gates, tensorType(gates).getRank() - 1, g * hidden, count * hidden);
  }
  /// state [batch, hidden] times the recurrent weights of some gates, and their bias.
  Value recurrent(const CellWeights &weights, Value state, int64_t g, int64_t count) {
    Value rows = sliceDim(emit, weights.recurrent, 0, g * hidden, count * hidden);
    Value result = contract(emit, state, {0, 2}, rows, {1, 2}, {0, 1});
    if (!weights.recurrentBias)
      return result;
    return b.add(result,
                 broadcastTo(emit, gate(weights.recurrentBias, g, count), {batch, count * hidden}));
  }
  Value sigmoid(Value x) {
    return graph::ActivationOp::create(emit, x.getType(), graph::Activation::Sigmoid, x);
  }

  AtenConverter &node;
  Emitter &emit;
  TensorBuilder b;
  Cell kind;
  bool batchFirst = false, hasBiases = true;
  int64_t length = 0, batch = 0, hidden = 0, numLayers = 1, numDirections = 1;
  double dropped = 0;
  std::vector<Tensor> weights;
  std::vector<State> states; ///< by layer and direction: first the initial ones, then the last
};
} // namespace

FailureOr<CellWeights> Recurrence::weightsOf(ArrayRef<Tensor> tensors, int64_t width) {
  const int64_t rows = numGates() * hidden;
  const Shape expected[] = {{rows, width}, {rows, hidden}, {rows}, {rows}};
  Value values[4];
  for (auto [i, tensor] : llvm::enumerate(tensors)) {
    if (tensor.shape() != expected[i] || !isa<FloatType>(tensor.element()))
      return LogicalResult(node.error() << "has a weight of a shape that does not fit: "
                                        << listed(tensor.shape()));
    values[i] = node.value(tensor);
  }
  return CellWeights{values[0], values[1], values[2], values[3]};
}

/// What x [.., width] adds to the gates.
Value Recurrence::inputsOf(const CellWeights &weights, Value x) {
  const int64_t rank = tensorType(x).getRank();
  Shape indices = llvm::to_vector(llvm::seq<int64_t>(rank - 1)), result = indices;
  indices.push_back(rank);
  result.push_back(rank - 1);
  Value inputs = contract(emit, x, indices, weights.input, {rank - 1, rank}, result);
  if (!weights.inputBias)
    return inputs;
  return b.add(inputs, broadcastTo(emit, weights.inputBias, tensorType(inputs).getShape()));
}

State Recurrence::stepLstm(Value gates, const State &state) {
  Value in = sigmoid(gate(gates, 0)), forget = sigmoid(gate(gates, 1));
  Value fresh = b.unary<math::TanhOp>(gate(gates, 2)), out = sigmoid(gate(gates, 3));
  Value cells = b.add(b.mul(forget, state.cell), b.mul(in, fresh));
  return {b.mul(out, b.unary<math::TanhOp>(cells)), cells};
}

Value Recurrence::stepGru(const CellWeights &weights, Value inputs, Value state) {
  Value both = sigmoid(b.add(gate(inputs, 0, 2), recurrent(weights, state, 0, 2)));
  Value term = b.mul(gate(both, 0), recurrent(weights, state, 2, 1));
  Value fresh = b.unary<math::TanhOp>(b.add(gate(inputs, 2), term));
  return b.add(fresh, b.mul(gate(both, 1), b.sub(state, fresh)));
}

State Recurrence::step(const CellWeights &weights, Value inputs, const State &state) {
  if (kind == Cell::Gru)
    return {stepGru(weights, inputs, state.hidden), {}};
  Value gates = b.add(inputs, recurrent(weights, state.hidden, 0, numGates()));
  if (kind == Cell::Lstm)
    return stepLstm(gates, state);
  if (kind == Cell::Tanh)
    return {b.unary<math::TanhOp>(gates), {}};
  return {graph::ActivationOp::create(emit, gates.getType(), graph::Activation::Relu, gates), {}};
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
  length = x[batchFirst ? 1 : 0];
  batch = x[batchFirst ? 0 : 1];
  if (numLayers < 1 || numLayers > int64_t(weights.size()) ||
      int64_t(weights.size()) != numLayers * numDirections * (hasBiases ? 4 : 2))
    return node.error() << "is supported without projections only";
  if (weights[1].rank() != 2)
    return node.error() << "has a weight of a shape that does not fit: "
                        << listed(weights[1].shape());
  hidden = weights[1].shape()[1];
  constexpr int64_t kOpsOfStep = 24;
  if (failed(node.checkShape({kOpsOfStep, length, numLayers, numDirections})))
    return failure();
  return node.chargeNodes(kOpsOfStep * length * numLayers * numDirections);
}

/// The argument hx: a tensor, of LSTM two of them.
FailureOr<std::vector<Tensor>> Recurrence::givenStates(const Shape &shape) {
  std::vector<Tensor> given;
  if (kind == Cell::Lstm) {
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
  if (given.size() != (kind == Cell::Lstm ? 2 : 1))
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
    states.push_back({part(given->front()), kind == Cell::Lstm ? part(given->back()) : Value()});
  }
  return success();
}

/// The outputs of all positions, in the layout of the input.
Value Recurrence::runDirection(const CellWeights &cell, Value x, bool reverse, State &state) {
  const int64_t time = batchFirst ? 1 : 0;
  Value inputs = inputsOf(cell, x);
  std::vector<Tensor> outputs(length);
  for (int64_t n = 0; n < length; ++n) {
    const int64_t at = reverse ? length - 1 - n : n;
    Value now = reshape(emit, sliceDim(emit, inputs, time, at, 1), {batch, numGates() * hidden});
    state = step(cell, now, state);
    const Shape single = batchFirst ? Shape{batch, 1, hidden} : Shape{1, batch, hidden};
    outputs[at] = Tensor(reshape(emit, state.hidden, single));
  }
  auto all = concatTensors(node, outputs, time);
  return failed(all) ? Value() : node.value(*all);
}

LogicalResult Recurrence::runLayer(int64_t layer, Value &x) {
  const int64_t each = hasBiases ? 4 : 2, width = tensorType(x).getDimSize(2);
  std::vector<Tensor> outputs;
  for (int64_t d = 0; d < numDirections; ++d) {
    const int64_t at = layer * numDirections + d;
    auto cell = weightsOf(ArrayRef(weights).slice(at * each, each), width);
    if (failed(cell))
      return failure();
    Value output = runDirection(*cell, x, d == 1, states[at]);
    if (!output)
      return failure();
    outputs.push_back(Tensor(output));
  }
  auto joined = concatTensors(node, outputs, 2);
  if (succeeded(joined) && dropped > 0 && layer + 1 < numLayers)
    joined = dropout(node, *joined, dropped);
  if (failed(joined))
    return failure();
  x = node.value(*joined);
  return success();
}

LogicalResult Recurrence::runLayers() {
  if (failed(readLayers()) || failed(readStates()))
    return failure();
  Value x = node.value(*node.tensor("input"));
  for (int64_t layer = 0; layer < numLayers; ++layer)
    if (failed(runLayer(layer, x)))
      return failure();
  auto stacked = [&](Value State::*part) {
    std::vector<Tensor> all;
    for (const State &state : states)
      all.push_back(Tensor(reshape(emit, state.*part, {1, batch, hidden})));
    return concatTensors(node, all, 0);
  };
  auto last = stacked(&State::hidden);
  if (failed(last) || failed(node.define(0, x)) || failed(node.define(1, *last)))
    return failure();
  if (kind != Cell::Lstm)
    return success();
  auto cells = stacked(&State::cell);
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
  auto cell = weightsOf(weights, input->shape()[1]);
  auto before = givenStates({batch, hidden});
  if (failed(cell) || failed(before))
    return failure();
  State state{node.value(before->front()),
              kind == Cell::Lstm ? node.value(before->back()) : Value()};
  state = step(*cell, inputsOf(*cell, node.value(*input)), state);
  if (failed(node.define(0, state.hidden)))
    return failure();
  return kind == Cell::Lstm ? node.define(1, state.cell) : success();
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
