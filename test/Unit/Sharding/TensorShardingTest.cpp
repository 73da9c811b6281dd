#include "Enumerate.h"

#include <gtest/gtest.h>

using namespace dtc::sharding;

static const Mesh mesh{{{"dp", "dp", 2}, {"tp", "tp", 4}}};

TEST(TensorSharding, ShapesAndOffsets) {
  TensorSharding sharding{{{}, {0, 1}}, {}};
  EXPECT_EQ(sharding.localShape({3, 16}, mesh), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(sharding.localOffset({3, 16}, mesh, 6), (std::vector<int64_t>{0, 12}));
  TensorSharding swapped{{{}, {1, 0}}, {}};
  EXPECT_EQ(swapped.localOffset({3, 16}, mesh, 6), (std::vector<int64_t>{0, 10}));
}

TEST(TensorSharding, ShardsCoverTheTensorOnce) {
  for (const TensorSharding &sharding : allShardings(2, mesh, ReduceKind::Sum)) {
    std::vector<int> seen(8 * 8);
    std::vector<int64_t> local = sharding.localShape({8, 8}, mesh);
    for (int64_t rank = 0; rank < mesh.devices(); ++rank) {
      std::vector<int64_t> offset = sharding.localOffset({8, 8}, mesh, rank);
      for (int64_t i = 0; i < local[0]; ++i)
        for (int64_t j = 0; j < local[1]; ++j)
          ++seen[(offset[0] + i) * 8 + offset[1] + j];
    }
    int64_t copies = mesh.devices() * local[0] * local[1] / 64;
    for (int count : seen)
      EXPECT_EQ(count, copies) << sharding.str(mesh);
  }
}

TEST(TensorSharding, Questions) {
  TensorSharding sharding{{{0}, {}}, {{1, ReduceKind::Max}}};
  EXPECT_TRUE(sharding.splits(0));
  EXPECT_FALSE(sharding.splits(1));
  EXPECT_TRUE(sharding.isPartial(1));
}

TEST(TensorSharding, Prints) {
  EXPECT_EQ((TensorSharding{{{0, 1}, {}}, {}}.str(mesh)), R"([{"dp", "tp"}, {}])");
  EXPECT_EQ((TensorSharding{{{}}, {{0, ReduceKind::Max}, {1, ReduceKind::Sum}}}.str(mesh)),
            R"([{}] sum{"tp"} max{"dp"})");
}

TEST(TensorSharding, Checks) {
  EXPECT_EQ((TensorSharding{{{0}, {1}}, {}}.check({2, 8}, mesh)), "");
  EXPECT_EQ((TensorSharding{{{0}}, {}}.check({2, 8}, mesh)),
            "sharding has 1 dimensions, the tensor 2");
  EXPECT_EQ((TensorSharding{{{0}, {0}}, {}}.check({2, 8}, mesh)), "axis is used twice: dp");
  EXPECT_EQ((TensorSharding{{{0}}, {{0, ReduceKind::Sum}}}.check({2}, mesh)),
            "axis is used twice: dp");
  EXPECT_EQ((TensorSharding{{{2}}, {}}.check({2}, mesh)), "axis is not in the mesh: 2");
  EXPECT_EQ((TensorSharding{{{-1}}, {}}.check({2}, mesh)), "axis is not in the mesh: -1");
  EXPECT_EQ((TensorSharding{{{0, 1}}, {}}.check({12}, mesh)),
            "dimension 0 of size 12 is not divisible by 8");
  EXPECT_EQ((TensorSharding{{{}}, {{1, ReduceKind::Sum}, {0, ReduceKind::Sum}}}.check({4}, mesh)),
            "partial axes are not in the order of the mesh: dp");
}
