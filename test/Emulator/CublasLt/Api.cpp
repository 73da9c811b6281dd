// The entry points of the emulated cuBLASLt.
#include "Emulator/CublasLt/Product.h"
#include "Emulator/Device/Settings.h"
#include "Emulator/Driver/Context.h"

#include <cstring>

#define DTC_CUDA_FUNCTION(result, name, ...) extern "C" result name(__VA_ARGS__);
namespace dtc::cuda {
#include "dtc-cuda/CublasLtFunctions.def"
} // namespace dtc::cuda

namespace dtc::emulator {

using namespace dtc::cuda;

namespace {

struct Library {
  static constexpr const char *kWhat = "handle of cuBLASLt";
};

/// What an algorithm's opaque data says: for which problem it was chosen, and what it needs.
struct Algorithm {
  uint64_t mark, fingerprint, workspaceBytes, alignment;
  SumOrder order;
};
constexpr uint64_t kAlgorithmMark = 0x64746320616c676f;
constexpr uint64_t kWantedWorkspace = 256 * 1024;

/// Faults of the driver have its codes; here they all mean an invalid value.
template <typename Body> cublasStatus_t enterLibrary(const char *function, Body &&body) {
  try {
    body();
    return CUBLAS_STATUS_SUCCESS;
  } catch (const Fault &fault) {
    report(fault, function);
    bool isStatus =
        fault.code == CUBLAS_STATUS_NOT_SUPPORTED || fault.code == CUBLAS_STATUS_INVALID_VALUE;
    return isStatus ? static_cast<cublasStatus_t>(fault.code) : CUBLAS_STATUS_INVALID_VALUE;
  }
}

void require(bool condition, const std::string &message) {
  if (!condition)
    throw Fault(CUBLAS_STATUS_INVALID_VALUE, message);
}

/// Copies an attribute's value, whose size must be that of its type.
template <typename Value, typename Target>
void assign(Target &target, const void *value, size_t bytes) {
  require(value && bytes == sizeof(Value), "an attribute's value has another size");
  Value read;
  std::memcpy(&read, value, sizeof(read));
  target = static_cast<Target>(read);
}

void setDescription(MatmulDescription &description, cublasLtMatmulDescAttributes_t attribute,
                    const void *value, size_t bytes) {
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return assign<int32_t>(description.a, value, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return assign<int32_t>(description.b, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return assign<uint32_t>(description.epilogue, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return assign<uint64_t>(description.bias, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    return assign<uint64_t>(description.aux, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
    return assign<int64_t>(description.auxLeading, value, bytes);
  default:
    throw Fault(CUBLAS_STATUS_NOT_SUPPORTED,
                "the emulator lacks attribute " + std::to_string(attribute) + " of a product");
  }
}

void setLayout(MatrixLayout &layout, cublasLtMatrixLayoutAttribute_t attribute, const void *value,
               size_t bytes) {
  switch (attribute) {
  case CUBLASLT_MATRIX_LAYOUT_ORDER:
    assign<int32_t>(layout.order, value, bytes);
    return require(layout.order == CUBLASLT_ORDER_COL || layout.order == CUBLASLT_ORDER_ROW,
                   "unknown order");
  case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
    return assign<int32_t>(layout.batches, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
    return assign<int64_t>(layout.batchStride, value, bytes);
  default:
    throw Fault(CUBLAS_STATUS_NOT_SUPPORTED,
                "the emulator lacks attribute " + std::to_string(attribute) + " of a layout");
  }
}

void setPreference(MatmulPreference &preference, cublasLtMatmulPreferenceAttributes_t attribute,
                   const void *value, size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return assign<uint64_t>(preference.workspaceBytes, value, bytes);
  unsigned index = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  if (index >= 4)
    throw Fault(CUBLAS_STATUS_NOT_SUPPORTED, "unknown attribute of a preference");
  assign<uint32_t>(preference.alignment[index], value, bytes);
}

MatmulProblem problemOf(cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a,
                        cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                        cublasLtMatrixLayout_t d) {
  return {handles<MatmulDescription>().find(description), handles<MatrixLayout>().find(a),
          handles<MatrixLayout>().find(b), handles<MatrixLayout>().find(c),
          handles<MatrixLayout>().find(d)};
}

/// Each device has another one that is the fastest: ranks that chose for themselves would differ.
std::chrono::nanoseconds pretendedTime(const Algorithm &algorithm, const Device &device) {
  const std::vector<uint64_t> &times = settings().productTimes;
  if (times.empty())
    return std::chrono::nanoseconds(0);
  size_t place = (uint64_t(algorithm.order) + size_t(device.ordinal())) % times.size();
  return std::chrono::milliseconds(times[place]);
}

Algorithm choose(const MatmulProblem &problem, const MatmulPreference &preference, SumOrder order) {
  // Alignments are packed, a byte for the logarithm of each.
  uint64_t alignment = 0;
  for (unsigned i = 0; i < 4; ++i)
    alignment |= uint64_t(std::countr_zero(preference.alignment[i] | 256u)) << 8 * i;
  // Those of the epilogue are of the pointers that the description has at the time.
  for (auto [i, pointer] : {std::pair(4, problem.description.bias), {5, problem.description.aux}})
    alignment |= uint64_t(std::countr_zero(pointer | 256u)) << 8 * i;
  return {kAlgorithmMark, problem.fingerprint(),
          std::min(kWantedWorkspace, preference.workspaceBytes), alignment, order};
}

void requireAlignment(const Algorithm &algorithm, unsigned index, uint64_t address,
                      const char *name) {
  uint64_t needed = uint64_t(1) << (algorithm.alignment >> 8 * index & 255);
  require(address % needed == 0, std::string(name) + " at " + hex(address) +
                                     " isn't aligned to the " + std::to_string(needed) +
                                     " bytes that the heuristic was asked for");
}

/// Checks what a call gives against what the algorithm was chosen for.
void checkCall(const Product &product, const Algorithm &algorithm) {
  MatmulProblem problem = product.problem();
  problem.check();
  require(algorithm.mark == kAlgorithmMark && uint64_t(algorithm.order) < kSumOrders,
          "the algorithm comes from no heuristic");
  require(algorithm.fingerprint == problem.fingerprint(),
          "the algorithm was chosen for another problem");
  require(product.workspaceBytes >= algorithm.workspaceBytes,
          "the workspace has " + std::to_string(product.workspaceBytes) +
              " bytes, and the algorithm needs " + std::to_string(algorithm.workspaceBytes));
  require(product.workspaceBytes == 0 || product.workspace % 256 == 0,
          "the workspace at " + hex(product.workspace) + " isn't aligned to 256 bytes");
  requireAlignment(algorithm, 0, product.a, "A");
  requireAlignment(algorithm, 1, product.b, "B");
  requireAlignment(algorithm, 2, product.c, "C");
  requireAlignment(algorithm, 3, product.d, "D");
  const MatmulDescription &description = product.description;
  if (description.usesVector()) {
    require(description.bias, "the epilogue has no bias");
    requireAlignment(algorithm, 4, description.bias, "the bias");
  }
  if (description.usesAux()) {
    require(description.aux, "the epilogue has no input of GELU");
    requireAlignment(algorithm, 5, description.aux, "GELU's input");
    require(description.aux % 16 == 0,
            "GELU's input at " + hex(description.aux) + " isn't aligned to 16 bytes");
  }
  require(!(description.sumsA() || description.sumsB()) || product.alpha == 1,
          "the emulator sums operands up for an alpha of 1 alone");
}

double scale(const void *value, cudaDataType_t type) {
  require(value, "alpha or beta is null");
  return type == CUDA_R_64F ? *static_cast<const double *>(value)
                            : *static_cast<const float *>(value);
}

uint64_t addressOf(const void *pointer) { return reinterpret_cast<uint64_t>(pointer); }

} // namespace
} // namespace dtc::emulator

namespace dtc::cuda {

using namespace dtc::emulator;

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  return enterLibrary(__func__, [&] {
    currentDevice();
    *handle = handles<Library>().add<cublasLtHandle_t>(std::make_unique<Library>());
  });
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return enterLibrary(__func__, [&] { handles<Library>().take(handle); });
}

size_t cublasLtGetVersion() { return 130100; }

const char *cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
  case CUBLAS_STATUS_SUCCESS:
    return "CUBLAS_STATUS_SUCCESS";
  case CUBLAS_STATUS_INVALID_VALUE:
    return "CUBLAS_STATUS_INVALID_VALUE";
  case CUBLAS_STATUS_NOT_SUPPORTED:
    return "CUBLAS_STATUS_NOT_SUPPORTED";
  default:
    return "CUBLAS_STATUS_UNKNOWN";
  }
}

const char *cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return enterLibrary(__func__, [&] {
    *desc = handles<MatmulDescription>().add<cublasLtMatmulDesc_t>(
        std::make_unique<MatmulDescription>(compute, scale));
  });
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  return enterLibrary(__func__, [&] { handles<MatmulDescription>().take(desc); });
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes) {
  return enterLibrary(__func__, [&] {
    setDescription(handles<MatmulDescription>().find(desc), attribute, value, bytes);
  });
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
  return enterLibrary(__func__, [&] {
    bytesOf(type);
    *layout = handles<MatrixLayout>().add<cublasLtMatrixLayout_t>(
        std::make_unique<MatrixLayout>(type, CUBLASLT_ORDER_COL, rows, cols, ld));
  });
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return enterLibrary(__func__, [&] { handles<MatrixLayout>().take(layout); });
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t bytes) {
  return enterLibrary(
      __func__, [&] { setLayout(handles<MatrixLayout>().find(layout), attribute, value, bytes); });
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  return enterLibrary(__func__, [&] {
    *preference = handles<MatmulPreference>().add<cublasLtMatmulPreference_t>(
        std::make_unique<MatmulPreference>());
  });
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return enterLibrary(__func__, [&] { handles<MatmulPreference>().take(preference); });
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes) {
  return enterLibrary(__func__, [&] {
    setPreference(handles<MatmulPreference>().find(preference), attribute, value, bytes);
  });
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t *results,
                                              int *returned) {
  return enterLibrary(__func__, [&] {
    handles<Library>().find(handle);
    require(requested > 0 && results && returned, "no results are asked for");
    MatmulProblem problem = problemOf(desc, a, b, c, d);
    problem.check();
    *returned = std::min(requested, static_cast<int>(kSumOrders));
    for (int i = 0; i < *returned; ++i) {
      Algorithm algorithm =
          choose(problem, handles<MatmulPreference>().find(preference), SumOrder(i));
      results[i] = {};
      std::memcpy(&results[i].algo, &algorithm, sizeof(algorithm));
      results[i].workspaceSize = algorithm.workspaceBytes;
      results[i].state = CUBLAS_STATUS_SUCCESS;
      results[i].wavesCount = 1;
    }
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t aLayout, const void *b,
                              cublasLtMatrixLayout_t bLayout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t cLayout, void *d,
                              cublasLtMatrixLayout_t dLayout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspaceBytes, CUstream stream) {
  return enterLibrary(__func__, [&] {
    handles<Library>().find(handle);
    require(algo, "the emulator takes no call without an algorithm");
    Algorithm algorithm;
    std::memcpy(&algorithm, algo, sizeof(algorithm));
    const MatmulDescription &description = handles<MatmulDescription>().find(desc);
    Product product{description,
                    handles<MatrixLayout>().find(aLayout),
                    handles<MatrixLayout>().find(bLayout),
                    handles<MatrixLayout>().find(cLayout),
                    handles<MatrixLayout>().find(dLayout),
                    addressOf(a),
                    addressOf(b),
                    addressOf(c),
                    addressOf(d),
                    addressOf(workspace),
                    workspaceBytes,
                    scale(alpha, description.scaleType),
                    scale(beta, description.scaleType)};
    checkCall(product, algorithm);
    product.workspaceBytes = algorithm.workspaceBytes;
    product.order = algorithm.order;
    Stream &target = streamOf(stream);
    std::string name = "matmul " + std::to_string(product.problem().m()) + " x " +
                       std::to_string(product.problem().n()) + " x " +
                       std::to_string(product.problem().k());
    target.submit(
        {name,
         [product, &memory = target.device().memory()] { return runProduct(product, memory); },
         pretendedTime(algorithm, target.device())});
  });
}

} // namespace dtc::cuda
