#include "Libraries.h"

#include "SharedLibrary.h"

namespace dtc::rt::cuda {
namespace {

constexpr const char *kDriverFiles[] = {"libcuda.so.1"};
constexpr const char *kCublasLtFiles[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
constexpr const char *kCudnnFiles[] = {"libcudnn.so.9"};
constexpr const char *kNcclFiles[] = {"libnccl.so.2"};

constexpr LibraryInfo kDriver = {"CUDA's driver", kDriverFiles,
                                 "install it with `apt install nvidia-driver`"};
constexpr LibraryInfo kCublasLt = {"cuBLASLt", kCublasLtFiles,
                                   "install it with `pip install nvidia-cublas`"};
constexpr LibraryInfo kCudnn = {"cuDNN", kCudnnFiles,
                                "install it with `pip install nvidia-cudnn-cu13`"};
constexpr LibraryInfo kNccl = {"NCCL", kNcclFiles,
                               "install it with `pip install nvidia-nccl-cu13`"};

/// Errors that say that the artifact and this machine don't go together.
bool isMisfit(CUresult result) {
  switch (result) {
  case CUDA_ERROR_OUT_OF_MEMORY:
  case CUDA_ERROR_STUB_LIBRARY:
  case CUDA_ERROR_NO_DEVICE:
  case CUDA_ERROR_SYSTEM_NOT_READY:
  case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
  case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    return true;
  default:
    return false;
  }
}

std::string callText(const char *call, const char *name, const char *text) {
  return std::string(call) + ": " + (name ? name : "unknown error") +
         (text ? std::string(" (") + text + ")" : "");
}

} // namespace

Result<Driver> Driver::load() {
  Result<SharedLibrary> library = SharedLibrary::open(kDriver);
  if (!library)
    return library.status();
  Driver driver;
  SymbolBinder symbols(*library);
#define DTC_CUDA_FUNCTION(result, name, ...) symbols.bind(driver.name, #name);
#include "dtc-cuda/DriverFunctions.def"
  DTC_CUDA_TRY(symbols.status());
  if (CUresult result = driver.cuInit(0); result == CUDA_ERROR_NO_DEVICE)
    return Status(ErrorCategory::NoFit, "this machine has no GPU that CUDA's driver can use");
  else
    DTC_CUDA_TRY(driver.check(result, "cuInit"));
  return driver;
}

Status Driver::error(CUresult result, const char *call) const {
  const char *name = nullptr, *text = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  return {isMisfit(result) ? ErrorCategory::NoFit : ErrorCategory::Failed,
          callText(call, name, text)};
}

Result<CublasLt> CublasLt::load() {
  Result<SharedLibrary> library = SharedLibrary::open(kCublasLt);
  if (!library)
    return library.status();
  CublasLt table;
  SymbolBinder symbols(*library);
#define DTC_CUDA_FUNCTION(result, name, ...) symbols.bind(table.name, #name);
#include "dtc-cuda/CublasLtFunctions.def"
  DTC_CUDA_TRY(symbols.status());
  table.file = library->path();
  return table;
}

Status CublasLt::error(cublasStatus_t status, const char *call) const {
  return failed(callText(call, cublasLtGetStatusName(status), cublasLtGetStatusString(status)));
}

Result<Cudnn> Cudnn::load() {
  Result<SharedLibrary> library = SharedLibrary::open(kCudnn);
  if (!library)
    return library.status();
  Cudnn table;
  SymbolBinder symbols(*library);
#define DTC_CUDA_FUNCTION(result, name, ...) symbols.bind(table.name, #name);
#include "dtc-cuda/CudnnFunctions.def"
  DTC_CUDA_TRY(symbols.status());
  table.file = library->path();
  return table;
}

Status Cudnn::error(cudnnStatus_t status, const char *call) const {
  // Statuses of a thousand are of one category.
  bool isMisfit = status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000;
  char last[512] = "";
  cudnnGetLastErrorString(last, sizeof(last));
  return {isMisfit ? ErrorCategory::NoFit : ErrorCategory::Failed,
          callText(call, cudnnGetErrorString(status), *last ? last : nullptr)};
}

Result<Nccl> Nccl::load() {
  Result<SharedLibrary> library = SharedLibrary::open(kNccl);
  if (!library)
    return library.status();
  Nccl table;
  SymbolBinder symbols(*library);
#define DTC_CUDA_FUNCTION(result, name, ...) symbols.bind(table.name, #name);
#define DTC_CUDA_OPTIONAL_FUNCTION(result, name, ...) symbols.bindIfThere(table.name, #name);
#include "dtc-cuda/NcclFunctions.def"
  DTC_CUDA_TRY(symbols.status());
  return table;
}

Status Nccl::error(ncclResult_t result, const char *call) const {
  const char *last = ncclGetLastError(nullptr);
  return failed(callText(call, ncclGetErrorString(result), last && *last ? last : nullptr));
}

} // namespace dtc::rt::cuda
