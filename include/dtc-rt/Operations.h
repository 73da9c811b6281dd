// What a device can be asked to do, as plain data. The executor makes these from the instructions
// of a program. A device prepares each once and then issues it many times, with the addresses of a
// call:
//
//   MatmulSpec{...}        a, b, c, vector, matrix, addend, scratch
//   CollectiveSpec{...}    source 0, target 0, source 1, target 1, ...
//
// Every spec says which addresses it takes. Scratch comes last, and only where
// its size isn't 0.
#pragma once

#include "dtc-rt/Communicator.h"
#include "dtc-rt/Program/TensorCalls.h"

#include <optional>
#include <string>
#include <variant>

namespace dtc::rt {

/// How a GPU runs a kernel.
struct LaunchGeometry {
  uint32_t blocks = 1, threads = 1; ///< threads: of each block
  uint32_t sharedBytes = 0;         ///< of dynamic shared memory, a block
};

/// A kernel of the loaded code over [0, extent). Addresses: arguments, scratch.
struct LaunchSpec {
  std::string kernel;
  size_t numArguments = 0;
  uint64_t extent = 0, grain = 1;
  uint64_t scratchPerThread = 0;
  std::optional<LaunchGeometry> geometry = {}; ///< of a GPU's kernels
};

/// Addresses: a, b, c; of the epilogue its vector and its matrix, where it has them; the addend,
/// where there is one; scratch.
struct MatmulSpec {
  MatmulCall call;
  uint64_t scratchBytes = 0;
};

/// Addresses: input, weight, output; the addend, where there is one; scratch.
struct ConvSpec {
  ConvCall call;
  uint64_t scratchBytes = 0;
};

/// Addresses: those of the call's tensors, scratch.
struct AttentionSpec {
  AttentionCall call;
  uint64_t scratchBytes = 0;
};

/// "all_gather".
const char *nameOf(fbs::CollectiveKind kind);

/// A collective of the ranks of a group, by position; this rank is one of them.
/// See Collective in Program.fbs. Addresses: source and target of each operand.
struct CollectiveSpec {
  fbs::CollectiveKind kind = fbs::CollectiveKind::AllReduce;
  std::vector<int> ranks;
  /// Of AllReduce: the ranks in the order that groups of the same ranks have in common; empty: as
  /// `ranks`. Libraries that add up in an order of their own see one group.
  std::vector<int> commonOrder;
  Reduction reduction = Reduction::Sum;
  DType dtype = DType::F32;
  std::vector<Dims> shapes; ///< of the sources
  int dim = -1, concatDim = -1;
  Dims sources; ///< of Permute
};

/// Buffers that are sent to, or received from, another rank. Addresses: the buffers.
struct MessageSpec {
  bool receives = false;
  int peer = 0;
  uint32_t channel = 0;
  std::vector<uint64_t> bytes; ///< of each buffer
};

/// Addresses: source, target. They are the same or don't overlap.
struct CopySpec {
  uint64_t bytes = 0;
};

/// Addresses: target.
struct ZeroSpec {
  uint64_t bytes = 0;
};

/// Writes one number. Addresses: target, aligned to 8 bytes.
struct ConstantSpec {
  int64_t value = 0;
};

using OperationSpec = std::variant<LaunchSpec, MatmulSpec, ConvSpec, AttentionSpec, CollectiveSpec,
                                   MessageSpec, CopySpec, ZeroSpec, ConstantSpec>;

} // namespace dtc::rt
