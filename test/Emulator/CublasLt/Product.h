// Computes a product on emulated memory.
#pragma once

#include "Emulator/CublasLt/Descriptions.h"
#include "Emulator/Device/AccessHistory.h"

namespace dtc::emulator {

class DeviceMemory;

/// In which order the terms of a sum are added, by algorithm: so their last bits differ.
enum class SumOrder : uint64_t { Forward, Backward, SecondHalfFirst };
constexpr uint64_t kSumOrders = 3;

/// A call of cublasLtMatmul, with everything copied that may be gone when it runs.
struct Product {
  MatmulProblem problem;
  uint64_t a, b, c, d, workspace; // addresses
  uint64_t workspaceBytes;
  double alpha, beta;
  SumOrder order = SumOrder::Forward;
};

/// Computes D, overwrites the workspace, and says what was read and written.
Accesses runProduct(const Product &product, const DeviceMemory &memory);

} // namespace dtc::emulator
