// The functions of CUDA's driver, cuBLASLt, cuDNN and NCCL, and what their errors mean.
//
// A call goes through DTC_CUDA_CALL, so that an error says which call it was:
//
//   DTC_CUDA_CALL(driver, cuMemAlloc_v2, &address, bytes)
//     -> "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (out of memory)", exit code 4
#pragma once

#include "dtc-cuda/CublasLt.h"
#include "dtc-cuda/Cudnn.h"
#include "dtc-cuda/Nccl.h"
#include "dtc-rt/Status.h"

#include <memory>
#include <mutex>

namespace dtc::rt::cuda {

using namespace dtc::cuda;

#define DTC_CUDA_CALL(table, name, ...) (table).check((table).name(__VA_ARGS__), #name)

/// Returns from a function where a call fails.
#define DTC_CUDA_TRY(call)                                                                         \
  if (::dtc::rt::Status tried = (call); !tried.isOk())                                             \
  return tried

struct Driver {
#define DTC_CUDA_FUNCTION(result, name, ...) result (*name)(__VA_ARGS__) = nullptr;
#include "dtc-cuda/DriverFunctions.def"

  /// Loads and initializes the driver.
  static Result<Driver> load();
  Status check(CUresult result, const char *call) const {
    return result == CUDA_SUCCESS ? Status::ok() : error(result, call);
  }

private:
  Status error(CUresult result, const char *call) const;
};

/// Of a library that can't begin: its file doesn't go together with this machine or the driver.
inline Status asMisfit(const Status &status, const std::string &file) {
  return status.isOk() ? Status::ok()
                       : Status(ErrorCategory::NoFit, file + ": " + status.message());
}

struct CublasLt {
#define DTC_CUDA_FUNCTION(result, name, ...) result (*name)(__VA_ARGS__) = nullptr;
#include "dtc-cuda/CublasLtFunctions.def"

  using Context = cublasLtHandle_t;

  static Result<CublasLt> load();
  Status create(Context &context) const {
    return asMisfit(DTC_CUDA_CALL(*this, cublasLtCreate, &context), file);
  }
  void destroy(Context context) const { cublasLtDestroy(context); }
  Status check(cublasStatus_t status, const char *call) const {
    return status == CUBLAS_STATUS_SUCCESS ? Status::ok() : error(status, call);
  }

private:
  std::string file;
  Status error(cublasStatus_t status, const char *call) const;
};

struct Cudnn {
#define DTC_CUDA_FUNCTION(result, name, ...) result (*name)(__VA_ARGS__) = nullptr;
#include "dtc-cuda/CudnnFunctions.def"

  using Context = cudnnHandle_t;

  static Result<Cudnn> load();
  Status create(Context &context) const {
    return asMisfit(DTC_CUDA_CALL(*this, cudnnCreate, &context), file);
  }
  void destroy(Context context) const { cudnnDestroy(context); }
  /// What it can't do has ErrorCategory::NoFit.
  Status check(cudnnStatus_t status, const char *call) const {
    return status == CUDNN_STATUS_SUCCESS ? Status::ok() : error(status, call);
  }

private:
  std::string file;
  Status error(cudnnStatus_t status, const char *call) const;
};

struct Nccl {
#define DTC_CUDA_FUNCTION(result, name, ...) result (*name)(__VA_ARGS__) = nullptr;
#include "dtc-cuda/NcclFunctions.def"

  static Result<Nccl> load();
  /// What NCCL has only begun is no error.
  Status check(ncclResult_t result, const char *call) const {
    return result == ncclSuccess || result == ncclInProgress ? Status::ok() : error(result, call);
  }

private:
  Status error(ncclResult_t result, const char *call) const;
};

/// A library that is loaded when it is first needed, by any thread.
template <typename Library> class LoadedOnce {
public:
  Result<const Library *> get() {
    std::lock_guard lock(mutex);
    if (!library) {
      Result<Library> loaded = Library::load();
      if (!loaded)
        return loaded.status();
      library = std::make_unique<Library>(*loaded);
    }
    return library.get();
  }

  /// Takes what `make` returns instead of a library, unless there is one.
  template <typename Make> void provide(Make &&make) {
    std::lock_guard lock(mutex);
    if (!library)
      library = std::make_unique<Library>(make());
  }

private:
  std::mutex mutex;
  std::unique_ptr<Library> library;
};

struct Libraries {
  LoadedOnce<Driver> driver;
  LoadedOnce<CublasLt> cublasLt;
  LoadedOnce<Cudnn> cudnn;
  LoadedOnce<Nccl> nccl;
};

} // namespace dtc::rt::cuda
