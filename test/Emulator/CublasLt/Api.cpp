// The entry points of the emulated cuBLASLt.
#include "Emulator/CublasLt/Descriptions.h"
#include "Emulator/Device/Settings.h"
#include "Emulator/Driver/Context.h"

#include <cstring>
#include <span>

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
  uint64_t mark, fingerprint, workspaceBytes;
  SumOrder order;
  bool roundsParts;
  uint32_t alignments[6]; // of A, B, C, D, the bias and GELU's input
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));
constexpr uint64_t kAlgorithmMark = 0x64746320616c676f;
constexpr uint64_t kWantedWorkspace = 256 * 1024;

/// Faults of the driver have its codes; here they all mean an invalid value.
template <typename Body> cublasStatus_t enterLibrary(const char *function, Body &&body) {
  int code = codeOf(function, body);
  bool isStatus = code == CUBLAS_STATUS_SUCCESS || code == CUBLAS_STATUS_NOT_SUPPORTED;
  return isStatus ? static_cast<cublasStatus_t>(code) : CUBLAS_STATUS_INVALID_VALUE;
}

/// Which bytes of an object an attribute sets.
struct Attribute {
  unsigned name;
  size_t offset, bytes;
};
constexpr Attribute kOfDescription[] = {
    {CUBLASLT_MATMUL_DESC_TRANSA, offsetof(MatmulDescription, a), 4},
    {CUBLASLT_MATMUL_DESC_TRANSB, offsetof(MatmulDescription, b), 4},
    {CUBLASLT_MATMUL_DESC_EPILOGUE, offsetof(MatmulDescription, epilogue), 4},
    {CUBLASLT_MATMUL_DESC_BIAS_POINTER, offsetof(MatmulDescription, bias), 8},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, offsetof(MatmulDescription, aux), 8},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, offsetof(MatmulDescription, auxLeading), 8},
};
constexpr Attribute kOfLayout[] = {
    {CUBLASLT_MATRIX_LAYOUT_ORDER, offsetof(MatrixLayout, order), 4},
    {CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, offsetof(MatrixLayout, batches), 4},
    {CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, offsetof(MatrixLayout, batchStride), 8},
};
constexpr Attribute kOfPreference[] = {
    {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, offsetof(MatmulPreference, workspaceBytes), 8},
    {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, offsetof(MatmulPreference, reductions), 4},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, offsetof(MatmulPreference, alignment[0]), 4},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, offsetof(MatmulPreference, alignment[1]), 4},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, offsetof(MatmulPreference, alignment[2]), 4},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, offsetof(MatmulPreference, alignment[3]), 4},
};

template <typename Object>
void set(Object &object, std::span<const Attribute> known, unsigned name, const void *value,
         size_t bytes) {
  auto found = std::ranges::find(known, name, &Attribute::name);
  require(found != known.end(), CUBLAS_STATUS_NOT_SUPPORTED, "the emulator lacks attribute ", name,
          " of a ", Object::kWhat);
  require(value && bytes == found->bytes, "an attribute's value has another size");
  std::memcpy(reinterpret_cast<std::byte *>(&object) + found->offset, value, bytes);
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
  constexpr uint32_t kInOutputType =
      CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  auto upTo256 = [](uint64_t value) { return 1u << std::countr_zero(value | 256); };
  Algorithm chosen{kAlgorithmMark,
                   problem.fingerprint(),
                   std::min(kWantedWorkspace, preference.workspaceBytes),
                   order,
                   order == SumOrder::Forward && (preference.reductions & kInOutputType) != 0,
                   {}};
  std::ranges::transform(preference.alignment, chosen.alignments, upTo256);
  // Those of the epilogue are of the pointers that the description has at the time.
  chosen.alignments[4] = upTo256(problem.description.bias);
  chosen.alignments[5] = upTo256(problem.description.aux);
  return chosen;
}

/// Checks what a call gives against what the algorithm was chosen for.
void checkCall(const Product &product, const Algorithm &algorithm) {
  const MatmulProblem &problem = product.problem;
  problem.check();
  require(algorithm.mark == kAlgorithmMark && uint64_t(algorithm.order) < kSumOrders,
          "the algorithm comes from no heuristic");
  require(algorithm.fingerprint == problem.fingerprint(),
          "the algorithm was chosen for another problem");
  require(product.workspaceBytes >= algorithm.workspaceBytes, "the workspace has ",
          product.workspaceBytes, " bytes, and the algorithm needs ", algorithm.workspaceBytes);
  require(product.workspaceBytes == 0 || product.workspace % 256 == 0, "the workspace at ",
          hex(product.workspace), " isn't aligned to 256 bytes");
  const MatmulDescription &description = problem.description;
  require(!description.usesVector() || description.bias, "the epilogue has no bias");
  require(!description.usesAux() || description.aux, "the epilogue has no input of GELU");
  require(!description.usesAux() || description.aux % 16 == 0, "GELU's input at ",
          hex(description.aux), " isn't aligned to 16 bytes");
  const std::pair<const char *, uint64_t> pointers[] = {
      {"A", product.a},
      {"B", product.b},
      {"C", product.c},
      {"D", product.d},
      {"the bias", description.usesVector() ? description.bias : 0},
      {"GELU's input", description.usesAux() ? description.aux : 0}};
  for (size_t i = 0; i < std::size(pointers); ++i)
    require(pointers[i].second % algorithm.alignments[i] == 0, pointers[i].first, " at ",
            hex(pointers[i].second), " isn't aligned to the ", algorithm.alignments[i],
            " bytes that the heuristic was asked for");
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
    *handle = handles<Library>().make<cublasLtHandle_t>();
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
    *desc = handles<MatmulDescription>().make<cublasLtMatmulDesc_t>(compute, scale);
  });
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  return enterLibrary(__func__, [&] { handles<MatmulDescription>().take(desc); });
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes) {
  return enterLibrary(__func__, [&] {
    set(handles<MatmulDescription>().find(desc), kOfDescription, attribute, value, bytes);
  });
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
  return enterLibrary(__func__, [&] {
    bytesOf(type);
    *layout = handles<MatrixLayout>().make<cublasLtMatrixLayout_t>(type, CUBLASLT_ORDER_COL, rows,
                                                                   cols, ld);
  });
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return enterLibrary(__func__, [&] { handles<MatrixLayout>().take(layout); });
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t bytes) {
  return enterLibrary(__func__, [&] {
    set(handles<MatrixLayout>().find(layout), kOfLayout, attribute, value, bytes);
  });
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  return enterLibrary(__func__, [&] {
    *preference = handles<MatmulPreference>().make<cublasLtMatmulPreference_t>();
  });
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return enterLibrary(__func__, [&] { handles<MatmulPreference>().take(preference); });
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes) {
  return enterLibrary(__func__, [&] {
    set(handles<MatmulPreference>().find(preference), kOfPreference, attribute, value, bytes);
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
    MatmulProblem problem = problemOf(desc, aLayout, bLayout, cLayout, dLayout);
    cudaDataType_t scaleType = problem.description.scaleType;
    Product product{problem,
                    addressOf(a),
                    addressOf(b),
                    addressOf(c),
                    addressOf(d),
                    addressOf(workspace),
                    workspaceBytes,
                    scale(alpha, scaleType),
                    scale(beta, scaleType)};
    checkCall(product, algorithm);
    product.workspaceBytes = algorithm.workspaceBytes;
    product.order = algorithm.order;
    product.roundsParts = algorithm.roundsParts;
    Stream &target = streamOf(stream);
    std::string name = concat("matmul ", problem.m(), " x ", problem.n(), " x ", problem.k());
    target.submit(
        {name,
         [product, &memory = target.device().memory()] { return runProduct(product, memory); },
         pretendedTime(algorithm, target.device())});
  });
}

} // namespace dtc::cuda
