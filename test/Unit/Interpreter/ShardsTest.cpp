#include "dtc/Interpreter/Interpreter.h"

#include "mlir/IR/MLIRContext.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace dtc::interpreter;
using dtc::sharding::Mesh;
using dtc::sharding::ReduceKind;
using dtc::sharding::TensorSharding;

namespace {

class ShardsTest : public testing::Test {
protected:
  Tensor counting(ArrayRef<int64_t> shape) {
    Tensor tensor(RankedTensorType::get(shape, Float32Type::get(&context)));
    for (size_t i = 0; i < tensor.floats.size(); ++i)
      tensor.floats[i] = i;
    return tensor;
  }
  MLIRContext context;
  Mesh mesh{{{"x", "x", 2}, {"y", "y", 3}}};
};

TEST_F(ShardsTest, CutsMajorToMinor) {
  TensorSharding sharding{{{1, 0}}, {}};
  Tensors shards = shard(counting({12}), sharding, mesh);
  ASSERT_EQ(shards.size(), 6u);
  // Rank 4 is x=1, y=1: y is the major part.
  EXPECT_EQ(shards[4].floats, (std::vector<double>{6, 7}));
}

TEST_F(ShardsTest, JoinsWhatItCut) {
  Tensor tensor = counting({6, 4});
  for (const TensorSharding &sharding :
       {TensorSharding{{{1}, {0}}, {}}, TensorSharding{{{}, {}}, {}},
        TensorSharding{{{0, 1}, {}}, {}}, TensorSharding{{{1}, {}}, {{0, ReduceKind::Sum}}},
        TensorSharding{{{}, {}}, {{0, ReduceKind::Max}, {1, ReduceKind::Min}}}}) {
    auto whole = unshard(shard(tensor, sharding, mesh), sharding, mesh, tensor.type);
    ASSERT_TRUE(whole.has_value()) << sharding.str(mesh);
    EXPECT_EQ(whole->floats, tensor.floats) << sharding.str(mesh);
  }
}

TEST_F(ShardsTest, AddsPartialTerms) {
  TensorSharding sharding{{{}}, {{1, ReduceKind::Sum}}};
  Tensors shards(6, counting({2}));
  auto whole = unshard(shards, sharding, mesh, shards[0].type);
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(whole->floats, (std::vector<double>{0, 3}));
}

TEST_F(ShardsTest, NoticesCopiesThatDiffer) {
  TensorSharding sharding{{{1}}, {}};
  Tensors shards = shard(counting({6}), sharding, mesh);
  shards[5].floats[1] += 0.5;
  EXPECT_FALSE(unshard(shards, sharding, mesh, counting({6}).type, 0.01).has_value());
  EXPECT_TRUE(unshard(shards, sharding, mesh, counting({6}).type, 1.0).has_value());
}

} // namespace
