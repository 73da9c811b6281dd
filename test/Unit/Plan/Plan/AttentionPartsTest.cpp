// Which tensors attention of dtc's own programs reads and writes in larger ones.
#include "Problems.h"

#include "dtc/Plan/Plan/AttentionParts.h"

#include <gtest/gtest.h>

using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

/// A layer of GPT-2: slices of one product, of shape [batch, token, part, head, element], are read
/// as queries, keys and values, and a concatenation has their gradients. The bias is added as the
/// product is made.
class AttentionPartsTest : public ::testing::Test {
protected:
  AttentionPartsTest() : problem(load("gpt")) {
    for (size_t i = 0; i < problem.ops.size(); ++i) {
      Op &op = problem.ops[i];
      op.inProduct = op.kind == OpKind::Elementwise;
      if (op.kind == OpKind::Attention) {
        (op.backward ? backward : forward) = static_cast<OpId>(i);
        op.partAlignment = 8;
      }
      if (op.kind == OpKind::Join)
        join = static_cast<OpId>(i);
      if (op.reads.size() == 5 && op.reads[2].dim == 2)
        slices.push_back(static_cast<OpId>(i));
    }
  }

  /// Of queries, keys and values, how many are read in place by both passes.
  int readInPlace() const {
    ProblemFacts facts(problem);
    int count = 0;
    for (size_t i = 0; i < 3; ++i) {
      ValueId value = problem.ops[forward].operands[i];
      bool isRead = isReadInPlace(problem, facts, forward, value);
      EXPECT_EQ(isReadInPlace(problem, facts, backward, value), isRead);
      count += isRead;
    }
    return count;
  }
  bool joins() const { return joinsInPlace(problem, ProblemFacts(problem), join); }

  Problem problem;
  OpId forward = -1, backward = -1, join = -1;
  std::vector<OpId> slices; ///< of queries, keys and values
};

} // namespace

TEST_F(AttentionPartsTest, SlicesOfAProductAreReadInPlace) {
  ASSERT_EQ(slices.size(), 3U);
  EXPECT_EQ(readInPlace(), 3);
  problem.ops[forward].decomposed = problem.ops[backward].decomposed = true;
  EXPECT_EQ(readInPlace(), 0);
  problem.ops[forward].decomposed = problem.ops[backward].decomposed = false;
  problem.ops[forward].partAlignment = problem.ops[backward].partAlignment = 0;
  EXPECT_EQ(readInPlace(), 0);
  EXPECT_FALSE(joins());
}

TEST_F(AttentionPartsTest, SlicesAreFollowedByTheirSteps) {
  Op &query = problem.ops[slices[0]];
  query.reads[1].step = 2; // of tokens, whose rows are as well aligned
  EXPECT_EQ(readInPlace(), 3);
  query.reads[4].step = 2; // of a head's elements
  EXPECT_EQ(readInPlace(), 0) << "without all of the product nothing is read in place";
}

TEST_F(AttentionPartsTest, RowsBeginAtVectors) {
  problem.ops[slices[1]].reads[4].start = 8;
  EXPECT_EQ(readInPlace(), 3);
  problem.ops[slices[1]].reads[4].start = 4;
  EXPECT_EQ(readInPlace(), 0);
}

TEST_F(AttentionPartsTest, RepeatedValuesAreCopied) {
  problem.ops[slices[2]].reads[3] = {-1, 0, 0};
  EXPECT_EQ(readInPlace(), 0);
}

TEST_F(AttentionPartsTest, WhatAKernelMakesIsNoPart) {
  problem.ops[slices[0]].reads.clear();
  EXPECT_EQ(readInPlace(), 0);
}

TEST_F(AttentionPartsTest, ABiasIsCopied) {
  const ProblemFacts facts(problem);
  const ValueId key = problem.ops[forward].operands[1];
  problem.ops[forward].operands.push_back(key);
  problem.ops[forward].operands[1] = problem.ops[forward].operands[0];
  EXPECT_FALSE(isReadInPlace(problem, facts, forward, key));
}

TEST_F(AttentionPartsTest, GradientsAreJoinedInPlace) {
  ASSERT_GE(join, 0);
  EXPECT_TRUE(joins());
  problem.ops[backward].decomposed = true;
  EXPECT_FALSE(joins());
}

TEST_F(AttentionPartsTest, PaddingIsNoJoin) {
  problem.values[problem.ops[join].results[0]].shape[2] = 4;
  EXPECT_FALSE(joins());
}

TEST_F(AttentionPartsTest, GradientsThatOthersReadAreJoinedByAKernel) {
  problem.results.push_back({problem.ops[join].operands[0], ResultKind::Output, "dq"});
  EXPECT_FALSE(joins());
}

TEST_F(AttentionPartsTest, GradientsOfShortRowsAreJoinedByAKernel) {
  for (Value &value : problem.values)
    if (value.shape.size() >= 4 && value.shape.back() == 128)
      value.shape.back() = 4;
  EXPECT_FALSE(joins());
}
