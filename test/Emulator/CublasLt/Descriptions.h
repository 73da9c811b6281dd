// What cuBLASLt's opaque handles hold: the description of a product. And how it is computed.
#pragma once

#include "Emulator/Device/AccessHistory.h"
#include "Emulator/Device/Fault.h"
#include "Emulator/Device/FloatElements.h"
#include "dtc-cuda/CublasLt.h"

#include <string>

namespace dtc::emulator {

class DeviceMemory;

/// What a caller does wrong is an invalid value. Static, as a program may load several
/// libraries.
template <typename... Part>
static void require(bool condition, std::string_view start, const Part &...parts) {
  require(condition, cuda::CUBLAS_STATUS_INVALID_VALUE, start, parts...);
}

struct MatrixLayout {
  static constexpr const char *kWhat = "layout of a matrix";

  cuda::cudaDataType_t type;
  cuda::cublasLtOrder_t order = cuda::CUBLASLT_ORDER_COL;
  uint64_t rows, columns;
  int64_t leading;
  int32_t batches = 1;
  int64_t batchStride = 0; // in elements

  uint64_t index(uint64_t row, uint64_t column) const {
    return order == cuda::CUBLASLT_ORDER_COL ? row + column * leading : row * leading + column;
  }
  /// Elements that lie one after another, and how many such runs a matrix has.
  uint64_t runLength() const { return order == cuda::CUBLASLT_ORDER_COL ? rows : columns; }
  uint64_t runs() const { return order == cuda::CUBLASLT_ORDER_COL ? columns : rows; }
  std::string text() const;
};

struct MatmulDescription {
  static constexpr const char *kWhat = "description of a product";

  cuda::cublasComputeType_t compute;
  cuda::cudaDataType_t scaleType;
  cuda::cublasOperation_t a = cuda::CUBLAS_OP_N, b = cuda::CUBLAS_OP_N;
  cuda::cublasLtEpilogue_t epilogue = cuda::CUBLASLT_EPILOGUE_DEFAULT;
  uint64_t bias = 0, aux = 0; // addresses
  int64_t auxLeading = 0;

  bool has(unsigned epilogues) const { return (unsigned(epilogue) & epilogues) != 0; }
  bool sumsA() const { return epilogue == cuda::CUBLASLT_EPILOGUE_BGRADA; }
  bool sumsB() const { return epilogue == cuda::CUBLASLT_EPILOGUE_BGRADB; }
  bool appliesBias() const { return !sumsA() && !sumsB() && has(cuda::CUBLASLT_EPILOGUE_BIAS); }
  bool usesVector() const { return appliesBias() || sumsA() || sumsB(); }
  bool multipliesGeluGrad() const { return epilogue == cuda::CUBLASLT_EPILOGUE_DGELU; }
  bool writesAux() const {
    return epilogue == cuda::CUBLASLT_EPILOGUE_GELU_AUX ||
           epilogue == cuda::CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  }
  bool usesAux() const { return writesAux() || multipliesGeluGrad(); }
};

struct MatmulPreference {
  static constexpr const char *kWhat = "preference";

  uint64_t workspaceBytes = 0;
  uint32_t alignment[4] = {256, 256, 256, 256}; // of A, B, C and D
  uint32_t reductions = cuda::CUBLASLT_REDUCTION_SCHEME_MASK;
};

/// The whole problem that a heuristic or a call is about.
struct MatmulProblem {
  MatmulDescription description;
  MatrixLayout a, b, c, d;

  uint64_t m() const { return d.rows; }
  uint64_t n() const { return d.columns; }
  /// Elements of the bias or of its gradient.
  uint64_t vectorLength() const { return description.sumsB() ? n() : m(); }
  /// Of GELU's input.
  MatrixLayout auxLayout() const;
  uint64_t k() const { return description.a == cuda::CUBLAS_OP_N ? a.columns : a.rows; }

  /// Throws a Fault where the descriptions contradict each other or the emulator lacks something.
  void check() const;
  void checkEpilogue() const;

  /// A number that tells problems apart, to find an algorithm that was chosen for another one.
  uint64_t fingerprint() const;
};

FloatKind kindOf(cuda::cudaDataType_t type);
unsigned bytesOf(cuda::cudaDataType_t type);

/// In which order the terms of a sum are added, by algorithm: so their last bits differ.
enum class SumOrder : uint64_t { Forward, Backward, SecondHalfFirst };
constexpr uint64_t kSumOrders = 3;

/// A call of cublasLtMatmul, with everything copied that may be gone when it runs.
struct Product {
  MatmulProblem problem;
  uint64_t a, b, c, d, workspace; // addresses
  uint64_t workspaceBytes;
  double alpha, beta;
  SumOrder order = SumOrder::Forward;
  bool roundsParts = false; // half of a sum is rounded to D's type, where the rest is added to it
};

/// Computes D, overwrites the workspace, and says what was read and written.
Accesses runProduct(const Product &product, const DeviceMemory &memory);

} // namespace dtc::emulator
