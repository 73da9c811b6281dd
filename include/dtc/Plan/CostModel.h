// Seconds: of ops on one device's shard, of collectives among a group.
//
// A first analytic model: an op takes max(flops / rate, bytes / bandwidth) +
// launch; a collective alpha + beta * bytes at the slowest link its group
// spans. Tables in the cluster replace the formulas where they reach.
#pragma once

#include "dtc/Plan/Cluster.h"

namespace dtc::plan {

/// What an op does on one device.
struct LocalWork {
  double flops = 0;
  double bytes = 0; ///< read and written in memory
  DType type = DType::F32;
  bool kernel = true; ///< false: costs no launch (fused, or a view)
  /// Sizes of the contraction as a matrix product, for measured tables; 0: none.
  int64_t batch = 0, m = 0, n = 0, k = 0;
};

class CostModel {
public:
  /// `ranks`: how many devices of the cluster the plan uses.
  CostModel(const Cluster &cluster, int64_t ranks);

  double opSeconds(const LocalWork &work) const;
  /// `bytes` as in sharding::stepBytes. Slices are local copies.
  double collectiveSeconds(sharding::StepKind kind, const sharding::AxisList &axes,
                           double bytes, const sharding::Mesh &mesh) const;
  /// Seconds to stream `bytes` through memory, e.g. the optimizer.
  double streamSeconds(double bytes) const;
  /// Memory one rank may use.
  double memoryPerRank() const;
  double peakFlops(DType type) const;
  /// Of a processor whose cores the ranks share.
  int64_t threadsPerRank() const;
  const Cluster &getCluster() const { return cluster; }

private:
  double rate(const LocalWork &work) const;
  double measuredRate(const LocalWork &work) const;
  double measuredCollective(sharding::StepKind kind, int64_t ranks, double bytes) const;
  const LinkLevel *level(const sharding::AxisList &axes, const sharding::Mesh &mesh) const;

  Cluster cluster;
  int64_t ranks;
  double share = 1; ///< time of a rank relative to one core of a shared processor
};

} // namespace dtc::plan
