// Attention by cuDNN, forward and backward, each as one operation.
#include "AttentionGraph.h"
#include "CudaOperations.h"

namespace dtc::rt::cuda {
namespace {

/// Older ones need a mask of padding for some lengths, and another number in the place of minus
/// infinity.
constexpr size_t kLeastVersion = 91600;

class AttentionOperation : public Operation {
public:
  AttentionOperation(CudaQueue &queue, Networks &library, const AttentionSpec &spec)
      : queue(queue), workspaceBytes(workspaceIn(spec.scratchBytes)),
        tensors(spec.call.tensors.size()), plan(library.calls(), library.handle()),
        graph(plan, spec.call) {}

  Status prepare() {
    Status made = graph.make(workspaceBytes);
    if (made.category() == ErrorCategory::NoFit)
      return {ErrorCategory::NoFit, "cuDNN has no such attention for " + queue.gpu.name() +
                                        " within " + std::to_string(workspaceBytes) +
                                        " bytes of workspace"};
    return made;
  }

  Status issue(std::span<const Address> addresses) override {
    Address workspace = workspaceBytes ? alignWorkspace(addresses[tensors]) : nullptr;
    return queue.note(graph.execute(addresses, workspace, queue.stream));
  }

private:
  CudaQueue &queue;
  uint64_t workspaceBytes;
  size_t tensors;
  CudnnPlan plan;
  AttentionGraph graph;
};

} // namespace

MadeOperation makeAttention(CudaQueue &queue, const AttentionSpec &spec, Networks &networks) {
  DTC_CUDA_TRY(networks.open());
  if (size_t version = networks.calls().cudnnGetVersion(); version < kLeastVersion)
    return Status(ErrorCategory::NoFit,
                  "attention needs cuDNN 9.16 or newer, got: " + std::to_string(version / 10000) +
                      "." + std::to_string(version / 100 % 100) +
                      "; pip install --upgrade nvidia-cudnn-cu13");
  auto operation = std::make_unique<AttentionOperation>(queue, networks, spec);
  DTC_CUDA_TRY(operation->prepare());
  return std::unique_ptr<Operation>(std::move(operation));
}

} // namespace dtc::rt::cuda
