// The part of cuBLASLt that dtc uses, declared as Driver.h declares the driver's.
//
// cuBLASLt multiplies column-major matrices: D = alpha * op(A) * op(B) + beta * C.
#pragma once

#include "dtc-cuda/Driver.h"

namespace dtc::cuda {

enum cublasStatus_t : unsigned {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_MAPPING_ERROR = 11,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
  CUBLAS_STATUS_LICENSE_ERROR = 16,
};

enum cublasComputeType_t : unsigned {
  CUBLAS_COMPUTE_32F = 68, ///< without TF32
  CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
};

enum cudaDataType_t : unsigned {
  CUDA_R_32F = 0,
  CUDA_R_64F = 1,
  CUDA_R_16F = 2,
  CUDA_R_16BF = 14,
};

enum cublasOperation_t : unsigned { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };

enum cublasLtOrder_t : unsigned { CUBLASLT_ORDER_COL = 0, CUBLASLT_ORDER_ROW = 1 };

enum cublasLtMatrixLayoutAttribute_t : unsigned {
  CUBLASLT_MATRIX_LAYOUT_TYPE = 0,                 ///< uint32_t
  CUBLASLT_MATRIX_LAYOUT_ORDER = 1,                ///< int32_t
  CUBLASLT_MATRIX_LAYOUT_ROWS = 2,                 ///< uint64_t
  CUBLASLT_MATRIX_LAYOUT_COLS = 3,                 ///< uint64_t
  CUBLASLT_MATRIX_LAYOUT_LD = 4,                   ///< int64_t
  CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,          ///< int32_t
  CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6, ///< int64_t, in elements
};

enum cublasLtMatmulDescAttributes_t : unsigned {
  CUBLASLT_MATMUL_DESC_COMPUTE_TYPE = 0,               ///< int32_t
  CUBLASLT_MATMUL_DESC_SCALE_TYPE = 1,                 ///< int32_t
  CUBLASLT_MATMUL_DESC_TRANSA = 3,                     ///< int32_t
  CUBLASLT_MATMUL_DESC_TRANSB = 4,                     ///< int32_t
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,                   ///< uint32_t
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,               ///< void *
  CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE = 10,         ///< int64_t
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11,      ///< void *
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12,           ///< int64_t
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE = 13, ///< int64_t
  CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26,            ///< int32_t
};

enum cublasLtEpilogue_t : unsigned {
  CUBLASLT_EPILOGUE_DEFAULT = 1,
  CUBLASLT_EPILOGUE_BIAS = 4,
  CUBLASLT_EPILOGUE_GELU = 32,
  CUBLASLT_EPILOGUE_GELU_BIAS = 36,
  CUBLASLT_EPILOGUE_GELU_AUX = 160,
  CUBLASLT_EPILOGUE_GELU_AUX_BIAS = 164,
  CUBLASLT_EPILOGUE_DGELU = 192,
  CUBLASLT_EPILOGUE_DGELU_BGRAD = 208,
  CUBLASLT_EPILOGUE_BGRADA = 256,
  CUBLASLT_EPILOGUE_BGRADB = 512,
};

/// How the parts of a sum that several blocks compute are added up; they are bits of a mask.
enum cublasLtReductionScheme_t : unsigned {
  CUBLASLT_REDUCTION_SCHEME_INPLACE = 1,      ///< in the result's type
  CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2, ///< in that of computing
  CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE = 4,  ///< in the result's type
  CUBLASLT_REDUCTION_SCHEME_MASK = 7,
};

enum cublasLtMatmulPreferenceAttributes_t : unsigned {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,   ///< uint64_t
  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3, ///< uint32_t; all where it isn't set
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5, ///< uint32_t; 256 where it isn't set
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,
};

using cublasLtHandle_t = struct cublasLtContext *;
using cublasLtMatmulDesc_t = struct cublasLtMatmulDescOpaque_t *;
using cublasLtMatrixLayout_t = struct cublasLtMatrixLayoutOpaque_t *;
using cublasLtMatmulPreference_t = struct cublasLtMatmulPreferenceOpaque_t *;

struct cublasLtMatmulAlgo_t {
  uint64_t data[8];
};

struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

} // namespace dtc::cuda
