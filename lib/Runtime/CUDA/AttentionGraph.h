// Attention as cuDNN is told of it: products, a softmax and what their gradients take, operation by
// operation. Its engines of flash attention know this graph, and carry it out as one kernel.
//
//   forward    s = scale * q k^T + bias, masked     stats = max s + log sum exp (s - max s)
//              o = exp (s - max s) / sum * v
//   backward   p = exp (scale * q k^T + bias - stats), masked    dv = p^T do
//              ds = p * (do v^T - sum do * o) * scale        dk = ds^T q      dq = ds k
//
// What goes from one operation to another lies in no memory. But the gradients of queries are
// summed up in fp32, and so are the products of a row: these lie in the workspace.
#pragma once

#include "CudnnPlan.h"

#include "dtc-rt/Device.h"

#include <limits>

namespace dtc::rt::cuda {

class AttentionGraph {
public:
  AttentionGraph(CudnnPlan &plan, const AttentionCall &call);
  AttentionGraph(const AttentionGraph &) = delete;
  AttentionGraph &operator=(const AttentionGraph &) = delete;

  /// Describes the call, and takes an engine that needs no more workspace than is given, beside
  /// what the graph itself has there.
  Status make(uint64_t workspaceBytes);
  /// Tensors lie at the first of the addresses, the workspace at the one behind them.
  Status execute(std::span<const Address> addresses, Address workspace, CUstream stream);

private:
  /// Where a dimension of attention is in the shapes of cuDNN's tensors.
  struct Sizes {
    int64_t batch, heads, keyHeads, queries, keys, width, valueWidth;
  };

  Descriptor *operand(size_t number, bool isTransposed = false);
  Descriptor *number(int64_t id, cudnnDataType_t type, void *value);
  /// Dense, unless strides are given.
  Descriptor *between(cudnnDataType_t type, const Dims &shape, Dims strides = {});
  /// A dense tensor of fp32 in the workspace.
  Descriptor *sum(int64_t id, const Dims &shape);

  Descriptor *pointwise(cudnnPointwiseMode_t mode, std::vector<Descriptor *> inputs,
                        Descriptor *output, cudnnDataType_t precision = CUDNN_DATA_FLOAT,
                        int64_t axis = -1);
  Descriptor *multiply(Descriptor *a, Descriptor *b, Descriptor *output);
  Descriptor *reduce(cudnnReduceTensorOp_t op, Descriptor *input, Descriptor *output);
  Descriptor *reshape(Descriptor *input, Descriptor *output);

  /// A matrix of scores turned over, in the type of the operands.
  Descriptor *turned(Descriptor *scores);
  Status checkBias() const;
  /// The scaled product of queries and keys, with the bias where there is one.
  Descriptor *biasedScores(Descriptor *query, Descriptor *key, Descriptor *factor);
  /// Keeps scores of keys up to the diagonal, which ends where queries and keys end, and of these
  /// those in the window.
  Descriptor *mask(Descriptor *scores);
  Descriptor *windowMask(Descriptor *scores);
  /// The number of the row (2) or column (3) of each score.
  Descriptor *index(Descriptor *scores, int64_t axis);
  /// Keeps scores where the comparison of two numbers holds.
  Descriptor *where(cudnnPointwiseMode_t comparison, Descriptor *a, Descriptor *b,
                    Descriptor *scores, int64_t fillId);
  /// The product of scores and an operand, added up over the heads that share a gradient.
  void keyGradient(Descriptor *scores, Descriptor *operand, size_t gradient, int64_t width);
  void describeForward();
  void describeBackward();

  /// Ends a description: its operations are added to the graph, or its failure is kept.
  void add(Descriptor &operation);
  Descriptor *keep(Result<Descriptor *> made);

  CudnnPlan &plan;
  AttentionCall call;
  Sizes sizes;
  Dims scores, rows; ///< shapes
  cudnnDataType_t type = CUDNN_DATA_BFLOAT16;
  float scale, fill = -std::numeric_limits<float>::infinity(), one = 1, window = 0;
  int32_t queries, keys;
  Status status = Status::ok();
  std::vector<Descriptor *> operations;
  std::vector<std::pair<int64_t, void *>> numbers; ///< of the host, by id
  std::vector<std::pair<int64_t, uint64_t>> sums;  ///< where each is in the workspace, by id
  uint64_t sumBytes = 0;
  int64_t nextId;
};

} // namespace dtc::rt::cuda
