// Where tokens of parts of a sequence lie in zig-zag.
#include "Problems.h"

#include "dtc/Plan/Plan/SequenceOrder.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

class SequenceOrderTest : public ::testing::Test {
protected:
  /// Tables of positions are made of constants; those of the file are arguments.
  SequenceOrderTest() {
    tables(ValueKind::Buffer, ValueKind::Scalar);
    findAgain();
  }
  void tables(ValueKind from, ValueKind to) {
    for (Value &value : problem.values)
      if (value.kind == from)
        value.kind = to;
  }
  std::string why(int64_t cp, int64_t tp = 1) const {
    dtc::sharding::Mesh mesh;
    if (cp > 1)
      mesh.axes.push_back({"cp", "cp", cp});
    if (tp > 1)
      mesh.axes.push_back({"tp", "tp", tp});
    return whyInOrder(problem, facts, mesh);
  }
  Op &firstAttention() { return *std::ranges::find(problem.ops, OpKind::Attention, &Op::kind); }
  void findAgain() { facts = ProblemFacts(problem); }

  Problem problem = load("llama"); // of 2048 tokens, under a causal mask
  ProblemFacts facts{problem};
};

} // namespace

TEST_F(SequenceOrderTest, MeshesDecide) {
  EXPECT_EQ(facts.keepsOrder, "");
  EXPECT_EQ(why(1), "cp is 0 axes of 1");
  EXPECT_EQ(why(2), "");
  EXPECT_EQ(why(2, 3), "tp can't divide both halves of a rank's part: 3");
  EXPECT_EQ(why(1024, 2), "");
  EXPECT_TRUE(why(2048).starts_with("a rank's part can't be halved of 2048: ")) << why(2048);
}

TEST_F(SequenceOrderTest, EachSizeIsLookedAtOnce) {
  ASSERT_EQ(facts.sequenceSizes.size(), 1U);
  const auto last = static_cast<OpId>(
      std::ranges::find_if(facts.sequenceSplit.rbegin(), facts.sequenceSplit.rend(),
                           [](dtc::sharding::FactorId factor) { return factor >= 0; })
          .base() -
      facts.sequenceSplit.begin() - 1);
  dtc::sharding::ShardingRule rule = problem.ops[last].rule;
  rule.factors[facts.sequenceSplit[last]].size = 6;
  problem.ops[last].rule = std::move(rule);
  facts.sequenceSizes.clear();
  findSequenceOrder(problem, facts);
  EXPECT_EQ(facts.sequenceSizes.size(), 2U);
  EXPECT_EQ(facts.sequenceSizes.back(), last);
  EXPECT_TRUE(why(6).starts_with("a rank's part can't be halved of 6: ")) << why(6);
}

TEST_F(SequenceOrderTest, ModelsMayKeepTheirOrder) {
  firstAttention().window = 128;
  findAgain();
  EXPECT_TRUE(why(2).starts_with("its window belongs to keys in order: ")) << why(2);
  firstAttention().window = 0;
  firstAttention().causal = false;
  findAgain();
  EXPECT_EQ(why(2), "no attention has a causal mask");
  const ValueId tokens = firstAttention().results[0];
  problem.results.push_back({tokens, ResultKind::Output, "hidden"});
  findAgain();
  EXPECT_EQ(why(2), "an output has a sequence: hidden");
  EXPECT_EQ(why(1), "cp is 0 axes of 1");
  problem.results.pop_back();
  tables(ValueKind::Scalar, ValueKind::Buffer);
  findAgain();
  EXPECT_EQ(why(2), "it has a row for each position: cos");
}
