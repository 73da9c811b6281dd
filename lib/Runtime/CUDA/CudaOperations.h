// Makes the operations of a rank on its GPU, by kind.
#pragma once

#include "CudaQueue.h"
#include "KernelModule.h"

namespace dtc::rt::cuda {

using MadeOperation = Result<std::unique_ptr<Operation>>;

class ProductTuner;

/// A library for one GPU, made when an operation first needs it.
template <typename Library> class LibraryContext {
public:
  explicit LibraryContext(LoadedOnce<Library> &loader) : loader(loader) {}
  LibraryContext(const LibraryContext &) = delete;
  LibraryContext &operator=(const LibraryContext &) = delete;
  ~LibraryContext() {
    if (context)
      table->destroy(context);
  }

  Status open() {
    if (context)
      return Status::ok();
    Result<const Library *> loaded = loader.get();
    if (!loaded)
      return loaded.status();
    table = *loaded;
    return table->create(context);
  }
  const Library &calls() const { return *table; }
  typename Library::Context handle() const { return context; }

private:
  LoadedOnce<Library> &loader;
  const Library *table = nullptr;
  typename Library::Context context = nullptr;
};

using Products = LibraryContext<CublasLt>;
using Networks = LibraryContext<Cudnn>;

/// Libraries take a workspace at a multiple of 256 bytes; the arena's scratch may lie elsewhere.
inline constexpr uint64_t kWorkspaceAlignment = 256;
inline uint64_t workspaceIn(uint64_t scratchBytes) {
  return scratchBytes > kWorkspaceAlignment ? scratchBytes - kWorkspaceAlignment : 0;
}
inline Address alignWorkspace(Address scratch) {
  uint64_t beyond = pointerOf(scratch) % kWorkspaceAlignment;
  return beyond ? scratch + (kWorkspaceAlignment - beyond) : scratch;
}

MadeOperation makeLaunch(CudaQueue &queue, const LaunchSpec &spec, KernelModule &kernels);
/// `tuner` chooses the algorithm; where it is null, cuBLASLt's heuristic does.
MadeOperation makeMatmul(CudaQueue &queue, const MatmulSpec &spec, Products &products,
                         ProductTuner *tuner);
MadeOperation makeConv(CudaQueue &queue, const ConvSpec &spec, Networks &networks);
MadeOperation makeAttention(CudaQueue &queue, const AttentionSpec &spec, Networks &networks);
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
