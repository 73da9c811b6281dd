// What kernels that only move bytes reach of a GPU's bandwidth.
#pragma once

namespace dtc::plan {

/// A copy of large tensors, of the bandwidth in the data sheet.
inline constexpr double kStreamShare = 0.9;

} // namespace dtc::plan
