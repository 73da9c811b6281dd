// Which kernels dtc's own programs have on GPUs, of ops by their place in the problems.
#include "Problems.h"

#include "dtc/Plan/Plan/KernelParts.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

using Counts = std::vector<int>;

/// With attention that reads parts of tensors.
Problem ownProblem(const char *name, int64_t alignment = 8) {
  Problem problem = load(name);
  for (Op &op : problem.ops)
    if (op.kind == OpKind::Attention)
      op.partAlignment = alignment;
  return problem;
}

void expectPart(const KernelPart &part, const Counts &reads, const Counts &writes, int launches) {
  EXPECT_TRUE(part.isCounted);
  EXPECT_EQ(part.reads, reads);
  EXPECT_EQ(part.writes, writes);
  EXPECT_EQ(part.launches, launches);
}

} // namespace

TEST(KernelParts, ASumIsMadeWhereItsNormReadsIt) {
  const std::vector<KernelPart> parts = ProblemFacts(ownProblem("llama")).kernelParts;
  expectPart(parts[32], {1, 1}, {1}, 1);    // the residual sum
  expectPart(parts[33], {0, 1}, {1, 1}, 0); // its norm
}

/// Two gradients of a product are added up, which columns read, as they read the norm's input. The
/// last sum is of the residual stream.
TEST(KernelParts, AGradientOfANormReadsItsOperandsTwice) {
  const std::vector<KernelPart> parts = ProblemFacts(ownProblem("llama")).kernelParts;
  expectPart(parts[54], {1, 1}, {1}, 1);
  expectPart(parts[55], {2, 1, 1, 1}, {0, 1}, 2);
  expectPart(parts[56], {1, 0}, {1}, 0);
}

TEST(KernelParts, ALossAndItsGradientReadTheLogitsOnce) {
  const std::vector<KernelPart> parts = ProblemFacts(ownProblem("gpt")).kernelParts;
  EXPECT_EQ(parts[29].reads[0], 1);
  EXPECT_EQ(parts[29].launches, 1);
  EXPECT_EQ(parts[35].reads[0], 0);
  EXPECT_EQ(parts[35].writes, Counts{1});
  EXPECT_EQ(parts[35].launches, 0);
}

/// Rotary embeddings read queries whole and in halves; SwiGLU's gradients read that of the product.
TEST(KernelParts, AKernelReadsATensorOnce) {
  const std::vector<KernelPart> parts = ProblemFacts(ownProblem("llama")).kernelParts;
  EXPECT_EQ(parts[8].reads[0], 1);
  EXPECT_EQ(parts[3].reads[0] + parts[5].reads[0], 0);
  expectPart(parts[11], {0, 0}, {1}, 1);
  EXPECT_EQ(parts[47].reads[0] + parts[48].reads[0], 1);
  EXPECT_EQ(parts[48].launches + parts[51].launches, 1);
}

TEST(KernelParts, RowsAreAddedToWhereATiedWeightsGradientIs) {
  const std::vector<KernelPart> gpt = ProblemFacts(ownProblem("gpt")).kernelParts;
  EXPECT_TRUE(gpt[62].addsInPlace);
  expectPart(gpt[63], {0, 0}, {0}, 0);
  EXPECT_FALSE(ProblemFacts(ownProblem("llama")).kernelParts[85].addsInPlace);
}

/// One kernel copies queries, keys and values where no library reads parts.
TEST(KernelParts, AttentionReadsPartsOrCopies) {
  Problem inPlace = ownProblem("gpt"), copied = ownProblem("gpt", 0);
  inPlace.ops[6].inProduct = copied.ops[6].inProduct = true; // a library makes the sum with a bias
  const std::vector<KernelPart> parts = ProblemFacts(inPlace).kernelParts,
                                copies = ProblemFacts(copied).kernelParts;
  int launches = 0;
  for (size_t slice : {7, 9, 11}) {
    EXPECT_EQ(parts[slice].reads[0], 0);
    EXPECT_EQ(parts[slice + 1].writes, Counts{0});
    EXPECT_EQ(copies[slice].reads[0], 1);
    EXPECT_EQ(copies[slice + 1].writes, Counts{1});
    launches += copies[slice + 1].launches - parts[slice + 1].launches;
  }
  EXPECT_EQ(launches, 1);
  for (size_t gradient : {52, 53, 54}) { // which are joined
    EXPECT_EQ(parts[gradient].reads[0], 0);
    EXPECT_EQ(copies[gradient].reads[0], 1);
  }
}

TEST(KernelParts, WhatBelongsToALibrarysCallIsNoKernel) {
  Problem problem = ownProblem("gpt");
  problem.ops[43].inProduct = true; // the gradient of a bias
  const ProblemFacts facts(problem);
  EXPECT_FALSE(facts.kernelParts[43].isCounted);
  EXPECT_FALSE(facts.kernelParts[40].isCounted); // a product
  expectPart(ProblemFacts(ownProblem("gpt")).kernelParts[43], {1}, {1}, 1);
}

/// Of images of one pixel only the kernel has factors that stay whole, and the work is that of all
/// factors, as of a product.
TEST(KernelParts, AConvolutionOfOnePixelIsNoProduct) {
  using dtc::sharding::FactorKind;
  dtc::sharding::ShardingRule rule;
  rule.factors = {{.size = 8}, {.size = 16}, {.size = 4, .kind = FactorKind::Reduction}};
  rule.operands = {{{0}, {2}}, {{1}, {2}}};
  rule.results = {{{0}, {1}}};
  Op op;
  op.kind = OpKind::Contraction;
  op.operands = {0, 1};
  op.results = {2};
  op.rule = rule;
  op.flops = 2.0 * 8 * 16 * 4;
  EXPECT_TRUE(isMatrixProduct(op));
  op.operands.push_back(3);
  EXPECT_FALSE(isMatrixProduct(op)) << "its rows find their experts";
  op.operands.pop_back();
  rule.factors.push_back({.size = 9, .kind = FactorKind::Whole});
  rule.operands[1].push_back({3});
  op.rule = rule;
  op.flops *= 9;
  EXPECT_FALSE(isMatrixProduct(op));
}
