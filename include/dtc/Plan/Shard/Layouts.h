// Tensor shardings by number, and what it takes to get from one to another.
#pragma once

#include "dtc/Plan/Cost/CostModel.h"

#include <map>

namespace dtc::plan {

using LayoutId = int32_t;

class Layouts {
public:
  Layouts(const sharding::Mesh &mesh, const CostModel &model) : mesh(mesh), model(model) {}

  LayoutId intern(const sharding::TensorSharding &sharding);
  const sharding::TensorSharding &operator[](LayoutId id) const { return shardings[id]; }
  /// Seconds to bring a value from one layout to another; infinite when there
  /// is no way.
  double reshardSeconds(const Value &value, LayoutId from, LayoutId to);

private:
  const sharding::Mesh &mesh;
  const CostModel &model;
  std::vector<sharding::TensorSharding> shardings;
  std::map<std::vector<int>, LayoutId> ids;
  std::map<std::vector<int64_t>, double> costs;
};

} // namespace dtc::plan
