// Descriptors of cuDNN's backend: made, given their attributes, and finished.
//
//   Descriptor tensor(cudnn, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
//   tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, int64_t(1)).set(CUDNN_ATTR_TENSOR_DIMENSIONS, shape);
//   Status status = tensor.finish(); // the first call that failed
#pragma once

#include "Libraries.h"

#include <span>
#include <vector>

namespace dtc::rt::cuda {

template <typename> struct CudnnType;
template <cudnnBackendAttributeType_t Code> struct CudnnTypeCode {
  static constexpr cudnnBackendAttributeType_t code = Code;
};
template <> struct CudnnType<cudnnHandle_t> : CudnnTypeCode<CUDNN_TYPE_HANDLE> {};
template <> struct CudnnType<cudnnDataType_t> : CudnnTypeCode<CUDNN_TYPE_DATA_TYPE> {};
template <> struct CudnnType<bool> : CudnnTypeCode<CUDNN_TYPE_BOOLEAN> {};
template <> struct CudnnType<int64_t> : CudnnTypeCode<CUDNN_TYPE_INT64> {};
template <> struct CudnnType<float> : CudnnTypeCode<CUDNN_TYPE_FLOAT> {};
template <> struct CudnnType<double> : CudnnTypeCode<CUDNN_TYPE_DOUBLE> {};
template <>
struct CudnnType<cudnnConvolutionMode_t> : CudnnTypeCode<CUDNN_TYPE_CONVOLUTION_MODE> {};
template <> struct CudnnType<cudnnPointwiseMode_t> : CudnnTypeCode<CUDNN_TYPE_POINTWISE_MODE> {};
template <>
struct CudnnType<cudnnReduceTensorOp_t> : CudnnTypeCode<CUDNN_TYPE_REDUCTION_OPERATOR_TYPE> {};
template <> struct CudnnType<cudnnBackendHeurMode_t> : CudnnTypeCode<CUDNN_TYPE_HEUR_MODE> {};

class Descriptor {
public:
  Descriptor(const Cudnn &library, cudnnBackendDescriptorType_t type);
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor();

  template <typename T> Descriptor &set(cudnnBackendAttributeName_t name, const T &value) {
    return set(name, CudnnType<T>::code, 1, static_cast<const void *>(&value));
  }
  template <typename T>
  Descriptor &set(cudnnBackendAttributeName_t name, const std::vector<T> &values) {
    return set(name, CudnnType<T>::code, static_cast<int64_t>(values.size()),
               static_cast<const void *>(values.data()));
  }
  Descriptor &set(cudnnBackendAttributeName_t name, const Descriptor &value) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
               static_cast<const void *>(&value.descriptor));
  }
  Descriptor &set(cudnnBackendAttributeName_t name, const std::vector<Descriptor *> &values);
  Descriptor &setPointers(cudnnBackendAttributeName_t name, std::span<void *const> pointers) {
    return set(name, CUDNN_TYPE_VOID_PTR, static_cast<int64_t>(pointers.size()),
               static_cast<const void *>(pointers.data()));
  }
  Status finish();

  /// Fills descriptors that were made for it, and returns how many.
  Result<int64_t> get(cudnnBackendAttributeName_t name,
                      std::span<const std::unique_ptr<Descriptor>> into) const;
  Result<int64_t> getNumber(cudnnBackendAttributeName_t name) const;
  Result<std::vector<cudnnBackendNumericalNote_t>> getNotes() const;

  cudnnBackendDescriptor_t handle() const { return descriptor; }

private:
  Descriptor &set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                  const void *values);

  const Cudnn &cudnn;
  cudnnBackendDescriptor_t descriptor = nullptr;
  Status status;
};

} // namespace dtc::rt::cuda
