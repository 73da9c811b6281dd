// The emulated cuBLASLt against plain loops, and what it refuses.
#include "EmulatedDevice.h"

#include "dtc-cuda/CublasLt.h"

#include <bit>

#define DTC_CUDA_FUNCTION(result, name, ...) extern "C" result name(__VA_ARGS__);
namespace dtc::cuda {
#include "dtc-cuda/CublasLtFunctions.def"
} // namespace dtc::cuda

namespace dtc::emulator::test {

namespace {

/// One matrix of a test's product, in row order.
struct Matrix {
  uint64_t rows, columns;
  int batches = 1;
};

class CublasLtTest : public EmulatedDevice {
protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    ASSERT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
    workspace = allocate(1 << 20);
    setWorkspace(1 << 20);
  }

  void setWorkspace(uint64_t bytes) {
    ASSERT_EQ(cublasLtMatmulPreferenceSetAttribute(
                  preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes)),
              CUBLAS_STATUS_SUCCESS);
  }

  cublasLtMatrixLayout_t layout(cudaDataType_t type, Matrix matrix) {
    cublasLtMatrixLayout_t made = nullptr;
    auto leading = static_cast<int64_t>(matrix.columns);
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&made, type, matrix.rows, matrix.columns, leading),
              CUBLAS_STATUS_SUCCESS);
    int32_t order = CUBLASLT_ORDER_ROW;
    int64_t stride = leading * static_cast<int64_t>(matrix.rows);
    EXPECT_EQ(
        cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof(order)),
        CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                               &matrix.batches, sizeof(matrix.batches)),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                               &stride, sizeof(stride)),
              CUBLAS_STATUS_SUCCESS);
    return made;
  }

  cublasLtMatmulAlgo_t choose(cublasLtMatrixLayout_t la, cublasLtMatrixLayout_t lb,
                              cublasLtMatrixLayout_t lc) {
    cublasLtMatmulHeuristicResult_t result = {};
    int count = 0;
    EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(handle, desc, la, lb, lc, lc, preference, 1, &result,
                                             &count),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(count, 1);
    return result.algo;
  }

  cublasStatus_t multiply(const cublasLtMatmulAlgo_t &algo, CUdeviceptr a,
                          cublasLtMatrixLayout_t la, CUdeviceptr b, cublasLtMatrixLayout_t lb,
                          CUdeviceptr d, cublasLtMatrixLayout_t ld,
                          uint64_t workspaceBytes = 1 << 20) {
    auto pointer = [](CUdeviceptr address) { return reinterpret_cast<void *>(address); };
    return cublasLtMatmul(handle, desc, &alpha, pointer(a), la, pointer(b), lb, &beta, pointer(d),
                          ld, pointer(d), ld, &algo, pointer(workspace), workspaceBytes, stream);
  }

  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  CUdeviceptr workspace = 0;
  float alpha = 1, beta = 0;
};

std::vector<float> numbers(size_t count, int modulus) {
  std::vector<float> result(count);
  for (size_t i = 0; i < count; ++i)
    result[i] = static_cast<float>(static_cast<int>(i * 7 % modulus) - modulus / 2);
  return result;
}

TEST_F(CublasLtTest, BatchedProductInRowOrder) {
  const uint64_t m = 5, n = 7, k = 9;
  std::vector<float> a = numbers(2 * m * k, 11), b = numbers(2 * k * n, 5),
                     c = numbers(2 * m * n, 3);
  CUdeviceptr deviceA = upload(a), deviceB = upload(b), deviceC = upload(c);
  auto la = layout(CUDA_R_32F, {m, k, 2}), lb = layout(CUDA_R_32F, {k, n, 2}),
       lc = layout(CUDA_R_32F, {m, n, 2});
  alpha = 2;
  beta = 3;
  ASSERT_EQ(multiply(choose(la, lb, lc), deviceA, la, deviceB, lb, deviceC, lc),
            CUBLAS_STATUS_SUCCESS);
  std::vector<float> result = download<float>(deviceC, c.size());
  for (uint64_t batch = 0; batch < 2; ++batch)
    for (uint64_t i = 0; i < m; ++i)
      for (uint64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (uint64_t p = 0; p < k; ++p)
          sum += a[(batch * m + i) * k + p] * b[(batch * k + p) * n + j];
        uint64_t at = (batch * m + i) * n + j;
        ASSERT_EQ(result[at], 2 * sum + 3 * c[at]);
      }
}

/// They add up in another order each, so that their last bits tell them apart.
TEST_F(CublasLtTest, TheHeuristicOffersSeveralAlgorithms) {
  const std::vector<float> a = {1.0f, -16777216.0f, 16777216.0f, 0.5f}, b(4, 1.0f);
  CUdeviceptr deviceA = upload(a), deviceB = upload(b), deviceC = allocate(4);
  auto la = layout(CUDA_R_32F, {1, 4}), lb = layout(CUDA_R_32F, {4, 1}),
       lc = layout(CUDA_R_32F, {1, 1});
  cublasLtMatmulHeuristicResult_t offered[8] = {};
  int count = 0;
  ASSERT_EQ(
      cublasLtMatmulAlgoGetHeuristic(handle, desc, la, lb, lc, lc, preference, 8, offered, &count),
      CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(count, 3);
  std::vector<float> sums;
  for (int i = 0; i < count; ++i) {
    ASSERT_EQ(multiply(offered[i].algo, deviceA, la, deviceB, lb, deviceC, lc),
              CUBLAS_STATUS_SUCCESS);
    sums.push_back(download<float>(deviceC, 1)[0]);
  }
  EXPECT_EQ(sums, (std::vector<float>{1.5, 1, 0}));
}

TEST_F(CublasLtTest, TransposedProductOfBf16) {
  const uint64_t m = 4, n = 6, k = 8;
  std::vector<float> a = numbers(k * m, 9), b = numbers(n * k, 7);
  auto halves = [](const std::vector<float> &values) {
    std::vector<uint16_t> result;
    for (float value : values)
      result.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
    return result;
  };
  int32_t transposed = CUBLAS_OP_T;
  for (auto attribute : {CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB})
    ASSERT_EQ(cublasLtMatmulDescSetAttribute(desc, attribute, &transposed, sizeof(transposed)),
              CUBLAS_STATUS_SUCCESS);
  CUdeviceptr deviceA = upload(halves(a)), deviceB = upload(halves(b)),
              deviceD = allocate(m * n * 4);
  auto la = layout(CUDA_R_16BF, {k, m}), lb = layout(CUDA_R_16BF, {n, k}),
       ld = layout(CUDA_R_32F, {m, n});
  ASSERT_EQ(multiply(choose(la, lb, ld), deviceA, la, deviceB, lb, deviceD, ld),
            CUBLAS_STATUS_SUCCESS);
  std::vector<float> result = download<float>(deviceD, m * n);
  for (uint64_t i = 0; i < m; ++i)
    for (uint64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (uint64_t p = 0; p < k; ++p)
        sum += a[p * m + i] * b[j * k + p];
      ASSERT_EQ(result[i * n + j], sum);
    }
}

/// Products of two matrices in order of columns, as the runtime asks for them.
class EpilogueMistakeTest : public CublasLtTest {
protected:
  static constexpr uint64_t kSize = 32;
  void SetUp() override {
    CublasLtTest::SetUp();
    matrix = upload(std::vector<float>(kSize * kSize, 1));
    result = allocate(kSize * kSize * 4);
    ASSERT_EQ(cublasLtMatrixLayoutCreate(&square, CUDA_R_32F, kSize, kSize, kSize),
              CUBLAS_STATUS_SUCCESS);
  }
  template <typename Value> void set(cublasLtMatmulDescAttributes_t attribute, Value value) {
    ASSERT_EQ(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof(value)),
              CUBLAS_STATUS_SUCCESS);
  }
  void setEpilogue(cublasLtEpilogue_t epilogue) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t(epilogue));
  }
  cublasStatus_t run(const cublasLtMatmulAlgo_t &algo) {
    return multiply(algo, matrix, square, matrix, square, result, square);
  }
  std::string refusalOf(const cublasLtMatmulAlgo_t &algo) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(run(algo), CUBLAS_STATUS_INVALID_VALUE);
    return ::testing::internal::GetCapturedStderr();
  }
  void expectSaid(const std::string &said, const std::string &text) {
    EXPECT_NE(said.find(text), std::string::npos) << said;
  }
  CUdeviceptr matrix = 0, result = 0;
  cublasLtMatrixLayout_t square = nullptr;
};

TEST_F(EpilogueMistakeTest, MissingOrMisalignedBias) {
  setEpilogue(CUBLASLT_EPILOGUE_BIAS);
  cublasLtMatmulAlgo_t algo = choose(square, square, square);
  expectSaid(refusalOf(algo), "the epilogue has no bias");
  // The heuristic saw a null pointer, which is aligned to anything.
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, uint64_t(matrix + 4));
  expectSaid(refusalOf(algo), "the bias at");
  EXPECT_EQ(run(choose(square, square, square)), CUBLAS_STATUS_SUCCESS);
}

TEST_F(EpilogueMistakeTest, InputOfGelu) {
  setEpilogue(CUBLASLT_EPILOGUE_DGELU);
  cublasLtMatmulHeuristicResult_t found = {};
  int count = 0;
  auto ask = [&] {
    ::testing::internal::CaptureStderr();
    cublasLtMatmulAlgoGetHeuristic(handle, desc, square, square, square, square, preference, 1,
                                   &found, &count);
    return ::testing::internal::GetCapturedStderr();
  };
  expectSaid(ask(), "leading dimension of 0, which must be a multiple of 8 and at least 32");
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t(36));
  expectSaid(ask(), "leading dimension of 36");
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t(kSize));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, uint64_t(4));
  cublasLtMatmulAlgo_t algo = choose(square, square, square);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, uint64_t(matrix + 8));
  expectSaid(refusalOf(algo), "isn't aligned to 16 bytes");
}

TEST_F(EpilogueMistakeTest, InputOfGeluThatIsTooSmall) {
  setEpilogue(CUBLASLT_EPILOGUE_GELU_AUX);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t(kSize));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, uint64_t(allocate(1024)));
  cublasLtMatmulAlgo_t algo = choose(square, square, square);
  ::testing::internal::CaptureStderr();
  ASSERT_EQ(run(algo), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  expectSaid(::testing::internal::GetCapturedStderr(), "out of bounds");
}

TEST_F(EpilogueMistakeTest, EpiloguesThatThereAreNot) {
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t(CUBLASLT_EPILOGUE_DGELU_BGRAD));
  cublasLtMatmulHeuristicResult_t found = {};
  int count = 0;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(handle, desc, square, square, square, square, preference,
                                           1, &found, &count),
            CUBLAS_STATUS_NOT_SUPPORTED);
  expectSaid(::testing::internal::GetCapturedStderr(), "the emulator lacks epilogue 208");
}

class CublasLtMistakeTest : public CublasLtTest {
protected:
  void SetUp() override {
    CublasLtTest::SetUp();
    matrix = upload(std::vector<float>(64 * 64, 1));
    square = layout(CUDA_R_32F, {32, 32});
    result = allocate(32 * 32 * 4);
  }
  void expectRefusal(cublasStatus_t status, const std::string &text) {
    std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(status, CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_NE(said.find(text), std::string::npos) << said;
  }
  CUdeviceptr matrix = 0, result = 0;
  cublasLtMatrixLayout_t square = nullptr;
};

TEST_F(CublasLtMistakeTest, WorkspaceTooSmall) {
  cublasLtMatmulAlgo_t algo = choose(square, square, square);
  ::testing::internal::CaptureStderr();
  expectRefusal(multiply(algo, matrix, square, matrix, square, result, square, 1024),
                "the workspace has 1024 bytes");
}

TEST_F(CublasLtMistakeTest, AlgorithmOfAnotherProblem) {
  cublasLtMatmulAlgo_t algo = choose(square, square, square);
  auto smaller = layout(CUDA_R_32F, {16, 32}), narrow = layout(CUDA_R_32F, {16, 32});
  ::testing::internal::CaptureStderr();
  expectRefusal(multiply(algo, matrix, smaller, matrix, square, result, narrow),
                "chosen for another problem");
}

TEST_F(CublasLtMistakeTest, ShapesThatDontFit) {
  auto wrong = layout(CUDA_R_32F, {31, 32});
  ::testing::internal::CaptureStderr();
  cublasLtMatmulHeuristicResult_t found = {};
  int count = 0;
  cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, desc, square, wrong, square,
                                                         square, preference, 1, &found, &count);
  expectRefusal(status, "B of 31 x 32");
}

TEST_F(CublasLtMistakeTest, MisalignedMatrix) {
  cublasLtMatmulAlgo_t algo = choose(square, square, square);
  ::testing::internal::CaptureStderr();
  expectRefusal(multiply(algo, matrix + 64, square, matrix, square, result, square),
                "isn't aligned to the 256 bytes");
}

TEST_F(CublasLtMistakeTest, MatrixOutOfBounds) {
  cublasLtMatmulAlgo_t algo = choose(square, square, square);
  ::testing::internal::CaptureStderr();
  ASSERT_EQ(multiply(algo, matrix + 64 * 64 * 4 - 256, square, matrix, square, result, square),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("out of bounds: 4096 bytes"),
            std::string::npos);
}

TEST_F(CublasLtMistakeTest, WorkspaceOfTwoStreams) {
  CUstream first = stream, second = nullptr;
  CUdeviceptr other = allocate(4096);
  ASSERT_EQ(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  cublasLtMatmulAlgo_t algo = choose(square, square, square);
  ::testing::internal::CaptureStderr();
  ASSERT_EQ(multiply(algo, matrix, square, matrix, square, result, square), CUBLAS_STATUS_SUCCESS);
  stream = second;
  ASSERT_EQ(multiply(algo, matrix, square, matrix, square, other, square), CUBLAS_STATUS_SUCCESS);
  stream = first;
  cuStreamSynchronize(first);
  EXPECT_EQ(cuStreamSynchronize(second), CUDA_ERROR_LAUNCH_FAILED);
  std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("race between streams: matmul 32 x 32 x 32"), std::string::npos) << said;
  cuStreamDestroy_v2(second);
}

} // namespace
} // namespace dtc::emulator::test
