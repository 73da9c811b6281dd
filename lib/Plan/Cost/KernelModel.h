// Seconds of kernels on a GPU.
//
// A contraction is cut into tiles of its result, one for each multiprocessor at
// a time: 4096 x 4096 in tiles of 128 x 256 are 512 tiles, on 108
// multiprocessors 5 waves, of which the last is 80 tiles short. A tile takes a
// start, its k-loop and an end. Of the tile sizes, and of the parts that k is
// split into, the fastest counts, as libraries choose by such a model too.
// Kernels that only move bytes reach a share of the bandwidth that grows with
// their size. Attention takes the rate of fused kernels of its version, or the
// products and passes over its scores one by one.
#pragma once

#include "dtc/Plan/Cost/CostModel.h"

namespace dtc::plan {

class KernelModel {
public:
  KernelModel(const DeviceSpec &device, const Software &software);

  /// `measuredRate`: flop/s of this product where it was measured, 0 elsewhere.
  double seconds(const LocalWork &work, double measuredRate) const;
  /// Of one kernel that moves so many bytes.
  double streamSeconds(double bytes) const;
  /// What a kernel takes beside its work, shared among the tensors that one of dtc's updates does.
  double launchSecondsOfTensor() const;
  /// What the host takes to launch so many kernels one by one; 0 where the step is
  /// compiled.
  double hostSeconds(int64_t kernels) const;

private:
  double contraction(DType type, double batch, double m, double n, double k) const;
  double attention(const LocalWork &work) const;
  double fusedAttention(const LocalWork &work) const;
  double unfusedAttention(const LocalWork &work) const;
  double rate(DType type) const;

  DeviceSpec device;
  Software software;
  std::array<double, 16> rates{}; ///< flop/s of full tiles by DType
};

/// Of a device: the rate of its largest products, flop/s.
double achievedFlops(const DeviceSpec &device, DType type);
double peakFlops(const DeviceSpec &device, DType type);

} // namespace dtc::plan
