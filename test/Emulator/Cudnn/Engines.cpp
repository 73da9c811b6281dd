#include "Emulator/Cudnn/Engines.h"

#include "Emulator/Device/Fault.h"

namespace dtc::emulator {

using namespace dtc::cuda;

static const std::vector<Engine> &engines() {
  static const std::vector<Engine> all = {
      {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, true, false},
      {{}, false, true},
      {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, true, false},
      {{}, false, false},
  };
  return all;
}

uint64_t Engine::workspaceBytes(const CudnnOperation &operation) const {
  constexpr uint64_t kHuge = uint64_t(1) << 40;
  return needsHugeWorkspace ? kHuge : operation.workspaceBytes();
}

const Engine &engineAt(int number) { return engines().at(number); }

std::vector<int> enginesFor(cudnnBackendHeurMode_t mode) {
  switch (mode) {
  case CUDNN_HEUR_MODE_A:
    return {0, 1, 2, 3};
  case CUDNN_HEUR_MODE_FALLBACK:
    return {3};
  }
  throw Fault(CUDNN_STATUS_BAD_PARAM, "unknown mode of the heuristic");
}

} // namespace dtc::emulator
