#include "Transformer.h"

#include "dtc/Plan/Cost/OpWork.h"
#include "dtc/Plan/Plan/Quantize.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

/// Of two layers of width 64 with a vocabulary of 256. The weights of a layer are 4 x 64 x 64 and 2
/// x 64 x 256, the head is 64 x 256.
static Problem forwardPass() {
  TransformerSize size{2, 64, 4, 32, 4, 256};
  size.trained = false;
  return transformer(size);
}

static const Value &named(const Problem &problem, const std::string &name) {
  return problem.values[parametersByName(problem).at(name)];
}

TEST(Quantize, KeepsProductsButTheLast) {
  constexpr int64_t ofLayers = 2 * (4 * 64 * 64 + 2 * 64 * 256);
  Problem whole = forwardPass(), problem = whole;
  EXPECT_EQ(quantizeFrozen(problem, Quantization::None), 0);
  EXPECT_EQ(problem, whole);
  EXPECT_EQ(quantizeFrozen(problem, Quantization::Int4), ofLayers);
  EXPECT_EQ(check(problem), "");
  EXPECT_DOUBLE_EQ(named(problem, "h.0.q").storedBits, 4 + 8.0 / 64 + 32.0 / (64 * 256));
  EXPECT_EQ(named(problem, "head").storedBits, 0);
  Problem wide = whole;
  EXPECT_EQ(quantizeFrozen(wide, Quantization::Int8), ofLayers);
  // A scale for each of so many rows of results: those of q have 64 inputs, those of down 256.
  EXPECT_DOUBLE_EQ(named(wide, "h.0.q").storedBits, 8 + 32.0 / 64);
  EXPECT_DOUBLE_EQ(named(wide, "h.1.down").storedBits, 8 + 32.0 / 256);
}

TEST(Quantize, LeavesWhatTrains) {
  Problem problem = transformer({2, 64, 4, 32, 4, 256});
  EXPECT_EQ(quantizeFrozen(problem, Quantization::Int8), 0);
}

TEST(Quantize, LeavesWhatOthersRead) {
  Problem problem = forwardPass();
  ValueId shared = parametersByName(problem).at("h.1.up");
  for (Op &op : problem.ops)
    if (op.operands.size() == 2 && op.operands[1] == shared)
      op.kind = OpKind::Lookup; // as an embedding that is a weight, too
  EXPECT_EQ(quantizeFrozen(problem, Quantization::Int4),
            2 * (4 * 64 * 64 + 2 * 64 * 256) - 64 * 256);
  EXPECT_EQ(problem.values[shared].storedBits, 0);
}

TEST(Quantize, CountsBytesOfPartsAndReadsThemAgain) {
  Problem problem = forwardPass();
  quantizeFrozen(problem, Quantization::Int4);
  ValueId up = parametersByName(problem).at("h.0.up");
  auto whole = dtc::sharding::TensorSharding::replicated(2);
  ParameterBytes bytes = parameterBytes(problem, up, false, whole, {}, {});
  EXPECT_EQ(bytes.elements, 64 * 256);
  EXPECT_EQ(bytes.parameter, placedBytes(8452)); // 64 x 256 x 4.126953125 / 8
  auto again = problemFromJson(toJson(problem), "again.json");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, problem);
  problem.values[up].trainable = true;
  EXPECT_NE(check(problem), "");
}
