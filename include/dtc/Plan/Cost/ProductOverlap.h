// Communication of tensor parallelism that a program carries out beside products.
//
// What a product reads is gathered, and what it makes is summed up, over tensor-parallel
// ranks. Programs hide part of that (`Software`):
//
//   gathersAgain         the input, gathered again for the gradient of the weights, behind
//                        the gradient of the input, which doesn't need it
//   asyncInputGradients  the sum of the gradient of the input behind the gradient of the
//                        weights, which doesn't need it either (Megatron-LM since 2022)
//   overlapsProducts     products in parts: a part is computed while the next one arrives or
//                        the one before it is summed up (Transformer Engine's userbuffers;
//                        Wang et al., ASPLOS 2023)
//
// Take a gather of 3 ms over 4 ranks before a product of 2 ms. One part is there from the start, so
// the gather can hide behind 3/4 of the product, which is 1.5 ms. Both share the device, so that a
// part of what is hidden shows after all (`CostModel::ringSlowdown`).
#pragma once

#include "dtc/Plan/Cost/OpWork.h"
#include "dtc/Plan/Plan/Plan.h"

#include <map>

namespace dtc::plan {

class ProductOverlap {
public:
  ProductOverlap(const Problem &problem, const ProblemFacts &facts, const Plan &plan,
                 const CostModel &model, const OpWork &work);

  /// What is left to wait for of a collective of so many seconds, which brings a value to
  /// where `reader` needs it. Each second of a product hides one collective alone.
  double exposed(sharding::StepKind kind, const sharding::AxisList &axes, double seconds,
                 ValueId value, OpId reader);

private:
  double hide(double seconds, const sharding::AxisList &axes, const std::vector<OpId> &products,
              double share);
  /// Not of experts: the exchanges before and after those, which are waited for, gather and sum up.
  bool isProduct(OpId op) const {
    return op >= 0 && problem.ops[op].kind == OpKind::Contraction &&
           problem.ops[op].groupedExperts < 0;
  }
  std::vector<OpId> makersOf(ValueId value) const;
  std::vector<OpId> gradientsBeside(const std::vector<OpId> &products, BackwardKind kind) const;
  std::vector<OpId> readersBeside(ValueId value, OpId reader) const;

  const Problem &problem;
  const Plan &plan;
  const ProblemFacts &facts;
  const CostModel &model;
  const OpWork &work;
  std::map<OpId, std::vector<OpId>> backwardOf; ///< by forward product
  struct ProductUse {
    double seconds = 0, left = 0; ///< in all, and beside which nothing runs yet
  };
  std::map<OpId, ProductUse> uses;
};

} // namespace dtc::plan
