// Attention of the emulated cuDNN: the graphs that its engines of flash attention know.
//
// Such a graph is computed operation by operation, and each result is rounded to its type. One
// whose operations are others, or in another order, has no engine.
#pragma once

#include "Emulator/Cudnn/Operation.h"
#include "dtc-cuda/Cudnn.h"

#include <set>

namespace dtc::emulator {

/// An operation of a graph.
struct GraphStep {
  enum class Kind { Pointwise, Product, Reduction, Reshape };

  Kind kind = Kind::Pointwise;
  cuda::cudnnPointwiseMode_t mode = cuda::CUDNN_POINTWISE_ADD;
  cuda::cudnnReduceTensorOp_t reduction = cuda::CUDNN_REDUCE_TENSOR_ADD;
  int64_t axis = 0; ///< of indices
  std::vector<CudnnTensor> inputs;
  CudnnTensor output;

  std::string name() const;
  /// Throws a Fault where the shapes contradict each other.
  void check() const;
};

struct AttentionGraph : CudnnOperation {
  std::vector<GraphStep> steps;

  /// Throws a Fault where the steps don't fit together, or cuDNN has no engine for them.
  void check() const;

  std::vector<CudnnTensor> tensors() const override;
  uint64_t workspaceBytes() const override;
  std::string text() const override;
  void checkNumbers(const CudnnCall &call) const override;
  Accesses run(const CudnnCall &call, const DeviceMemory &memory) const override;

private:
  /// Tensors that operations make, by id.
  std::set<int64_t> made() const;
  /// Tensors that are added to scores, by id.
  std::set<int64_t> biases() const;
  std::string names() const;
  void checkOperand(const CudnnTensor &tensor) const;
  void checkBias(const CudnnTensor &tensor) const;
};

} // namespace dtc::emulator
