// What the emulated cuDNN refuses of attention. What it computes is compared with loops by the
// conformance suite of devices.
#include "EmulatedDevice.h"

#include "CudnnDescriptors.h"

namespace dtc::emulator::test {
namespace {

constexpr int64_t kScores = 16, kMasked = 17, kFill = 18;

/// Attention of 3 queries in 4 heads to 5 keys in 2 heads, of 8 numbers each.
struct Described {
  Dims query = {2, 4, 3, 8}, key = {2, 2, 5, 8}, value = {2, 2, 5, 8}, output = {2, 4, 3, 8},
       stats = {2, 4, 3, 1}, scores = {2, 4, 3, 5};
  cudnnDataType_t type = CUDNN_DATA_BFLOAT16, statsType = CUDNN_DATA_FLOAT;
  bool isMasked = true;
  int64_t maskOutput = kMasked;
};

class CudnnAttentionTest : public EmulatedDevice {
protected:
  static cudnnBackendDescriptor_t tensor(int64_t id, const Dims &dims, cudnnDataType_t type,
                                         bool isVirtual = false, bool isOfHost = false) {
    cudnnBackendDescriptor_t made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    Dims strides(dims.size(), 1);
    for (size_t i = dims.size(); i-- > 1;)
      strides[i - 1] = strides[i] * dims[i];
    set(made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{type});
    set(made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims);
    set(made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
    set(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, Dims{id});
    set(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, Dims{16});
    set(made, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, std::vector<char>{isVirtual});
    set(made, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, std::vector<char>{isOfHost});
    EXPECT_EQ(cudnnBackendFinalize(made), CUDNN_STATUS_SUCCESS);
    return made;
  }

  static void give(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                   cudnnBackendDescriptor_t value) {
    EXPECT_EQ(set(to, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{value}),
              CUDNN_STATUS_SUCCESS);
  }

  static cudnnBackendDescriptor_t maskOf(const Dims &scores) {
    cudnnBackendDescriptor_t mask = make(CUDNN_BACKEND_OPERATION_DIAGONAL_BAND_MASK_DESCRIPTOR);
    give(mask, CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_XDESC,
         tensor(kScores, scores, CUDNN_DATA_FLOAT, true));
    give(mask, CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_YDESC,
         tensor(kMasked, scores, CUDNN_DATA_FLOAT, true));
    give(mask, CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_BDESC,
         tensor(kFill, {1, 1, 1, 1}, CUDNN_DATA_FLOAT, false, true));
    set(mask, CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_COMPARISON_MODE, CUDNN_TYPE_POINTWISE_MODE,
        std::vector{CUDNN_POINTWISE_CMP_GE});
    EXPECT_EQ(cudnnBackendFinalize(mask), CUDNN_STATUS_SUCCESS);
    cudnnBackendDescriptor_t graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    give(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, mask);
    EXPECT_EQ(cudnnBackendFinalize(graph), CUDNN_STATUS_SUCCESS);
    return graph;
  }

  static cudnnStatus_t finish(const Described &described) {
    cudnnBackendDescriptor_t made = make(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
    give(made, CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, tensor(0, described.query, described.type));
    give(made, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, tensor(1, described.key, described.type));
    give(made, CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, tensor(2, described.value, described.type));
    give(made, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, tensor(3, described.output, described.type));
    give(made, CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC,
         tensor(4, described.stats, described.statsType));
    if (described.isMasked) {
      give(made, CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH, maskOf(described.scores));
      set(made, CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_INPUT_UID, CUDNN_TYPE_INT64, Dims{kScores});
      set(made, CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_OUTPUT_UID, CUDNN_TYPE_INT64,
          Dims{described.maskOutput});
    }
    return cudnnBackendFinalize(made);
  }

  static void expectRefusal(const Described &described, cudnnStatus_t status,
                            const std::string &text) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(finish(described), status);
    std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(text), std::string::npos) << said;
  }
};

TEST_F(CudnnAttentionTest, WithAndWithoutMask) {
  EXPECT_EQ(finish({}), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(finish({.isMasked = false}), CUDNN_STATUS_SUCCESS);
}

TEST_F(CudnnAttentionTest, OperandsThatDontFit) {
  expectRefusal({.key = {2, 3, 5, 8}}, CUDNN_STATUS_BAD_PARAM, "operands of attention don't fit");
  expectRefusal({.output = {2, 3, 4, 8}}, CUDNN_STATUS_BAD_PARAM,
                "operands of attention don't fit");
  expectRefusal({.stats = {2, 3, 4, 1}}, CUDNN_STATUS_BAD_PARAM, "statistics of attention");
  expectRefusal({.statsType = CUDNN_DATA_BFLOAT16}, CUDNN_STATUS_BAD_PARAM,
                "statistics of attention");
}

TEST_F(CudnnAttentionTest, MasksThatDontFit) {
  expectRefusal({.scores = {2, 4, 5, 3}}, CUDNN_STATUS_BAD_PARAM, "the mask has other dimensions");
  expectRefusal({.maskOutput = kScores}, CUDNN_STATUS_BAD_PARAM, "other ends");
}

TEST_F(CudnnAttentionTest, WhatHasNoEngine) {
  expectRefusal({.type = CUDNN_DATA_FLOAT}, CUDNN_STATUS_NOT_SUPPORTED, "bf16 or fp16");
  expectRefusal({.query = {2, 4, 3, 12}, .key = {2, 2, 5, 12}}, CUDNN_STATUS_NOT_SUPPORTED,
                "no attention of heads of 12");
}

} // namespace
} // namespace dtc::emulator::test
