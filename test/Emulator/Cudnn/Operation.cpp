#include "Emulator/Cudnn/Operation.h"

#include "Emulator/Device/DeviceMemory.h"

#include <algorithm>
#include <cstring>

namespace dtc::emulator {

std::vector<double> loadDense(const CudnnTensor &tensor, uint64_t address,
                              const DeviceMemory &memory) {
  std::vector<double> values(tensor.elements());
  const std::byte *first = memory.hostAddress(address);
  forEachElement(tensor, [&](int64_t number, int64_t place) {
    values[number] = loadFloat(first + place * bytesOf(tensor.kind), tensor.kind);
  });
  return values;
}

void storeDense(const CudnnTensor &tensor, const std::vector<double> &values, uint64_t address,
                const DeviceMemory &memory) {
  std::byte *first = memory.hostAddress(address);
  forEachElement(tensor, [&](int64_t number, int64_t place) {
    storeFloat(first + place * bytesOf(tensor.kind), tensor.kind, values[number]);
  });
}

double rounded(double value, FloatKind kind) {
  std::byte bytes[sizeof(double)];
  storeFloat(bytes, kind, value);
  return loadFloat(bytes, kind);
}

int64_t CudnnTensor::elements() const {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= dim;
  return count;
}

uint64_t CudnnTensor::extent() const {
  int64_t last = 0;
  for (size_t dim = 0; dim < dims.size(); ++dim)
    last += (dims[dim] - 1) * strides[dim];
  return (last + 1) * bytesOf(kind);
}

std::string CudnnTensor::text() const {
  std::string text;
  for (int64_t dim : dims)
    text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text;
}

void overwriteWorkspace(const CudnnCall &call, const DeviceMemory &memory, Accesses &accesses) {
  if (call.workspaceBytes == 0)
    return;
  memory.translate(call.workspace, call.workspaceBytes);
  std::memset(memory.hostAddress(call.workspace), 0xff, call.workspaceBytes);
  accesses.writes.push_back({call.workspace, call.workspace + call.workspaceBytes});
}

void CudnnTensor::addTo(std::vector<Range> &ranges, uint64_t address) const {
  const uint64_t size = bytesOf(kind);
  forEachElement(*this, [&](int64_t, int64_t place) {
    append(ranges, {address + place * size, address + (place + 1) * size});
  });
}

void sortByAddress(Accesses &accesses) {
  sortAndJoin(accesses.reads);
  require(!sortAndJoin(accesses.writes), "results lie over each other, or over the workspace");
}

} // namespace dtc::emulator
