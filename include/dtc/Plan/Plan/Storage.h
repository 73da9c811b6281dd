// Which level of ZeRO a parameter is stored by.
//
// All parameters have the level that the degrees name. Where the degrees name a number of blocks,
// so many blocks have it, and all else has the level below. Of a model of an embedding, eight
// blocks and a head, zero=3 and zero_blocks=5 could be
//
//   3  3 3 3 3 3 2 2 2  2    parameters of five blocks and the embedding are gathered before
//                            each use, the others stay whole
//
// What several parts of a model read (tied weights) has the higher level. The search finds plans of
// one level; those that lie between two are written by hand.
#pragma once

#include "dtc/Plan/Plan/Blocks.h"
#include "dtc/Plan/Plan/Plan.h"

namespace dtc::plan {

/// 0 to 3.
int zeroLevel(const ParameterStorage &storage);
/// The axes over which a level splits states, gradients and parameters, of those that it may.
void splitByLevel(int level, const sharding::AxisList &axes, sharding::AxisList &states,
                  sharding::AxisList &gradients, sharding::AxisList &parameters);
/// Whether the axis may divide how it is stored: it doesn't split it already, and it is no number.
bool canSplit(const ParameterStorage &storage, sharding::AxisId axis);
/// Stores a parameter by a level, over as many of these axes as may divide it.
void setZeroLevel(ParameterStorage &storage, int level, const sharding::AxisList &axes);

/// The mesh axes over which ZeRO of these degrees stores: dp, or its minor part
/// of zero_group ranks, ep and cp.
sharding::AxisList storageAxes(const Degrees &degrees, const sharding::Mesh &mesh);

/// The only one of the parts that begin at these forward ops (ascending) which reads a value in its
/// passes, or -1 for several. What nothing reads belongs to the first part.
int onlyReader(ValueId value, const std::vector<OpId> &firstOps, const ProblemFacts &facts);

/// By block, whether it has a parameter of this level that it alone reads.
std::vector<bool> blocksOfLevel(int level, const Problem &problem,
                                const ProblemFacts &facts, const std::vector<Block> &blocks,
                                const std::vector<ParameterStorage> &storage);

} // namespace dtc::plan
