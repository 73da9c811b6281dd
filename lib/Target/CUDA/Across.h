// Tensors that kernels read across: what lies side by side in memory is far apart in what is made.
//
// Memory moves sectors of 32 bytes. Where a kernel makes [8, 96, 56, 56] in fp32 of [8, 56, 56,
// 96], a block of 1,024 neighbours of the result would use 4 to 16 of each sector's 32 bytes. The
// others are moved to eight blocks that each use a part. So
//
//     pointwise  a thread does 8 turns, 56 * 56 elements from each other: a whole sector
//     rows       a block has 8 rows, which lie side by side where their columns don't
//
// In bf16 both are 16.
#pragma once

#include "KernelPlan.h"

#include <optional>

namespace dtc::cuda {

/// Of an operand that is read across: how far from each other its neighbours are in what a kernel
/// makes of it, element by element. None where all such operands are read along.
std::optional<int64_t> distanceAcross(mlir::Value made);

/// Elements of the kernel's smallest type in a sector.
int64_t elementsOfSector(const BodyInfo &info);

/// Gives the threads of a pointwise kernel turns by which whole sectors are read. False where
/// nothing is read across, or where fewer threads would be too few.
bool planAcross(const BodyInfo &info, KernelPlan &plan);

} // namespace dtc::cuda
