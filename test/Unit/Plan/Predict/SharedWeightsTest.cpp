// What stages pay that read the same weights.
#include "FoundStages.h"
#include "Transformer.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;
using dtc::schedule::Placement;

namespace {

/// Four stages of layers that have all weights of the first one.
class SharedWeightsTest : public ::testing::Test {
protected:
  SharedWeightsTest() {
    TransformerSize size{8, 256, 4, 128, 8, 1024};
    size.oneLayer = true;
    of.emplace(best(transformer(size), 4, "dp=1,tp=1,pp=4,schedule=1f1b", on), on);
  }

  /// What a rank adds up with others.
  double bytesOf(const Placement &placement, int64_t rank) const {
    double bytes = 0;
    for (const StageCosts::Tied &each :
         of->stages.costs().tied(of->stages.getStages(), placement, rank))
      bytes += each.bytes;
    return bytes;
  }

  Cluster on = cluster("dgx-h100");
  std::optional<FoundStages> of;
};

} // namespace

/// A rank that comes again begins another round, in which all take part (Schedule/SumRounds.h).
TEST_F(SharedWeightsTest, PayForEachRoundOfTheirSum) {
  ASSERT_EQ(of->stages.getStages().size(), 4u);
  const double once = bytesOf(Placement::inTurn(4, 1), 0);
  ASSERT_GT(once, 0);
  for (int64_t rank = 1; rank < 4; ++rank)
    EXPECT_EQ(bytesOf(Placement::inTurn(4, 1), rank), once);
  for (const Placement &twice : {Placement::inTurn(2, 2), Placement({{0, 3}, {1, 2}})})
    for (int64_t rank : {0, 1})
      EXPECT_EQ(bytesOf(twice, rank), 2 * once);
  EXPECT_EQ(bytesOf(Placement::inTurn(1, 4), 0), 0) << "it adds up alone";
}
