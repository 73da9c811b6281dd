// How long collectives take, found once for each kind, group and size. Stages of as many equal
// layers exchange the same, and so do plans that differ in how layers are cut.
#pragma once

#include "dtc/Plan/Cost/CostModel.h"
#include "dtc/Plan/Solve/FlatMap.h"

#include <deque>

namespace dtc::plan {

/// For one thread at a time.
class CollectiveTimes {
public:
  /// The model must outlive it.
  explicit CollectiveTimes(const CostModel &model) : model(model) {}
  CollectiveTimes(const CollectiveTimes &) = delete;

  /// Groups that lie alike in the cluster.
  class Communicator {
  public:
    Communicator(const CostModel &model, sharding::StepKind kind, const GroupShape &shape)
        : kind(kind), shape(shape), model(model) {}
    /// As CostModel::collectiveSeconds.
    double seconds(double bytes);

    const sharding::StepKind kind;
    const GroupShape shape;

  private:
    const CostModel &model;
    FlatMap<double> known; ///< by the bits of the bytes
  };
  Communicator &of(sharding::StepKind kind, const GroupShape &shape);

private:
  const CostModel &model;
  std::deque<Communicator> communicators; ///< few
};

} // namespace dtc::plan
