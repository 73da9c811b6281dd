// Descriptors of cuDNN, as tests make them.
#pragma once

#include "dtc-cuda/Cudnn.h"

#include <gtest/gtest.h>

#include <vector>

#define DTC_CUDA_FUNCTION(result, name, ...) extern "C" result name(__VA_ARGS__);
namespace dtc::cuda {
#include "dtc-cuda/CudnnFunctions.def"
} // namespace dtc::cuda

namespace dtc::emulator::test {

using namespace dtc::cuda;
using Dims = std::vector<int64_t>;

inline cudnnBackendDescriptor_t make(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t made = nullptr;
  EXPECT_EQ(cudnnBackendCreateDescriptor(type, &made), CUDNN_STATUS_SUCCESS);
  return made;
}

template <typename T>
cudnnStatus_t set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type, const std::vector<T> &values) {
  return cudnnBackendSetAttribute(descriptor, name, type, static_cast<int64_t>(values.size()),
                                  values.data());
}

} // namespace dtc::emulator::test
