// Placements against plain loops over all elements.
#include "dtc-rt/Placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

using namespace dtc::rt;

namespace {

/// What lies in the storage of a rank: indices of the tensor, or -1 for what isn't its.
std::vector<int64_t> storageByRuns(const PlacedTensor &tensor, int64_t rank) {
  std::vector<int64_t> storage(product(tensor.storedShape()), -1);
  int64_t next = tensor.storedRange(rank).begin;
  tensor.forEachRun(rank, [&](int64_t whole, int64_t stored, int64_t count) {
    EXPECT_GT(count, 0);
    EXPECT_EQ(stored, next); // without gaps, in order
    next = stored + count;
    for (int64_t i = 0; i < count; ++i)
      storage.at(stored + i) = whole + i;
  });
  EXPECT_EQ(next, tensor.storedRange(rank).begin + tensor.storedRange(rank).count);
  return storage;
}

/// The same by definition: walks the local elements one by one.
std::vector<int64_t> storageByDefinition(const Dims &shape, const Placement &placement,
                                         const RankMesh &mesh, int64_t rank) {
  Dims local;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    local.push_back(shape[dim] / mesh.sizeOf(placement.dims[dim]));
  std::vector<int64_t> bucket;
  for (int64_t i = 0; i < product(local); ++i) {
    int64_t rest = i, whole = 0, stride = 1;
    for (size_t dim = shape.size(); dim-- > 0;) {
      int64_t at = rest % local[dim] + local[dim] * mesh.position(rank, placement.dims[dim]);
      whole += at * stride;
      stride *= shape[dim];
      rest /= local[dim];
    }
    bucket.push_back(whole);
  }
  if (placement.flatAxes.empty())
    return bucket;
  bucket.insert(bucket.begin(), placement.bucketOffset, -1);
  bucket.resize(placement.bucketElements, -1);
  int64_t size = placement.bucketElements / mesh.sizeOf(placement.flatAxes);
  int64_t begin = size * mesh.position(rank, placement.flatAxes);
  return {bucket.begin() + begin, bucket.begin() + begin + size};
}

void expectAsDefined(const Dims &shape, const Placement &placement, const RankMesh &mesh) {
  ASSERT_EQ(PlacedTensor::findMistake(shape, placement, mesh), "");
  PlacedTensor tensor(shape, placement, mesh);
  std::vector<std::vector<int64_t>> seen;
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
    std::vector<int64_t> storage = storageByDefinition(shape, placement, mesh, rank);
    EXPECT_EQ(storageByRuns(tensor, rank), storage) << shapeText(shape) << " rank " << rank;
    // Ranks that store nothing of the tensor may be first holders of nothing.
    bool isNew = std::find(seen.begin(), seen.end(), storage) == seen.end();
    if (std::any_of(storage.begin(), storage.end(), [](int64_t i) { return i >= 0; }))
      EXPECT_EQ(tensor.isFirstHolder(rank), isNew) << shapeText(shape) << " rank " << rank;
    seen.push_back(storage);
  }
}

const RankMesh kMesh({{"dp", 2}, {"tp", 3}, {"cp", 2}});

} // namespace

TEST(Placement, Example) {
  RankMesh mesh({{"tp", 2}, {"dp", 4}});
  Placement placement{{{}, {0}}, {1}, 2, 16};
  PlacedTensor tensor({4, 6}, placement, mesh);
  EXPECT_EQ(tensor.storedShape(), (Dims{4}));
  EXPECT_EQ(storageByRuns(tensor, 0), (std::vector<int64_t>{-1, -1, 0, 1}));
  EXPECT_EQ(storageByRuns(tensor, 1), (std::vector<int64_t>{2, 6, 7, 8}));
  EXPECT_EQ(storageByRuns(tensor, 7), (std::vector<int64_t>{22, 23, -1, -1})); // tp=1, dp=3
}

TEST(Placement, PlainShardings) {
  expectAsDefined({}, {}, kMesh);
  expectAsDefined({4, 6}, {{{}, {}}, {}}, kMesh);
  expectAsDefined({4, 6}, {{{0}, {1}}, {}}, kMesh);
  expectAsDefined({12, 5}, {{{2, 1, 0}, {}}, {}}, kMesh); // the order of axes matters
  expectAsDefined({2, 0, 3}, {{{0}, {}, {1}}, {}}, kMesh);
}

TEST(Placement, BucketsAndPadding) {
  expectAsDefined({4, 6}, {{{}, {1}}, {0}, 0, 8}, kMesh);
  expectAsDefined({5}, {{{}}, {0, 2}, 0, 8}, kMesh);   // padded
  expectAsDefined({5}, {{{}}, {2, 0}, 3, 8}, kMesh);
  expectAsDefined({}, {{}, {1}, 7, 9}, kMesh);         // one element in the last part
  expectAsDefined({3}, {{{}}, {0, 1, 2}, 20, 120}, kMesh); // most ranks have none of it
}

TEST(Placement, ManyAtRandom) {
  std::mt19937 generator(7);
  auto below = [&](int64_t n) { return static_cast<int64_t>(generator() % n); };
  for (int trial = 0; trial < 300; ++trial) {
    size_t rank = static_cast<size_t>(below(4));
    Placement placement{Sharding(rank), {}};
    std::vector<int32_t> axes = {0, 1, 2};
    std::shuffle(axes.begin(), axes.end(), generator);
    for (int32_t axis : axes)
      if (size_t place = static_cast<size_t>(below(static_cast<int64_t>(rank) + 2)); place < rank)
        placement.dims[place].push_back(axis);
      else if (place == rank)
        placement.flatAxes.push_back(axis);
    Dims shape;
    int64_t local = 1;
    for (const AxisList &list : placement.dims) {
      int64_t size = 1 + below(4);
      local *= size;
      shape.push_back(size * kMesh.sizeOf(list));
    }
    if (!placement.flatAxes.empty()) {
      int64_t ranks = kMesh.sizeOf(placement.flatAxes);
      placement.bucketOffset = below(20);
      int64_t needed = placement.bucketOffset + local + below(20);
      placement.bucketElements = (needed + ranks - 1) / ranks * ranks;
    }
    expectAsDefined(shape, placement, kMesh);
  }
}

TEST(Placement, MistakesAreNamed) {
  auto expectMistake = [](const Dims &shape, const Placement &placement, const char *part) {
    std::string mistake = PlacedTensor::findMistake(shape, placement, kMesh);
    EXPECT_NE(mistake.find(part), std::string::npos) << mistake;
  };
  expectMistake({4}, {{{0}, {}}, {}}, "2 dimensions");
  expectMistake({4}, {{{3}}, {}}, "mesh axis: 3");
  expectMistake({4}, {{{-1}}, {}}, "mesh axis: -1");
  expectMistake({4}, {{{0}}, {0}, 0, 4}, "mesh axis: 0");
  expectMistake({4}, {{{1}}, {}}, "does not divide dimension 0");
  expectMistake({4}, {{{}}, {}, 0, 8}, "no axis divides");
  expectMistake({4}, {{{}}, {1}, 0, 8}, "do not divide: 8");
  expectMistake({4}, {{{}}, {0}, 6, 8}, "out of its bucket");
  expectMistake({4}, {{{}}, {0}, -1, 8}, "out of its bucket");
  expectMistake({4}, {{{}}, {0}, 0, 2}, "out of its bucket");
}
