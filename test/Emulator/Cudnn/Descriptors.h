// What cuDNN's opaque descriptors hold.
#pragma once

#include "Emulator/Cudnn/Operation.h"
#include "Emulator/Driver/Handles.h"

#include <cstring>
#include <map>

namespace dtc::emulator {

struct GraphStep;

/// What the emulated cuDNN offers for an operation, best first as a heuristic would. A program that
/// doesn't read an engine's notes, or what workspace its plan needs, takes a wrong one.
struct Engine {
  std::vector<cuda::cudnnBackendNumericalNote_t> notes;
  bool roundsToTF32 = false; ///< operands of fp32
  bool needsHugeWorkspace = false;

  uint64_t workspaceBytes(const CudnnOperation &operation) const;
};

const Engine &engineAt(int number);
/// The numbers of the engines for a mode.
std::vector<int> enginesFor(cuda::cudnnBackendHeurMode_t mode);

class BackendDescriptor {
public:
  static constexpr const char *kWhat = "descriptor of cuDNN";

  explicit BackendDescriptor(cuda::cudnnBackendDescriptorType_t type);

  cuda::cudnnBackendDescriptorType_t type() const { return ownType; }
  /// Throws a Fault where the attribute isn't one of this descriptor, or has another type.
  void set(cuda::cudnnBackendAttributeName_t name, cuda::cudnnBackendAttributeType_t type,
           int64_t count, const void *elements);
  /// Checks that nothing is missing and that all fits together.
  void finalize();
  void requireFinal() const;

  template <typename T> std::vector<T> all(cuda::cudnnBackendAttributeName_t name) const {
    const std::vector<std::byte> &bytes = bytesOf(name);
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return values;
  }
  template <typename T> T one(cuda::cudnnBackendAttributeName_t name) const {
    return all<T>(name).at(0);
  }

  /// Of a convolution, of a graph, and of all that is made of it.
  std::shared_ptr<const CudnnOperation> operation;
  /// Of another operation of a graph.
  std::shared_ptr<const GraphStep> step;
  /// Of an engine, its configuration and its plan.
  void setEngine(std::shared_ptr<const CudnnOperation> of, int number);
  const Engine &engine() const { return engineAt(engineNumber); }
  int number() const { return engineNumber; }

private:
  bool has(cuda::cudnnBackendAttributeName_t name) const { return attributes.contains(name); }
  const std::vector<std::byte> &bytesOf(cuda::cudnnBackendAttributeName_t name) const;
  const BackendDescriptor &nested(cuda::cudnnBackendAttributeName_t name) const;
  double scale(cuda::cudnnBackendAttributeName_t name) const;
  CudnnTensor tensor() const;
  void finalizeConvolution();
  void finalizeStep();
  void finalizeGraph();

  cuda::cudnnBackendDescriptorType_t ownType;
  bool isFinal = false;
  std::map<cuda::cudnnBackendAttributeName_t, std::vector<std::byte>> attributes;
  int engineNumber = 0;
};

} // namespace dtc::emulator
