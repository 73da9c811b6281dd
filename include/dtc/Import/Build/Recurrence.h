// LSTM, GRU and RNN: what a step computes, and one copy of it for each position of a sequence.
//
// What the inputs add to the gates is one product for all positions; only that of the state is made
// step by step. Of each gate, x is the one and s the other, biases included:
//
//     RNN     h = f(x + s)
//     GRU     z, r = f(x + s);  n = g(x + r * s);  h = n + z * (h - n)
//     LSTM    i, f, o = f(x + s);  c = f * c + i * g(x + s);  h = o * h(c)
#pragma once

#include "dtc/Import/Build/Conversion.h"

namespace dtc::import {

enum class CellKind { Rnn, Gru, Lstm };
enum class CellActivation { Sigmoid, Tanh, Relu, Softsign };

int64_t numGates(CellKind kind);

/// Where gates lie among the rows of the weights, which files order differently. That of a GRU's
/// new state is always the third.
struct GateOrder {
  int64_t input, forget, fresh, output; ///< of LSTM; fresh: what the input gate lets in
  int64_t update, reset;                ///< of GRU
};

struct RecurrentCell {
  CellKind kind;
  GateOrder order;
  std::vector<CellActivation> activations; ///< f, g and h above; a cell reads its own
  mlir::Value input, recurrent;            ///< [gates * hidden, width], [gates * hidden, hidden]
  mlir::Value inputBias, recurrentBias;    ///< [gates * hidden], or null
  mlir::Value peepholes = {}; ///< of LSTM: what gates see of the cell, in their order; may be null
  bool resetsProduct = true;  ///< of GRU: as above; else the state is reset before its product
  double clip = 0;            ///< largest magnitude before an activation; 0: any
};

struct CellState {
  mlir::Value hidden, cell; ///< [batch, hidden]; the cell's of LSTM alone
};

/// One step, of x [batch, width].
CellState stepCell(Conversion &node, const RecurrentCell &cell, mlir::Value x,
                   const CellState &state);

/// The way through a sequence.
struct SequenceWalk {
  bool batchFirst;              ///< of x: samples, positions, numbers; else positions first
  bool reverse;                 ///< from the last position on
  std::optional<Shape> lengths; ///< of samples, where some are shorter
};

/// The hidden states at all positions of x, in its layout; zeros behind the end of a sample.
/// `state` becomes the last one of each sample.
llvm::FailureOr<Tensor> unrollCell(Conversion &node, const RecurrentCell &cell, const Tensor &x,
                                   const SequenceWalk &walk, CellState &state);

} // namespace dtc::import
