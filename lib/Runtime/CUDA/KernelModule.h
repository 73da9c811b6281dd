// The kernels of an artifact, loaded onto a GPU.
//
// An artifact has kernels.ptx, and for some architectures a cubin of each kernel:
//
//   kernels.ptx   sm_80/rows_0.cubin   sm_90/rows_0.cubin   sm_90/rows_1.cubin ...
//
// A GPU takes the cubins of its own architecture where there are any, each when its kernel is asked
// for. Of other kernels the driver compiles the PTX.
#pragma once

#include "Gpu.h"

namespace dtc::rt::cuda {

/// Refuses files that are neither PTX nor a cubin.
Status checkCode(std::span<const CodeFile> files);

class KernelModule {
public:
  /// The files must live as long as kernels are asked for.
  static Result<std::unique_ptr<KernelModule>> load(const Gpu &gpu,
                                                    std::span<const CodeFile> files);
  KernelModule(const KernelModule &) = delete;
  KernelModule &operator=(const KernelModule &) = delete;
  ~KernelModule();

  /// By the thread of the GPU's rank.
  Result<CUfunction> find(const std::string &kernel);

private:
  explicit KernelModule(const Gpu &gpu) : gpu(gpu) {}
  /// False where the driver has no use for such a file.
  Result<bool> load(const CodeFile &file, const char *image);
  Result<bool> loadPtx();
  /// Of a file that is loaded; null where it lacks the kernel.
  Result<CUfunction> functionIn(const CodeFile &file, const std::string &kernel) const;

  const Gpu &gpu;
  const CodeFile *ptx = nullptr;                  ///< null where there is none
  std::map<std::string, const CodeFile *> cubins; ///< of the GPU's architecture, by kernel
  std::map<const CodeFile *, CUmodule> modules;   ///< that are loaded
};

} // namespace dtc::rt::cuda
