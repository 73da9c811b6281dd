// GPUs of NVIDIA, from sm_80 on.
#pragma once

#include "dtc/Target/Target.h"

namespace dtc::cuda {

const target::Target &cudaTarget();

} // namespace dtc::cuda
