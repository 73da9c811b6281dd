#include "dtc/Target/Targets.h"

#include "dtc/Target/CPU/CpuTarget.h"
#include "dtc/Target/CUDA/CudaTarget.h"

namespace dtc::target {

const Target *find(llvm::StringRef name) {
  for (const Target *target : {&cpu::cpuTarget(), &cuda::cudaTarget()})
    if (target->name() == name)
      return target;
  return nullptr;
}

} // namespace dtc::target
