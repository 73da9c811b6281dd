// TF32: products and convolutions of fp32 whose operands are rounded to 10 bits behind the point.
//
// Only what multiplies is faster. To a plan, a program in TF32 is one in fp32 on a cluster with
// other rates of fp32, those of withTF32:
//
//   h100    67 TFLOP/s of fp32, 989.5 of bf16    494.75 of fp32
//   a100    19.5 of fp32, 312 of bf16            156 of fp32
#pragma once

#include "dtc/Plan/Plan/Cluster.h"

namespace dtc::plan {

/// The cluster with the rates of TF32 as those of fp32: the measured one, where there is one. By
/// NVIDIA's data sheets they are half of those of 16 bits, from Ampere on. Devices that aren't
/// faster so keep theirs.
Cluster withTF32(Cluster cluster);

} // namespace dtc::plan
