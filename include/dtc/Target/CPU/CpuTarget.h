// The processors of this machine as a target: generated kernels as a shared object, products and
// convolutions by oneDNN.
#pragma once

#include "dtc/Target/Target.h"

namespace dtc::cpu {

const target::Target &cpuTarget();

} // namespace dtc::cpu
