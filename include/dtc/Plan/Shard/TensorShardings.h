// Tensor shardings by number, and what it takes to get from one to another.
#pragma once

#include "dtc/Plan/Cost/CostModel.h"

#include <map>

namespace dtc::plan {

using ShardingId = int32_t;

class TensorShardings {
public:
  TensorShardings(const sharding::Mesh &mesh, const CostModel &model) : mesh(mesh), model(model) {}

  ShardingId intern(const sharding::TensorSharding &sharding);
  const sharding::TensorSharding &operator[](ShardingId id) const { return shardings[id]; }
  /// Seconds to bring a value from one layout to another; infinite when there
  /// is no way.
  double reshardSeconds(const Value &value, ShardingId from, ShardingId to);

private:
  const sharding::Mesh &mesh;
  const CostModel &model;
  std::vector<sharding::TensorSharding> shardings;
  std::map<std::vector<int>, ShardingId> ids;
  std::map<std::vector<int64_t>, double> costs;
};

} // namespace dtc::plan
