// The engines that the emulated cuDNN offers for an operation, best first as a heuristic would.
//
// A program that doesn't read an engine's notes, or what workspace its plan needs, takes a wrong
// one.
#pragma once

#include "Emulator/Cudnn/Operation.h"
#include "dtc-cuda/Cudnn.h"

namespace dtc::emulator {

struct Engine {
  std::vector<cuda::cudnnBackendNumericalNote_t> notes;
  bool roundsToTF32 = false; ///< operands of fp32
  bool needsHugeWorkspace = false;

  uint64_t workspaceBytes(const CudnnOperation &operation) const;
};

const Engine &engineAt(int number);
/// The numbers of the engines for a mode.
std::vector<int> enginesFor(cuda::cudnnBackendHeurMode_t mode);

} // namespace dtc::emulator
