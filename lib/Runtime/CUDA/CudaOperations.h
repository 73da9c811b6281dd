// Makes the operations of a rank on its GPU, by kind.
#pragma once

#include "CudaQueue.h"
#include "KernelModule.h"

namespace dtc::rt::cuda {

using MadeOperation = Result<std::unique_ptr<Operation>>;

/// cuBLASLt for one GPU, made when a product first needs it.
class Products {
public:
  explicit Products(LoadedOnce<CublasLt> &loader) : loader(loader) {}
  Products(const Products &) = delete;
  Products &operator=(const Products &) = delete;
  ~Products();

  Status open();
  const CublasLt &calls() const { return *table; }
  cublasLtHandle_t handle() const { return context; }

private:
  LoadedOnce<CublasLt> &loader;
  const CublasLt *table = nullptr;
  cublasLtHandle_t context = nullptr;
};

/// cuDNN for one GPU, made when a convolution first needs it.
class Convolutions {
public:
  explicit Convolutions(LoadedOnce<Cudnn> &loader) : loader(loader) {}
  Convolutions(const Convolutions &) = delete;
  Convolutions &operator=(const Convolutions &) = delete;
  ~Convolutions();

  Status open();
  const Cudnn &calls() const { return *table; }
  cudnnHandle_t handle() const { return context; }

private:
  LoadedOnce<Cudnn> &loader;
  const Cudnn *table = nullptr;
  cudnnHandle_t context = nullptr;
};

/// Libraries take a workspace at a multiple of 256 bytes; the arena's scratch may lie elsewhere.
inline constexpr uint64_t kWorkspaceAlignment = 256;
inline uint64_t workspaceIn(uint64_t scratchBytes) {
  return scratchBytes > kWorkspaceAlignment ? scratchBytes - kWorkspaceAlignment : 0;
}
inline Address alignWorkspace(Address scratch) {
  uint64_t beyond = pointerOf(scratch) % kWorkspaceAlignment;
  return beyond ? scratch + (kWorkspaceAlignment - beyond) : scratch;
}

MadeOperation makeLaunch(CudaQueue &queue, const LaunchSpec &spec, const KernelModule &kernels);
MadeOperation makeMatmul(CudaQueue &queue, const MatmulSpec &spec, Products &products);
MadeOperation makeConv(CudaQueue &queue, const ConvSpec &spec, Convolutions &convolutions);
MadeOperation makeCollective(CudaQueue &queue, const CollectiveSpec &spec, int rank,
                             const std::string &name);
MadeOperation makeMessage(CudaQueue &queue, const MessageSpec &spec, int rank,
                          const std::string &name);
MadeOperation makeCopy(CudaQueue &queue, const CopySpec &spec);
MadeOperation makeZero(CudaQueue &queue, const ZeroSpec &spec);
MadeOperation makeConstant(CudaQueue &queue, const ConstantSpec &spec);
/// What `issue` issues, as a graph of CUDA; null where it can't be captured.
MadeOperation recordGraph(CudaQueue &queue, const std::function<Status()> &issue);

template <typename T, typename... Args> MadeOperation made(Args &&...args) {
  return std::unique_ptr<Operation>(std::make_unique<T>(std::forward<Args>(args)...));
}

} // namespace dtc::rt::cuda
