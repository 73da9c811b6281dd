// Tables of a cluster as `dtc calibrate` writes them, ready to be interpolated.
#pragma once

#include "dtc/Plan/Plan/Cluster.h"

namespace dtc::plan {

class MeasuredTables {
public:
  explicit MeasuredTables(const Cluster &cluster);

  /// Flop/s of the measured shapes around this one, weighted by nearness; 0
  /// where none of the type was measured.
  double rate(DType type, int64_t batch, int64_t m, int64_t n, int64_t k) const;
  /// Seconds, interpolated on logarithmic axes between measured sizes, scaled
  /// beyond them; of the nearest measured group size. 0 where the kind wasn't
  /// measured.
  double collectiveSeconds(sharding::StepKind kind, int64_t ranks, double bytes) const;

  /// Seconds of a fork and join. They are on a line between the measured numbers of threads and
  /// through the last two beyond; 0 for one thread or unmeasured.
  double forkSeconds(int64_t threads) const;

private:
  struct Product {
    DType type;
    double batch, m, n, k; ///< logarithms
    double rate;
  };
  struct Curve {
    sharding::StepKind kind;
    int64_t ranks;
    std::vector<std::pair<double, double>> points; ///< bytes, seconds; ascending
  };
  std::vector<Product> products;
  std::vector<Curve> curves;
  std::vector<std::pair<double, double>> forks; ///< threads, seconds; ascending from (1, 0)
};

} // namespace dtc::plan
