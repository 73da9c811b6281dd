// Seconds of collectives and transfers over levels of links.
//
// Between GPUs they are made as by NCCL: as a ring, as a tree, or in the switch where it can
// reduce. Each has the protocols LL, LL128 and Simple. The fastest counts, as NCCL's own tuning
// picks it. A ring of n ranks moves 2 (n-1)/n of the buffer of an all-reduce past every rank. Its
// rate is that of the narrowest place it goes through. The r ranks that a group has in a node share
// r devices' part of the network. Between other devices one line per level.
#pragma once

#include "dtc/Plan/Cost/CostModel.h"
#include "dtc/Plan/Plan/Plan.h"

namespace dtc::plan {

/// How many of `ranks`, `stride` devices apart, lie below one switch of `size` devices (0: of
/// all), of `span` devices in all. Where groups straddle switches, the one that is torn apart
/// most counts: 4 neighbours in nodes of 6 are 2 and 2 on the devices 4 to 7.
int64_t ranksBelow(int64_t size, int64_t span, int64_t ranks, int64_t stride);
/// Of each of these axes with several ranks, how many lie below one switch of each level but the
/// outermost. Collectives over them depend on nothing else (NetworkModel::shape).
std::vector<int64_t> ranksBelow(const Cluster &cluster, const Degrees &degrees,
                                const std::vector<Axis> &axes);

class NetworkModel {
public:
  /// `devices`: of the whole plan, at least.
  NetworkModel(std::vector<LinkLevel> levels, const DeviceSpec &device, int64_t devices);

  GroupShape shape(const sharding::AxisList &axes, const sharding::Mesh &mesh) const;
  /// Not of slices.
  double seconds(sharding::StepKind kind, const GroupShape &group, double bytes) const;
  PointToPoint link(int level, int64_t senders) const;

private:
  double linear(sharding::StepKind kind, const GroupShape &group, double bytes) const;
  double ring(sharding::StepKind kind, const GroupShape &group, double bytes) const;
  double tree(const GroupShape &group, double bytes) const;
  double inSwitch(const GroupShape &group, double bytes) const;
  double allToAll(const GroupShape &group, double bytes) const;
  double reached(size_t level) const;
  double ringBandwidth(const GroupShape &group) const;
  double lowLatencyBandwidth(const GroupShape &group) const;

  std::vector<LinkLevel> levels;
  Architecture architecture;
  int64_t devices;
};

} // namespace dtc::plan
