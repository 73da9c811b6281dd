// How cuDNN carries out operations: the graph that says what is computed, and the plan of the
// engine that was chosen for it.
//
//   CudnnPlan plan(cudnn, context);
//   ... describe an operation by plan.add and plan.addTensor ...
//   Status status = plan.make({&operation}, CUDNN_DATA_BFLOAT16, workspaceBytes);
//   status = plan.execute(ids, pointers, workspace, stream);
#pragma once

#include "CudnnDescriptor.h"

#include "dtc-rt/Program/TensorCalls.h"

#include <optional>

namespace dtc::rt::cuda {

/// Of a dense tensor.
Dims stridesOf(const Dims &shape);

/// None for what cuDNN doesn't compute with.
std::optional<cudnnDataType_t> cudnnTypeOf(fbs::DType dtype);

class CudnnPlan {
public:
  CudnnPlan(const Cudnn &library, cudnnHandle_t context) : cudnn(&library), context(context) {}

  /// A descriptor that lives as long as the plan.
  Descriptor &add(cudnnBackendDescriptorType_t kind);
  /// A tensor at addresses of this alignment; 0: that of its elements.
  Result<Descriptor *> addTensor(int64_t id, const StridedTensor &strided, int64_t alignment);
  /// One element in the memory of the host, which is read when the plan is executed.
  Result<Descriptor *> addHostNumber(int64_t id, cudnnDataType_t type, size_t rank);
  /// What lies in no memory: it goes from one operation of a graph to another.
  Result<Descriptor *> addVirtual(int64_t id, cudnnDataType_t type, const Dims &shape,
                                  const Dims &strides);

  /// Takes the first engine that computes in `type` what the graph says, with the same bits
  /// every time, and within the workspace. With `tf32` it may round operands of fp32 to TF32. Has
  /// ErrorCategory::NoFit where there is none.
  Status make(const std::vector<Descriptor *> &operations, cudnnDataType_t type,
              uint64_t workspaceBytes, bool tf32 = false);

  Status execute(const std::vector<int64_t> &ids, std::span<void *const> pointers, void *workspace,
                 CUstream stream) const;

private:
  /// What an engine has to keep to.
  struct Limits {
    cudnnDataType_t type;
    uint64_t workspaceBytes;
    bool tf32;
  };
  static bool isFaithful(const std::vector<cudnnBackendNumericalNote_t> &notes,
                         const Limits &limits);
  Status findEngine(const Descriptor &graph, cudnnBackendHeurMode_t mode, const Limits &limits);
  Status tryEngine(const Descriptor &configuration, const Limits &limits);

  const Cudnn *cudnn;
  cudnnHandle_t context;
  std::vector<std::unique_ptr<Descriptor>> parts;
  std::unique_ptr<Descriptor> plan; ///< null where there is none yet
};

} // namespace dtc::rt::cuda
