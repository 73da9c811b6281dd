// Element types, boxes, shards.
#include "dtc-rt/Program/DType.h"
#include "dtc-rt/Program/RankMesh.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace dtc::rt;

TEST(DType, BFloat16RoundsToNearestEven) {
  EXPECT_EQ(bfloat16FromFloat(1.0f), 0x3f80);
  EXPECT_EQ(bfloat16FromFloat(1.00390625f), 0x3f80); // half-way: to even
  EXPECT_EQ(bfloat16FromFloat(1.01171875f), 0x3f82); // half-way: to even, upwards
  EXPECT_EQ(bfloat16FromFloat(1.004f), 0x3f81);
  EXPECT_EQ(bfloat16FromFloat(3.4e38f), 0x7f80);     // rounds to infinity
  EXPECT_TRUE(std::isnan(floatFromBFloat16(bfloat16FromFloat(NAN))));
  float manyBits; // a NaN whose kept bits are all zero
  uint32_t bits = 0x7f800001;
  static_assert(sizeof(bits) == sizeof(manyBits));
  __builtin_memcpy(&manyBits, &bits, 4);
  EXPECT_TRUE(std::isnan(floatFromBFloat16(bfloat16FromFloat(manyBits))));
}

TEST(DType, LosslessConversions) {
  EXPECT_TRUE(isLossless(DType::I32, DType::I64));
  EXPECT_TRUE(isLossless(DType::U16, DType::I32));
  EXPECT_FALSE(isLossless(DType::I64, DType::I32));
  EXPECT_FALSE(isLossless(DType::U64, DType::I64));
  EXPECT_FALSE(isLossless(DType::I8, DType::U16));
  EXPECT_TRUE(isLossless(DType::BF16, DType::F32));
  EXPECT_FALSE(isLossless(DType::BF16, DType::F16));
  EXPECT_FALSE(isLossless(DType::F16, DType::BF16));
  EXPECT_FALSE(isLossless(DType::I32, DType::F64));
}

TEST(DType, ConvertsUnaligned) {
  char bytes[9] = {};
  int32_t values[2] = {-5, 70000};
  __builtin_memcpy(bytes + 1, values, 8);
  int64_t wide[2];
  convert(DType::I64, reinterpret_cast<char *>(wide), DType::I32, bytes + 1, 2);
  EXPECT_EQ(wide[0], -5);
  EXPECT_EQ(wide[1], 70000);
}

TEST(Shape, RunsCoverTheBoxOnce) {
  // The box of 2x2x3 at (1,1,0) of 4x3x3 against a packed one: rows of 3 merge with
  // nothing, since the middle dimension is cut.
  int64_t runs = 0, elements = 0;
  forEachRun({2, 2, 3}, Box{{4, 3, 3}, {1, 1, 0}}, Box{{2, 2, 3}, {0, 0, 0}},
             [&](int64_t a, int64_t b, int64_t count) {
               EXPECT_EQ(a, (1 + runs) * 9 + 3);
               EXPECT_EQ(b, runs * 6);
               ++runs;
               elements += count;
             });
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(elements, 12);
  forEachRun({0, 5}, Box{{0, 5}, {0, 0}}, Box{{0, 5}, {0, 0}},
             [](int64_t, int64_t, int64_t) { FAIL(); });
  forEachRun({}, Box{{}, {}}, Box{{}, {}},
             [](int64_t a, int64_t b, int64_t count) { EXPECT_EQ(a + b + count, 1); });
}

TEST(RankMesh, Shards) {
  RankMesh mesh({{"dp", 2}, {"tp", 4}});
  Shard shard = mesh.shard({8, 32, 64}, {{0}, {}, {1}}, 5); // dp 1, tp 1
  EXPECT_EQ(shard.offset, (Dims{4, 0, 16}));
  EXPECT_EQ(shard.shape, (Dims{4, 32, 16}));
  EXPECT_TRUE(shard.first);
  Shard both = mesh.shard({16}, {{1, 0}}, 5); // tp is the major part: 1 * 2 + 1
  EXPECT_EQ(both.offset, (Dims{6}));
}

TEST(RankMesh, PartsOfABucket) {
  // A tensor 4x6 divided by tp is 2x6, elements 2 to 13 of a bucket of 16 that dp divides.
  RankMesh mesh({{"dp", 2}, {"tp", 2}});
  Placement placement{{{1}, {}}, {0}, 2, 16};
  std::vector<std::vector<int64_t>> held(24);
  for (int rank = 0; rank < 4; ++rank) {
    Part part = mesh.part({4, 6}, placement, rank);
    EXPECT_EQ(part.stored, 8);
    EXPECT_EQ(part.end - part.begin, 6);
    EXPECT_EQ(part.at, rank < 2 ? 2 : 0);
    EXPECT_TRUE(part.shard.first);
    forEachRun({4, 6}, part, [&](int64_t at, int64_t stored, int64_t count) {
      for (int64_t i = 0; i < count; ++i)
        held[at + i] = {rank, stored + i};
    });
  }
  for (int64_t i = 0; i < 24; ++i) {
    int64_t tp = i / 12, local = i % 12 + 2;
    EXPECT_EQ(held[i], (std::vector<int64_t>{local / 8 * 2 + tp, local % 8})) << i;
  }
  // Without flat axes the part is the shard; copies lie along dp.
  Part plain = mesh.part({4, 6}, {{{1}, {}}, {}, 0, 0}, 3);
  EXPECT_EQ(plain.stored, 12);
  EXPECT_FALSE(plain.shard.first);
}

/// Of a bucket with many tensors a rank may hold nothing of one.
TEST(RankMesh, PartsMayBeEmpty) {
  RankMesh mesh({{"dp", 2}});
  Part none = mesh.part({4}, {{{}}, {0}, 12, 16}, 0), all = mesh.part({4}, {{{}}, {0}, 12, 16}, 1);
  EXPECT_EQ(none.end - none.begin, 0);
  EXPECT_EQ(all.end - all.begin, 4);
  EXPECT_EQ(all.at, 4);
}

TEST(RankMesh, TheFirstHolderOfCopies) {
  RankMesh mesh({{"dp", 2}, {"tp", 2}});
  std::vector<bool> first;
  for (int rank = 0; rank < 4; ++rank)
    first.push_back(mesh.shard({4}, {{1}}, rank).first);
  EXPECT_EQ(first, (std::vector<bool>{true, true, false, false}));
}

TEST(Shape, TextOfADamagedShapeIsShort) {
  EXPECT_EQ(shapeText(Dims{8, 32}), "8x32");
  EXPECT_EQ(shapeText(Dims(100, 1)), "1x1x1x1x1x1x1x1x1x1x1x1... (100 dimensions)");
}
