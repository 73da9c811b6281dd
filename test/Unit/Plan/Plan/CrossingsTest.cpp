// What crosses the cuts of a model.
#include "Problems.h"

#include "dtc/Plan/Plan/Crossings.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;
using dtc::sharding::ShardingRule;

namespace {

/// Three parts of one forward op each, as in the header: u = h(z, y), z = g(y), y = f(x w).
class Chain {
public:
  Chain() {
    x = argument(ValueKind::Input);
    w = argument(ValueKind::Parameter);
    table = argument(ValueKind::Buffer);
    mask = op({table}, -1);
    y = op({x, w, mask}, -1);
    z = op({y, mask}, -1);
    u = op({z, y}, -1);
    dz = op({u, mask}, 3, BackwardKind::InputGrad);
    d2 = op({u}, 3, BackwardKind::InputGrad);
    d1 = op({dz}, 2, BackwardKind::InputGrad);
    d = op({d2, d1}, 1, BackwardKind::Accumulate, OpKind::GradientSum);
    dw = op({d, x}, 1, BackwardKind::WeightGrad);
    problem.results = {{dw, ResultKind::Gradient, "w"}};
  }

  /// A sum of a widened dz in the part of y, as a bias' gradient is made.
  void addWidened() {
    problem.values[dz].type = DType::BF16;
    ValueId wide = op({dz}, 3, BackwardKind::InputGrad, OpKind::Elementwise);
    op({wide}, 1, BackwardKind::WeightGrad, OpKind::Reduction);
  }

  std::vector<std::string> crossings() {
    ProblemFacts facts(problem);
    // One part for each forward op, the mask's with the first.
    parts = partsOfOps(problem, facts, [](OpId position) { return std::max(position - 1, 0); });
    std::vector<std::string> result;
    for (const Crossing &crossing : crossingsOf(problem, facts, parts))
      result.push_back(problem.values[crossing.value].name + " " + std::to_string(crossing.from) +
                       ">" + std::to_string(crossing.to));
    return result;
  }

  std::vector<int> parts; ///< by op, once crossings were asked for

private:
  ValueId argument(ValueKind kind) {
    problem.values.push_back({"a" + std::to_string(problem.values.size()), {4}, DType::F32, kind});
    problem.arguments = static_cast<int64_t>(problem.values.size());
    return static_cast<ValueId>(problem.arguments) - 1;
  }

  ValueId op(std::vector<ValueId> operands, OpId forward,
             std::optional<BackwardKind> backward = std::nullopt, OpKind kind = OpKind::Other) {
    auto id = static_cast<OpId>(problem.ops.size());
    Op made;
    made.kind = kind;
    made.rule = dtc::sharding::RuleBuilder::elementwise(operands.size(), 1, {4}).build();
    made.operands = std::move(operands);
    made.forward = backward ? forward : id;
    made.backward = backward;
    auto value = static_cast<ValueId>(problem.values.size());
    made.results = {value};
    problem.ops.push_back(made);
    static const char *names[] = {"mask", "y", "z", "u", "dz", "d2", "d1", "d", "dw", "wide", "db"};
    problem.values.push_back({names[id], {4}});
    return value;
  }

  Problem problem;
  ValueId x, w, table, mask, y, z, u, dz, d2, d1, d, dw;
};

} // namespace

TEST(Crossings, ValuesAreRelayedAndGradientsSummedWhereComplete) {
  Chain chain;
  std::vector<std::string> expected = {"y 0>2", "z 1>2", "dz 2>1", "d2 2>1", "d 1>0"};
  EXPECT_EQ(chain.crossings(), expected);
  // What depends on buffers alone is in no part, the sum where its last term is made.
  EXPECT_EQ(chain.parts, (std::vector<int>{-1, 0, 1, 2, 2, 2, 1, 1, 0}));
}

TEST(Crossings, WhatIsOnlyWidenedCrossesAsItWas) {
  Chain chain;
  chain.addWidened();
  std::vector<std::string> expected = {"y 0>2", "z 1>2", "dz 2>0", "d2 2>1", "d 1>0"};
  EXPECT_EQ(chain.crossings(), expected);
  EXPECT_EQ(chain.parts[9], 0) << "as the sum that reads it";
}
