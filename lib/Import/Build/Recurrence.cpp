#include "dtc/Import/Build/Recurrence.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Import/Build/Movement.h"

using namespace mlir;

namespace dtc::import {

using graph::TensorBuilder;

int64_t numGates(CellKind kind) {
  return kind == CellKind::Lstm ? 4 : kind == CellKind::Gru ? 3 : 1;
}

namespace {

/// A step of a cell from one state.
class Step {
public:
  Step(Emitter &emit, const RecurrentCell &cell, const CellState &state)
      : emit(emit), b(emit, emit.getLoc()), cell(cell), state(state),
        batch(tensorType(state.hidden).getDimSize(0)),
        hidden(tensorType(state.hidden).getDimSize(1)) {}

  CellState from(Value inputs) {
    switch (cell.kind) {
    case CellKind::Rnn:
      return {activate(0, b.add(inputs, recurrent(state.hidden, 0, 1))), {}};
    case CellKind::Gru:
      return {gru(inputs), {}};
    case CellKind::Lstm:
      return lstm(b.add(inputs, recurrent(state.hidden, 0, 4)));
    }
    llvm_unreachable("a kind of cells");
  }

private:
  Value gru(Value inputs) {
    Value both = activate(0, b.add(gate(inputs, 0, 2), recurrent(state.hidden, 0, 2)));
    Value reset = gate(both, cell.order.reset);
    Value term = cell.resetsProduct ? b.mul(reset, recurrent(state.hidden, 2, 1))
                                    : recurrent(b.mul(reset, state.hidden), 2, 1);
    Value fresh = activate(1, b.add(gate(inputs, 2), term));
    return b.add(fresh, b.mul(gate(both, cell.order.update), b.sub(state.hidden, fresh)));
  }

  CellState lstm(Value gates) {
    auto open = [&](int64_t g, Value cells) { // what a gate lets through
      Value x = gate(gates, g);
      return activate(0, cell.peepholes ? b.add(x, b.mul(row(cell.peepholes, g), cells)) : x);
    };
    Value in = open(cell.order.input, state.cell), forget = open(cell.order.forget, state.cell);
    Value fresh = activate(1, gate(gates, cell.order.fresh));
    Value cells = b.add(b.mul(forget, state.cell), b.mul(in, fresh));
    Value out = open(cell.order.output, cells);
    return {b.mul(out, activate(2, cells)), cells};
  }

  /// The g-th of the gates, and some behind it, in [.., gates * hidden].
  Value gate(Value gates, int64_t g, int64_t count = 1) {
    return sliceDim(emit, gates, tensorType(gates).getRank() - 1, g * hidden, count * hidden);
  }
  Value row(Value vector, int64_t g, int64_t count = 1) {
    return broadcastTo(emit, gate(vector, g, count), {batch, count * hidden});
  }
  /// What a state [batch, hidden] adds to some gates.
  Value recurrent(Value of, int64_t g, int64_t count) {
    Value rows = sliceDim(emit, cell.recurrent, 0, g * hidden, count * hidden);
    Value result = contract(emit, of, {0, 2}, rows, {1, 2}, {0, 1});
    return cell.recurrentBias ? b.add(result, row(cell.recurrentBias, g, count)) : result;
  }

  Value activate(int64_t number, Value x) {
    auto named = [&](graph::Activation kind) -> Value {
      return graph::ActivationOp::create(emit, x.getType(), kind, x);
    };
    if (cell.clip > 0)
      x = b.minimum(b.maximum(x, b.constantLike(x, -cell.clip)), b.constantLike(x, cell.clip));
    switch (cell.activations[number]) {
    case CellActivation::Sigmoid:
      return named(graph::Activation::Sigmoid);
    case CellActivation::Relu:
      return named(graph::Activation::Relu);
    case CellActivation::Tanh:
      return b.unary<math::TanhOp>(x);
    case CellActivation::Softsign:
      return b.div(x, b.offset(b.unary<math::AbsFOp>(x), 1));
    }
    llvm_unreachable("an activation of cells");
  }

  Emitter &emit;
  TensorBuilder b;
  const RecurrentCell &cell;
  const CellState &state;
  int64_t batch, hidden;
};

} // namespace

/// What x [.., width] adds to the gates.
static Value inputTerms(Emitter &emit, const RecurrentCell &cell, Value x) {
  const int64_t rank = tensorType(x).getRank();
  Shape indices = llvm::to_vector(llvm::seq<int64_t>(rank - 1)), result = indices;
  indices.push_back(rank);
  result.push_back(rank - 1);
  Value terms = contract(emit, x, indices, cell.input, {rank - 1, rank}, result);
  if (!cell.inputBias)
    return terms;
  return TensorBuilder(emit, emit.getLoc())
      .add(terms, broadcastTo(emit, cell.inputBias, tensorType(terms).getShape()));
}

CellState stepCell(Conversion &node, const RecurrentCell &cell, Value x, const CellState &state) {
  return Step(node.emit, cell, state).from(inputTerms(node.emit, cell, x));
}

/// Samples that have ended keep their state.
static CellState whereGoingOn(Conversion &node, Value goesOn, const CellState &next,
                              const CellState &before) {
  TensorBuilder b(node.emit, node.emit.getLoc());
  return {b.select(goesOn, next.hidden, before.hidden),
          next.cell ? b.select(goesOn, next.cell, before.cell) : Value()};
}

/// Whether each sample has a position, in the shape of a state.
static Value goesOnAt(Conversion &node, int64_t position, const Shape &lengths,
                      const CellState &state) {
  std::vector<int64_t> goesOn;
  for (int64_t each : lengths)
    goesOn.push_back(position < each);
  Host mask =
      HostTensor::ofInts(node.emit.getI1Type(), {int64_t(lengths.size()), 1}, std::move(goesOn));
  return node.valueAs(Tensor(mask), tensorType(state.hidden).getShape());
}

FailureOr<Tensor> unrollCell(Conversion &node, const RecurrentCell &cell, const Tensor &x,
                             const SequenceWalk &walk, CellState &state) {
  constexpr int64_t kOpsOfStep = 24;
  const int64_t time = walk.batchFirst ? 1 : 0, length = x.shape()[time];
  if (failed(node.checkShape({kOpsOfStep, length})) ||
      failed(node.chargeNodes(kOpsOfStep * length)))
    return failure();
  Emitter &emit = node.emit;
  // Samples of different lengths have their last positions at different places.
  const bool isTurned = walk.reverse && walk.lengths;
  auto turned = [&](const Tensor &tensor) -> FailureOr<Tensor> {
    return isTurned ? reverseSequence(node, tensor, time, 1 - time, *walk.lengths) : tensor;
  };
  auto sequence = turned(x);
  if (failed(sequence))
    return failure();
  Value terms = inputTerms(emit, cell, node.value(*sequence));
  const Shape single(tensorType(state.hidden).getShape());
  Shape each = single;
  each.insert(each.begin() + time, 1);
  std::vector<Tensor> outputs(length);
  for (int64_t n = 0; n < length; ++n) {
    const int64_t at = walk.reverse && !isTurned ? length - 1 - n : n;
    Value now = reshape(emit, sliceDim(emit, terms, time, at, 1),
                        {single[0], numGates(cell.kind) * single[1]});
    CellState next = Step(emit, cell, state).from(now);
    Value output = next.hidden;
    if (walk.lengths) {
      Value goesOn = goesOnAt(node, n, *walk.lengths, state);
      output = TensorBuilder(emit, emit.getLoc()).selectOr(goesOn, output, 0.0);
      next = whereGoingOn(node, goesOn, next, state);
    }
    state = next;
    outputs[at] = Tensor(reshape(emit, output, each));
  }
  auto all = concatTensors(node, outputs, time);
  return failed(all) ? all : turned(*all);
}

} // namespace dtc::import
