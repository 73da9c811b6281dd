#include "CudnnDescriptor.h"

#include <algorithm>

namespace dtc::rt::cuda {

Descriptor::Descriptor(const Cudnn &library, cudnnBackendDescriptorType_t type)
    : cudnn(library),
      status(DTC_CUDA_CALL(library, cudnnBackendCreateDescriptor, type, &descriptor)) {}

Descriptor::~Descriptor() {
  if (descriptor)
    cudnn.cudnnBackendDestroyDescriptor(descriptor);
}

Descriptor &Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                            int64_t count, const void *values) {
  if (status.isOk())
    status = DTC_CUDA_CALL(cudnn, cudnnBackendSetAttribute, descriptor, name, type, count, values);
  return *this;
}

Descriptor &Descriptor::set(cudnnBackendAttributeName_t name,
                            const std::vector<Descriptor *> &values) {
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const Descriptor *value : values)
    handles.push_back(value->descriptor);
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(handles.size()),
             static_cast<const void *>(handles.data()));
}

Status Descriptor::finish() {
  if (status.isOk())
    status = DTC_CUDA_CALL(cudnn, cudnnBackendFinalize, descriptor);
  return status;
}

Result<int64_t> Descriptor::get(cudnnBackendAttributeName_t name,
                                std::span<const std::unique_ptr<Descriptor>> into) const {
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const std::unique_ptr<Descriptor> &each : into) {
    DTC_CUDA_TRY(each->status);
    handles.push_back(each->descriptor);
  }
  int64_t count = 0;
  DTC_CUDA_TRY(DTC_CUDA_CALL(cudnn, cudnnBackendGetAttribute, descriptor, name,
                             CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(handles.size()),
                             &count, static_cast<void *>(handles.data())));
  return std::min(count, static_cast<int64_t>(handles.size()));
}

Result<int64_t> Descriptor::getNumber(cudnnBackendAttributeName_t name) const {
  int64_t count = 0, value = 0;
  DTC_CUDA_TRY(DTC_CUDA_CALL(cudnn, cudnnBackendGetAttribute, descriptor, name, CUDNN_TYPE_INT64, 1,
                             &count, &value));
  return value;
}

Result<std::vector<cudnnBackendNumericalNote_t>> Descriptor::getNotes() const {
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  int64_t count = 0;
  DTC_CUDA_TRY(DTC_CUDA_CALL(cudnn, cudnnBackendGetAttribute, descriptor,
                             CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                             CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes.data()));
  notes.resize(std::min<size_t>(count, notes.size()));
  return notes;
}

} // namespace dtc::rt::cuda
