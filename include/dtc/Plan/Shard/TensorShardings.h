// Tensor shardings by number, and what it takes to get from one to another.
#pragma once

#include "dtc/Plan/Cost/CostModel.h"
#include "dtc/Plan/Solve/FlatMap.h"

#include <deque>
#include <map>

namespace dtc::plan {

using ShardingId = int32_t;

class TensorShardings {
public:
  TensorShardings(const sharding::Mesh &mesh, const CostModel &model) : mesh(mesh), model(model) {}

  ShardingId intern(const sharding::TensorSharding &sharding);
  const sharding::TensorSharding &operator[](ShardingId id) const { return shardings[id]; }
  /// Seconds to bring a value from one sharding to another; infinite when there
  /// is no way.
  double reshardSeconds(const Value &value, ShardingId from, ShardingId to);

private:
  /// All of a value that its reshards depend on.
  struct Resharded {
    std::vector<int64_t> shape;
    int64_t elementBytes = 0;
    bool stays = false;      ///< as it is stored
    FlatMap<double> seconds; ///< by two shardings
    bool isFor(const Value &value, bool stays) const {
      return shape == value.shape && elementBytes == byteSize(value.type) && this->stays == stays;
    }
  };
  Resharded &reshardedAs(const Value &value);
  double findSeconds(const Resharded &value, ShardingId from, ShardingId to) const;

  const sharding::Mesh &mesh;
  const CostModel &model;
  std::vector<sharding::TensorSharding> shardings;
  std::map<std::vector<int>, ShardingId> ids;
  std::deque<Resharded> resharded; ///< few
  Resharded *last = nullptr;       ///< the one that was asked for last
};

} // namespace dtc::plan
