// What the emulated cuDNN refuses of attention. What it computes is compared with loops by the
// conformance suite of devices.
#include "EmulatedDevice.h"

#include "CudnnDescriptors.h"

namespace dtc::emulator::test {
namespace {

enum Id : int64_t {
  kQuery,
  kKey,
  kValue,
  kOutput,
  kStats,
  kBias,
  kScale,
  kFill,
  kWindow,
  kKeys,
  kQueries,
  kFirstVirtual
};

/// Attention of 3 queries in 4 heads to 5 keys in 2 heads, of 8 numbers each.
struct Described {
  Dims query = {2, 4, 3, 8}, key = {2, 2, 8, 5}, value = {2, 2, 5, 8}, output = {2, 4, 3, 8},
       stats = {2, 4, 3, 1};
  cudnnDataType_t type = CUDNN_DATA_BFLOAT16, statsType = CUDNN_DATA_FLOAT;
  bool isMasked = true;
  bool isShifted = false; ///< the mask's diagonal ends where queries and keys end
  bool hasWindow = false;
  bool skipsScale = false;   ///< scores go on as they are
  bool readsNothing = false; ///< the sum is over what no operation makes
  Dims bias = {};            ///< of no dimensions where there is none
  cudnnDataType_t biasType = CUDNN_DATA_BFLOAT16;
};

class CudnnAttentionTest : public EmulatedDevice {
protected:
  using Descriptor = cudnnBackendDescriptor_t;

  static Descriptor tensor(int64_t id, const Dims &dims, cudnnDataType_t type,
                           bool isVirtual = false, bool isOfHost = false) {
    Descriptor made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    Dims strides(dims.size(), 1);
    for (size_t i = dims.size(); i-- > 1;)
      strides[i - 1] = strides[i] * dims[i];
    if (id == kKey) // columns of keys follow each other
      strides = {dims[1] * dims[2] * dims[3], dims[2] * dims[3], 1, dims[2]};
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
  Descriptor between(const Dims &dims, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return tensor(nextId++, dims, type, true);
  }
  static Descriptor number(int64_t id, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return tensor(id, {1, 1, 1, 1}, type, false, true);
  }

  using Tensors = std::vector<std::pair<cudnnBackendAttributeName_t, Descriptor>>;
  void add(cudnnBackendDescriptorType_t type, const Tensors &tensors) {
    Descriptor made = make(type);
    for (auto [name, value] : tensors)
      EXPECT_EQ(set(made, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{value}),
                CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnBackendFinalize(made), CUDNN_STATUS_SUCCESS);
    operations.push_back(made);
  }
  Descriptor pointwise(cudnnPointwiseMode_t mode, const std::vector<Descriptor> &inputs,
                       Descriptor output, cudnnDataType_t precision = CUDNN_DATA_FLOAT,
                       int64_t axis = 0) {
    Descriptor kind = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(kind, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, std::vector{mode});
    set(kind, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, std::vector{precision});
    set(kind, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, Dims{axis});
    EXPECT_EQ(cudnnBackendFinalize(kind), CUDNN_STATUS_SUCCESS);
    constexpr cudnnBackendAttributeName_t kInputs[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                       CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                       CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
    Tensors tensors = {{CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind},
                       {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, output}};
    for (size_t i = 0; i < inputs.size(); ++i)
      tensors.emplace_back(kInputs[i], inputs[i]);
    add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, tensors);
    return output;
  }
  Descriptor multiply(Descriptor a, Descriptor b, Descriptor c) {
    Descriptor kind = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(kind, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
    EXPECT_EQ(cudnnBackendFinalize(kind), CUDNN_STATUS_SUCCESS);
    add(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, {{CUDNN_ATTR_OPERATION_MATMUL_DESC, kind},
                                                    {CUDNN_ATTR_OPERATION_MATMUL_ADESC, a},
                                                    {CUDNN_ATTR_OPERATION_MATMUL_BDESC, b},
                                                    {CUDNN_ATTR_OPERATION_MATMUL_CDESC, c}});
    return c;
  }
  Descriptor reduce(cudnnReduceTensorOp_t op, Descriptor x, Descriptor y) {
    Descriptor kind = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(kind, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, std::vector{op});
    set(kind, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
    EXPECT_EQ(cudnnBackendFinalize(kind), CUDNN_STATUS_SUCCESS);
    add(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, {{CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind},
                                                       {CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x},
                                                       {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y}});
    return y;
  }

  Descriptor index(Descriptor scores, const Dims &shape, int64_t axis) {
    return pointwise(CUDNN_POINTWISE_GEN_INDEX, {scores}, between(shape, CUDNN_DATA_INT32),
                     CUDNN_DATA_FLOAT, axis);
  }
  Descriptor where(cudnnPointwiseMode_t mode, Descriptor a, Descriptor b, Descriptor scores,
                   const Dims &shape) {
    Descriptor isSeen =
        pointwise(mode, {a, b}, between(shape, CUDNN_DATA_BOOLEAN), CUDNN_DATA_BOOLEAN);
    return pointwise(CUDNN_POINTWISE_BINARY_SELECT, {scores, number(kFill), isSeen},
                     between(shape));
  }
  Descriptor mask(Descriptor scores, const Dims &shape, bool isShifted) {
    Descriptor row = index(scores, shape, 2), column = index(scores, shape, 3);
    auto shift = [&](cudnnPointwiseMode_t mode, Id by) {
      row = pointwise(mode, {row, number(by, CUDNN_DATA_INT32)}, between(shape, CUDNN_DATA_INT32),
                      CUDNN_DATA_INT32);
    };
    if (isShifted) {
      shift(CUDNN_POINTWISE_ADD, kKeys);
      shift(CUDNN_POINTWISE_SUB, kQueries);
    }
    return where(CUDNN_POINTWISE_CMP_GE, row, column, scores, shape);
  }
  Descriptor windowMask(Descriptor scores, const Dims &shape) {
    Descriptor row = index(scores, shape, 2), column = index(scores, shape, 3);
    column = pointwise(CUDNN_POINTWISE_ADD, {column, number(kWindow)}, between(shape));
    return where(CUDNN_POINTWISE_CMP_GT, column, row, scores, shape);
  }

  cudnnStatus_t finish(const Described &described) {
    operations.clear();
    Dims scores = {2, 4, 3, 5}, rows = {2, 4, 3, 1};
    Descriptor s = multiply(tensor(kQuery, described.query, described.type),
                            tensor(kKey, described.key, described.type), between(scores));
    if (!described.skipsScale)
      s = pointwise(CUDNN_POINTWISE_MUL, {s, number(kScale)}, between(scores));
    if (!described.bias.empty())
      s = pointwise(CUDNN_POINTWISE_ADD, {s, tensor(kBias, described.bias, described.biasType)},
                    between(scores));
    if (described.isMasked)
      s = mask(s, scores, described.isShifted);
    if (described.hasWindow)
      s = windowMask(s, scores);
    Descriptor most = reduce(CUDNN_REDUCE_TENSOR_MAX, s, between(rows));
    s = pointwise(CUDNN_POINTWISE_SUB, {s, most}, between(scores));
    s = pointwise(CUDNN_POINTWISE_EXP, {s}, between(scores));
    Descriptor total = reduce(CUDNN_REDUCE_TENSOR_ADD, described.readsNothing ? between(scores) : s,
                              between(rows));
    pointwise(CUDNN_POINTWISE_ADD, {most, pointwise(CUDNN_POINTWISE_LOG, {total}, between(rows))},
              tensor(kStats, described.stats, described.statsType));
    s = pointwise(CUDNN_POINTWISE_DIV, {s, total}, between(scores, CUDNN_DATA_BFLOAT16));
    multiply(s, tensor(kValue, described.value, described.type),
             tensor(kOutput, described.output, described.type));
    cudnnHandle_t library = nullptr;
    EXPECT_EQ(cudnnCreate(&library), CUDNN_STATUS_SUCCESS);
    Descriptor graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, std::vector{library});
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations);
    cudnnStatus_t status = cudnnBackendFinalize(graph);
    EXPECT_EQ(cudnnDestroy(library), CUDNN_STATUS_SUCCESS);
    return status;
  }

  void expectRefusal(const Described &described, cudnnStatus_t status, const std::string &text) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(finish(described), status);
    std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(text), std::string::npos) << said;
  }

private:
  std::vector<Descriptor> operations;
  int64_t nextId = kFirstVirtual;
};

TEST_F(CudnnAttentionTest, WithAndWithoutMask) {
  EXPECT_EQ(finish({}), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(finish({.isShifted = true}), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(finish({.isMasked = false}), CUDNN_STATUS_SUCCESS);
}

TEST_F(CudnnAttentionTest, WindowBehindMask) {
  EXPECT_EQ(finish({.hasWindow = true}), CUDNN_STATUS_SUCCESS);
  expectRefusal({.hasWindow = true, .bias = {1, 4, 3, 5}}, CUDNN_STATUS_NOT_SUPPORTED,
                "no engine for the graph: product mul add index index ge select");
  expectRefusal({.isMasked = false, .hasWindow = true}, CUDNN_STATUS_NOT_SUPPORTED,
                "no engine for the graph: product mul index index add gt select max");
}

TEST_F(CudnnAttentionTest, Biases) {
  EXPECT_EQ(finish({.bias = {1, 4, 3, 5}}), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(finish({.isMasked = false, .bias = {1, 4, 3, 5}}), CUDNN_STATUS_SUCCESS);
}

TEST_F(CudnnAttentionTest, BiasesThatDontFit) {
  expectRefusal({.bias = {2, 2, 3, 5}}, CUDNN_STATUS_BAD_PARAM, "operands of attention don't fit");
  const char *text = "for each score of a sample";
  for (const Dims &dims : {Dims{2, 1, 1, 5}, Dims{1, 1, 3, 5}, Dims{2, 4, 3, 5}, Dims{1, 4, 3, 1}})
    expectRefusal({.bias = dims}, CUDNN_STATUS_NOT_SUPPORTED, text);
  expectRefusal({.bias = {1, 4, 3, 5}, .biasType = CUDNN_DATA_FLOAT}, CUDNN_STATUS_NOT_SUPPORTED,
                text);
}

/// True cuDNN plans such, and writes wrong gradients.
TEST_F(CudnnAttentionTest, BiasesBesideAShiftedDiagonal) {
  for (bool hasWindow : {false, true})
    expectRefusal({.isShifted = true, .hasWindow = hasWindow, .bias = {1, 4, 3, 5}},
                  CUDNN_STATUS_NOT_SUPPORTED,
                  "no engine for the graph: product mul add index index add sub ge select");
}

TEST_F(CudnnAttentionTest, OperandsThatDontFit) {
  const char *text = "operands of attention don't fit";
  expectRefusal({.key = {2, 3, 8, 5}}, CUDNN_STATUS_BAD_PARAM, text);
  expectRefusal({.output = {2, 3, 4, 8}}, CUDNN_STATUS_BAD_PARAM, text);
  expectRefusal({.stats = {2, 3, 4, 1}}, CUDNN_STATUS_BAD_PARAM, text);
  expectRefusal({.readsNothing = true}, CUDNN_STATUS_BAD_PARAM, "reads what none before it makes");
}

TEST_F(CudnnAttentionTest, WhatHasNoEngine) {
  expectRefusal({.type = CUDNN_DATA_FLOAT}, CUDNN_STATUS_NOT_SUPPORTED, "bf16 or fp16");
  expectRefusal({.statsType = CUDNN_DATA_BFLOAT16}, CUDNN_STATUS_NOT_SUPPORTED,
                "no attention of heads of 1");
  expectRefusal({.query = {2, 4, 3, 12}, .key = {2, 2, 12, 5}}, CUDNN_STATUS_NOT_SUPPORTED,
                "no attention of heads of 12");
  expectRefusal({.skipsScale = true}, CUDNN_STATUS_NOT_SUPPORTED,
                "no engine for the graph: product index index ge select max");
}

} // namespace
} // namespace dtc::emulator::test
