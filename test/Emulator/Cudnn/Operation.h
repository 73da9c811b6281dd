// What a graph of the emulated cuDNN computes: a convolution or attention.
#pragma once

#include "Emulator/Device/AccessHistory.h"
#include "Emulator/Device/Fault.h"
#include "Emulator/Device/FloatElements.h"
#include "dtc-cuda/Cudnn.h"

#include <cstdint>
#include <map>
#include <string>

namespace dtc::emulator {

class DeviceMemory;

/// What a caller does wrong is a bad parameter. Static, as a program may load several
/// libraries.
template <typename... Part>
static void require(bool condition, std::string_view start, const Part &...parts) {
  require(condition, cuda::CUDNN_STATUS_BAD_PARAM, start, parts...);
}

struct CudnnTensor {
  FloatKind kind = FloatKind::F32;
  std::vector<int64_t> dims, strides; // in elements
  int64_t alignment = 1, id = 0;
  bool isVirtual = false; ///< lies in no memory
  bool isOfHost = false;  ///< one number in the memory of the host
  bool isInteger = false; ///< or a truth; in no memory of the device

  int64_t elements() const;
  /// Bytes from the first element to the end of the last one.
  uint64_t extent() const;
  std::string text() const;
  /// Adds the bytes of its elements, and none between them.
  void addTo(std::vector<Range> &ranges, uint64_t address) const;
};

/// An operation on addresses.
struct CudnnCall {
  std::map<int64_t, uint64_t> addresses; ///< on the device, by a tensor's id
  std::map<int64_t, double> hostNumbers; ///< as they were when it was called
  uint64_t workspace = 0, workspaceBytes = 0;
  bool roundsToTF32 = false; ///< operands of fp32
};

class CudnnOperation {
public:
  virtual ~CudnnOperation() = default;
  /// What a call has an address for.
  virtual std::vector<CudnnTensor> tensors() const = 0;
  virtual uint64_t workspaceBytes() const = 0;
  virtual std::string text() const = 0;
  /// Throws a Fault for numbers of the host that don't fit.
  virtual void checkNumbers(const CudnnCall &) const {}
  /// Computes the results, overwrites the workspace, and says what was read and written.
  virtual Accesses run(const CudnnCall &call, const DeviceMemory &memory) const = 0;
};

enum class ConvKind { Forward, BackwardData, BackwardFilter };

struct Convolution : CudnnOperation {
  ConvKind kind = ConvKind::Forward;
  CudnnTensor input, weight, output;
  std::vector<int64_t> strides, pre, post, dilations;
  double alpha = 1, beta = 0;

  const CudnnTensor &result() const;
  /// Throws a Fault where the shapes contradict each other or the emulator lacks something.
  void check() const;

  std::vector<CudnnTensor> tensors() const override { return {input, weight, output}; }
  uint64_t workspaceBytes() const override;
  std::string text() const override;
  Accesses run(const CudnnCall &call, const DeviceMemory &memory) const override;
};

/// Calls visit(number in the dense order, element in memory) for each element.
template <typename Visit> void forEachElement(const CudnnTensor &tensor, Visit &&visit) {
  std::vector<int64_t> index(tensor.dims.size(), 0);
  int64_t place = 0;
  for (int64_t number = 0; number < tensor.elements(); ++number) {
    visit(number, place);
    for (size_t dim = index.size(); dim-- > 0;) {
      place += tensor.strides[dim];
      if (++index[dim] < tensor.dims[dim])
        break;
      place -= tensor.strides[dim] * tensor.dims[dim];
      index[dim] = 0;
    }
  }
}

/// The elements of a tensor in dense order.
std::vector<double> loadDense(const CudnnTensor &tensor, uint64_t address,
                              const DeviceMemory &memory);
void storeDense(const CudnnTensor &tensor, const std::vector<double> &values, uint64_t address,
                const DeviceMemory &memory);
/// As an element of this kind.
double rounded(double value, FloatKind kind);

/// Whatever else lies in the workspace is lost, as with a true library.
void overwriteWorkspace(const CudnnCall &call, const DeviceMemory &memory, Accesses &accesses);
/// Puts ranges in order. What is read twice is read once; throws a Fault for what is written twice.
void sortByAddress(Accesses &accesses);

} // namespace dtc::emulator
