// The kernels of an artifact, loaded onto a GPU.
//
// An artifact has kernels.ptx, and sm_XY.cubin for some architectures. A GPU takes the cubin of
// its own architecture where there is one, else the driver compiles the PTX for it.
#pragma once

#include "Gpu.h"

namespace dtc::rt::cuda {

/// Refuses files that are neither PTX nor a cubin.
Status checkCode(std::span<const CodeFile> files);

class KernelModule {
public:
  static Result<std::unique_ptr<KernelModule>> load(const Gpu &gpu,
                                                    std::span<const CodeFile> files);
  KernelModule(const KernelModule &) = delete;
  KernelModule &operator=(const KernelModule &) = delete;
  ~KernelModule();

  Result<CUfunction> find(const std::string &kernel) const;

private:
  explicit KernelModule(const Gpu &gpu) : gpu(gpu) {}
  /// NO_BINARY_FOR_GPU, or what else the driver says.
  CUresult loadImage(const char *image, std::string &log);

  const Gpu &gpu;
  CUmodule module = nullptr; ///< null where the artifact has no kernels
};

} // namespace dtc::rt::cuda
