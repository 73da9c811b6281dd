// RNN, GRU and LSTM: one copy of the cell for each position of the sequence.
//
// What the inputs add to the gates is one product for all positions; only that of the state is
// made step by step. Lengths of samples must be known while compiling.
#include "GraphBuilder.h"
#include "ReverseSequence.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Import/Build/Elementwise.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Unsupported.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace dtc::import {

using graph::TensorBuilder;

namespace {
enum class Cell { Rnn, Gru, Lstm };

/// What one direction goes through.
struct Direction {
  int64_t index;
  bool reverse;
};

struct State {
  Value hidden, cell; ///< [batch, hidden]; the cell's of LSTM alone
};

class Recurrence {
public:
  explicit Recurrence(NodeConverter &node)
      : node(node), emit(node.emit), b(node.emit, node.emit.getLoc()),
        cell(llvm::StringSwitch<Cell>(node.op())
                 .Case("LSTM", Cell::Lstm)
                 .Case("GRU", Cell::Gru)
                 .Default(Cell::Rnn)) {}

  LogicalResult run();

private:
  int64_t numGates() const { return cell == Cell::Lstm ? 4 : cell == Cell::Gru ? 3 : 1; }
  LogicalResult readSizes();
  LogicalResult readActivations();
  LogicalResult readLengths();
  bool hasShape(int index, const Shape &shape) const {
    return !node.has(index) || node.input(index).shape() == shape;
  }
  /// A direction's part of an input with directions first, without that dimension.
  Value ofDirection(int index, int64_t direction);
  FailureOr<Tensor> runDirection(const Direction &direction, State &state);
  State step(const Direction &direction, Value inputs, const State &state);
  State stepLstm(Value gates, const State &state);
  Value stepGru(Value inputs, Value hidden);

  /// The g-th of the gates in [batch, gates * hidden].
  Value gate(Value gates, int64_t g, int64_t count = 1) {
    return sliceDim(emit, gates, tensorType(gates).getRank() - 1, g * hidden, count * hidden);
  }
  Value row(Value vector, int64_t g, int64_t count = 1) {
    return broadcastTo(emit, gate(vector, g, count), {batch, count * hidden});
  }
  /// state [batch, hidden] times the rows of the recurrent weights of some gates.
  Value recurrent(Value state, int64_t g, int64_t count) {
    Value rows = sliceDim(emit, weights, 0, g * hidden, count * hidden);
    return contract(emit, state, {0, 2}, rows, {1, 2}, {0, 1});
  }
  Value activate(int64_t number, Value x);

  NodeConverter &node;
  Emitter &emit;
  TensorBuilder b;
  Cell cell;
  bool batchFirst = false;
  int64_t length = 0, batch = 0, width = 0, hidden = 0, numDirections = 1;
  std::vector<Direction> directions;
  std::vector<std::string> activations;
  std::optional<Shape> lengths; ///< where some are shorter

  // Of the direction at hand.
  Value weights, bias, peepholes;
  int64_t firstActivation = 0;
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
  const int64_t rows = numGates() * hidden;
  const Shape state =
      batchFirst ? Shape{batch, numDirections, hidden} : Shape{numDirections, batch, hidden};
  if (w != Shape{numDirections, rows, width} || r != Shape{numDirections, rows, hidden} ||
      !hasShape(3, {numDirections, 2 * rows}) || !hasShape(5, state) ||
      (cell == Cell::Lstm && (!hasShape(6, state) || !hasShape(7, {numDirections, 3 * hidden}))))
    return node.error() << "operands of shapes that do not fit";
  if (node.attrInt("input_forget", 0))
    return node.error() << "is supported with gates of their own only (input_forget=0)";
  return success();
}

LogicalResult Recurrence::readActivations() {
  static const std::vector<std::string> kDefaults[] = {
      {"Tanh"}, {"Sigmoid", "Tanh"}, {"Sigmoid", "Tanh", "Tanh"}};
  if (const auto *given = node.attribute("activations"))
    activations.assign(given->strings().begin(), given->strings().end());
  if (node.attribute("activation_alpha") || node.attribute("activation_beta"))
    return node.error() << "is supported without activation_alpha and activation_beta only";
  const auto &byDefault = kDefaults[int(cell)];
  while (activations.size() < byDefault.size() * size_t(numDirections) &&
         activations.size() % byDefault.size() == 0)
    activations.insert(activations.end(), byDefault.begin(), byDefault.end());
  if (activations.size() != byDefault.size() * size_t(numDirections))
    return node.error() << "has a bad number of activations: " << activations.size();
  for (const std::string &name : activations)
    if (name != "Tanh" && name != "Sigmoid" && name != "Relu" && name != "Softsign")
      return unsupported(node.error()) << "has an unsupported activation: " << name;
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

Value Recurrence::activate(int64_t number, Value x) {
  const double clip = node.attrFloat("clip", 0);
  if (clip > 0)
    x = b.minimum(b.maximum(x, b.constantLike(x, -clip)), b.constantLike(x, clip));
  const std::string &name = activations[firstActivation + number];
  if (name == "Tanh")
    return b.unary<math::TanhOp>(x);
  if (name == "Softsign")
    return b.div(x, b.offset(b.unary<math::AbsFOp>(x), 1));
  auto kind = name == "Relu" ? graph::Activation::Relu : graph::Activation::Sigmoid;
  return graph::ActivationOp::create(emit, x.getType(), kind, x);
}

/// Gates in the order input, output, forget, cell; peepholes as input, output, forget.
State Recurrence::stepLstm(Value gates, const State &state) {
  auto peep = [&](Value x, int64_t g, Value cells) {
    return peepholes ? b.add(x, b.mul(row(peepholes, g), cells)) : x;
  };
  Value in = activate(0, peep(gate(gates, 0), 0, state.cell));
  Value forget = activate(0, peep(gate(gates, 2), 2, state.cell));
  Value fresh = activate(1, gate(gates, 3));
  Value cells = b.add(b.mul(forget, state.cell), b.mul(in, fresh));
  Value out = activate(0, peep(gate(gates, 1), 1, cells));
  return {b.mul(out, activate(2, cells)), cells};
}

/// Gates in the order update, reset, hidden; the bias of the state's product is in `bias`.
Value Recurrence::stepGru(Value inputs, Value state) {
  Value both = b.add(gate(inputs, 0, 2), recurrent(state, 0, 2));
  if (bias)
    both = b.add(both, row(bias, 0, 2));
  both = activate(0, both);
  Value update = gate(both, 0), reset = gate(both, 1), term;
  if (node.attrInt("linear_before_reset", 0)) {
    term = recurrent(state, 2, 1);
    if (bias)
      term = b.add(term, row(bias, 2));
    term = b.mul(reset, term);
  } else {
    term = recurrent(b.mul(reset, state), 2, 1);
    if (bias)
      term = b.add(term, row(bias, 2));
  }
  Value fresh = activate(1, b.add(gate(inputs, 2), term));
  return b.add(fresh, b.mul(update, b.sub(state, fresh)));
}

State Recurrence::step(const Direction &direction, Value inputs, const State &state) {
  firstActivation = direction.index * (activations.size() / numDirections);
  if (cell == Cell::Gru)
    return {stepGru(inputs, state.hidden), {}};
  Value gates = b.add(inputs, recurrent(state.hidden, 0, numGates()));
  if (bias)
    gates = b.add(gates, row(bias, 0, numGates()));
  if (cell == Cell::Lstm)
    return stepLstm(gates, state);
  return {activate(0, gates), {}};
}

/// The outputs of all positions as [length, 1, batch, hidden], and the last state.
FailureOr<Tensor> Recurrence::runDirection(const Direction &direction, State &state) {
  weights = ofDirection(2, direction.index);
  bias = peepholes = {};
  Tensor x = node.input(0);
  if (batchFirst)
    x = transposeTensor(node, x, {1, 0, 2});
  if (direction.reverse && lengths) {
    auto reversed = reverseSequence(node, x, 0, 1, *lengths);
    if (failed(reversed))
      return failure();
    x = *reversed;
  }
  Value inputs =
      contract(emit, node.value(x), {0, 1, 3}, ofDirection(1, direction.index), {2, 3}, {0, 1, 2});
  const int64_t rows = numGates() * hidden;
  if (node.has(3)) {
    Value both = ofDirection(3, direction.index);
    inputs =
        b.add(inputs, broadcastTo(emit, sliceDim(emit, both, 0, 0, rows), {length, batch, rows}));
    bias = sliceDim(emit, both, 0, rows, rows);
  }
  if (cell == Cell::Lstm && node.has(7))
    peepholes = ofDirection(7, direction.index);
  std::vector<Tensor> outputs(length);
  for (int64_t n = 0; n < length; ++n) {
    const int64_t at = direction.reverse && !lengths ? length - 1 - n : n;
    Value now = reshape(emit, sliceDim(emit, inputs, 0, at, 1), {batch, rows});
    State next = step(direction, now, state);
    Value output = next.hidden;
    if (lengths) {
      std::vector<int64_t> goesOn;
      for (int64_t each : *lengths)
        goesOn.push_back(n < each);
      Host mask = HostTensor::ofInts(emit.getI1Type(), {batch, 1}, std::move(goesOn));
      Value runs = node.valueAs(Tensor(mask), {batch, hidden});
      output = b.selectOr(runs, next.hidden, 0.0);
      next.hidden = b.select(runs, next.hidden, state.hidden);
      if (next.cell)
        next.cell = b.select(runs, next.cell, state.cell);
    }
    state = next;
    outputs[at] = Tensor(reshape(emit, output, {1, 1, batch, hidden}));
  }
  auto all = concatTensors(node, outputs, 0);
  if (failed(all) || !direction.reverse || !lengths)
    return all;
  return reverseSequence(node, *all, 0, 2, *lengths);
}

LogicalResult Recurrence::run() {
  constexpr int64_t kOpsOfStep = 24;
  if (failed(readSizes()) || failed(readActivations()) || failed(readLengths()) ||
      failed(node.chargeNodes(kOpsOfStep * length * numDirections)))
    return failure();
  SmallVector<Tensor> sequences, hiddens, cells;
  for (const Direction &direction : directions) {
    auto initial = [&](int index) -> Value {
      auto type = RankedTensorType::get({batch, hidden}, node.input(0).element());
      if (!node.has(index))
        return splat(emit, type, 0);
      const int64_t dim = batchFirst ? 1 : 0;
      return reshape(emit, sliceDim(emit, node.value(index), dim, direction.index, 1),
                     {batch, hidden});
    };
    State state{initial(5), cell == Cell::Lstm ? initial(6) : Value()};
    auto outputs = runDirection(direction, state);
    if (failed(outputs))
      return failure();
    sequences.push_back(*outputs);
    const Shape single = batchFirst ? Shape{batch, 1, hidden} : Shape{1, batch, hidden};
    hiddens.push_back(Tensor(reshape(emit, state.hidden, single)));
    if (state.cell)
      cells.push_back(Tensor(reshape(emit, state.cell, single)));
  }
  auto all = concatTensors(node, sequences, 1);
  auto last = concatTensors(node, hiddens, batchFirst ? 1 : 0);
  if (failed(all) || failed(last))
    return failure();
  if (batchFirst)
    all = transposeTensor(node, *all, {2, 0, 1, 3});
  if (failed(node.define(0, *all)) || failed(node.define(1, *last)))
    return failure();
  if (cells.empty())
    return success();
  auto lastCells = concatTensors(node, cells, batchFirst ? 1 : 0);
  return failed(lastCells) ? failure() : node.define(2, *lastCells);
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

FailureOr<Tensor> reverseSequence(Conversion &node, const Tensor &tensor, int64_t time,
                                  int64_t batch, ArrayRef<int64_t> lengths) {
  const Shape shape = tensor.shape();
  if (time == batch || int64_t(lengths.size()) != shape[batch])
    return LogicalResult(node.error() << "needs one length for each sample, beside the time");
  SmallVector<Tensor> samples;
  for (auto [i, length] : llvm::enumerate(lengths)) {
    if (length < 0 || length > shape[time])
      return LogicalResult(node.error() << "has a bad length of a sample: " << length);
    if (failed(node.chargeNodes(length + 3)))
      return failure();
    Tensor sample = sliceTensor(node, tensor, batch, i, 1);
    if (length > 1) {
      SmallVector<Tensor> parts = {sliceTensor(node, sample, time, length - 1, length, -1)};
      if (length < shape[time])
        parts.push_back(sliceTensor(node, sample, time, length, shape[time] - length));
      auto joined = concatTensors(node, parts, time);
      if (failed(joined))
        return failure();
      sample = *joined;
    }
    samples.push_back(sample);
  }
  return concatTensors(node, samples, batch);
}

void addRecurrentConverters(ConverterTable &table) {
  for (const char *op : {"RNN", "GRU", "LSTM"})
    table[op] = {convertRecurrent, 3};
  table["ReverseSequence"] = {convertReverseSequence, 2};
}

} // namespace dtc::import
