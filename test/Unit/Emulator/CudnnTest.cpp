// The emulated cuDNN against plain loops, and what it refuses.
#include "EmulatedDevice.h"

#include "CudnnDescriptors.h"

namespace dtc::emulator::test {

namespace {

constexpr int64_t kInput = 1, kWeight = 2, kOutput = 3;

/// A convolution of one image of 4x5 with one window of 3x2, steps of 1, no padding.
class CudnnTest : public EmulatedDevice {
protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    ASSERT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudnnSetStream(handle, stream), CUDNN_STATUS_SUCCESS);
  }

  static cudnnBackendDescriptor_t tensor(int64_t id, const Dims &dims) {
    cudnnBackendDescriptor_t made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
    set(made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims);
    Dims strides = {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
    set(made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
    set(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, Dims{id});
    set(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, Dims{16});
    EXPECT_EQ(cudnnBackendFinalize(made), CUDNN_STATUS_SUCCESS);
    return made;
  }

  static cudnnBackendDescriptor_t window() {
    cudnnBackendDescriptor_t made = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(made, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
        std::vector{CUDNN_DATA_FLOAT});
    set(made, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
        std::vector{CUDNN_CROSS_CORRELATION});
    set(made, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, Dims{2});
    for (auto name : {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_ATTR_CONVOLUTION_DILATIONS})
      set(made, name, CUDNN_TYPE_INT64, Dims{1, 1});
    for (auto name : {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS})
      set(made, name, CUDNN_TYPE_INT64, Dims{0, 0});
    EXPECT_EQ(cudnnBackendFinalize(made), CUDNN_STATUS_SUCCESS);
    return made;
  }

  /// The forward operation, not finished.
  static cudnnBackendDescriptor_t operation(const Dims &output) {
    cudnnBackendDescriptor_t made = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    auto give = [&](cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value) {
      EXPECT_EQ(set(made, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{value}),
                CUDNN_STATUS_SUCCESS);
    };
    give(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, window());
    give(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, tensor(kInput, {1, 1, 4, 5}));
    give(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, tensor(kWeight, {1, 1, 3, 2}));
    give(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, tensor(kOutput, output));
    set(made, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, std::vector{2.0F});
    set(made, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, std::vector{0.0F});
    return made;
  }

  /// The plan of the engine that keeps fp32 exact and needs little workspace.
  cudnnBackendDescriptor_t plan() {
    cudnnBackendDescriptor_t forward = operation({1, 1, 2, 4});
    EXPECT_EQ(cudnnBackendFinalize(forward), CUDNN_STATUS_SUCCESS);
    cudnnBackendDescriptor_t graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{forward});
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle});
    EXPECT_EQ(cudnnBackendFinalize(graph), CUDNN_STATUS_SUCCESS);
    cudnnBackendDescriptor_t heuristic = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        std::vector{graph});
    set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE,
        std::vector{CUDNN_HEUR_MODE_FALLBACK});
    EXPECT_EQ(cudnnBackendFinalize(heuristic), CUDNN_STATUS_SUCCESS);
    cudnnBackendDescriptor_t configuration = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    int64_t count = 0;
    EXPECT_EQ(cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &configuration),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(count, 1);
    cudnnBackendDescriptor_t made = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(made, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        std::vector{configuration});
    set(made, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle});
    EXPECT_EQ(cudnnBackendFinalize(made), CUDNN_STATUS_SUCCESS);
    return made;
  }

  cudnnStatus_t execute(const Dims &ids, const std::vector<CUdeviceptr> &addresses,
                        CUdeviceptr workspace) {
    cudnnBackendDescriptor_t pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids);
    set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, addresses);
    set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, std::vector{workspace});
    EXPECT_EQ(cudnnBackendFinalize(pack), CUDNN_STATUS_SUCCESS);
    return cudnnBackendExecute(handle, plan(), pack);
  }

  void expectRefusal(cudnnStatus_t status, const std::string &text) {
    std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(status, CUDNN_STATUS_BAD_PARAM);
    EXPECT_NE(said.find(text), std::string::npos) << said;
  }

  cudnnHandle_t handle = nullptr;
};

std::vector<float> numbers(size_t count) {
  std::vector<float> result(count);
  for (size_t i = 0; i < count; ++i)
    result[i] = static_cast<float>(i * 7 % 11);
  return result;
}

TEST_F(CudnnTest, Forward) {
  std::vector<float> x = numbers(20), w = numbers(6);
  CUdeviceptr y = allocate(8 * 4);
  ASSERT_EQ(execute({kInput, kWeight, kOutput}, {upload(x), upload(w), y}, allocate(4096)),
            CUDNN_STATUS_SUCCESS);
  std::vector<float> result = download<float>(y, 8);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j) {
      float sum = 0;
      for (int p = 0; p < 3; ++p)
        for (int q = 0; q < 2; ++q)
          sum += x[(i + p) * 5 + j + q] * w[p * 2 + q];
      ASSERT_EQ(result[i * 4 + j], 2 * sum);
    }
}

TEST_F(CudnnTest, WindowsThatDontFit) {
  ::testing::internal::CaptureStderr();
  expectRefusal(cudnnBackendFinalize(operation({1, 1, 4, 4})), "windows don't fit");
}

TEST_F(CudnnTest, AttributeOfAnotherType) {
  ::testing::internal::CaptureStderr();
  cudnnBackendDescriptor_t made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  expectRefusal(set(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_DATA_TYPE, Dims{1}),
                "isn't one of a descriptor");
}

TEST_F(CudnnTest, MissingAddress) {
  CUdeviceptr x = upload(numbers(20)), w = upload(numbers(6));
  ::testing::internal::CaptureStderr();
  expectRefusal(execute({kInput, kWeight}, {x, w}, allocate(4096)), "no address for the tensor 3");
}

TEST_F(CudnnTest, MisalignedTensor) {
  CUdeviceptr x = upload(numbers(21)), w = upload(numbers(6));
  ::testing::internal::CaptureStderr();
  expectRefusal(execute({kInput, kWeight, kOutput}, {x + 4, w, allocate(32)}, allocate(4096)),
                "isn't aligned to the 16 bytes");
}

TEST_F(CudnnTest, WorkspaceTooSmall) {
  CUdeviceptr x = upload(numbers(20)), w = upload(numbers(6)), y = allocate(32);
  ::testing::internal::CaptureStderr();
  ASSERT_EQ(execute({kInput, kWeight, kOutput}, {x, w, y}, allocate(16)), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("out of bounds"), std::string::npos);
}

} // namespace

} // namespace dtc::emulator::test
