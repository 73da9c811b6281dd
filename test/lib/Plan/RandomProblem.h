// Random planning problems for tests. They are small graphs with every kind of sharding rule,
// forward alone or with loss and backward pass. The same seed gives the same.
#pragma once

#include "dtc/Plan/Search/Search.h"

namespace dtc::plan::testing {

struct RandomOptions {
  int ops = 4;          ///< parts of one block: a product, an MLP, a normalization...
  int blocks = 1;       ///< equal ones, each with parameters of its own
  bool training = true; ///< with loss, backward pass and gradients
};

Problem randomProblem(unsigned seed, const RandomOptions &options);

} // namespace dtc::plan::testing
