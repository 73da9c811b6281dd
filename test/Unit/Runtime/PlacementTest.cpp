// Placements against plain loops over all elements.
#include "dtc-rt/Program/PartRuns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

using namespace dtc::rt;

namespace {

/// What lies in the storage of a rank: indices of the tensor, or -1 for what isn't its.
std::vector<int64_t> storageByRuns(const Dims &shape, const Part &part) {
  std::vector<int64_t> storage(part.stored, -1);
  int64_t next = part.at;
  forEachRun(shape, part, [&](int64_t whole, int64_t stored, int64_t count) {
    EXPECT_GT(count, 0);
    EXPECT_EQ(stored, next); // without gaps, in order
    next = stored + count;
    for (int64_t i = 0; i < count; ++i)
      storage.at(stored + i) = whole + i;
  });
  EXPECT_EQ(next, part.at + part.end - part.begin);
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
  std::vector<std::vector<int64_t>> seen;
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
    std::vector<int64_t> storage = storageByDefinition(shape, placement, mesh, rank);
    Part part = mesh.part(shape, placement, rank);
    EXPECT_EQ(storageByRuns(shape, part), storage) << shapeText(shape) << " rank " << rank;
    // Of ranks that store nothing of the tensor any may be the first holder.
    bool isNew = std::find(seen.begin(), seen.end(), storage) == seen.end();
    if (std::any_of(storage.begin(), storage.end(), [](int64_t i) { return i >= 0; }))
      EXPECT_EQ(part.shard.first, isNew) << shapeText(shape) << " rank " << rank;
    seen.push_back(storage);
  }
}

const RankMesh kMesh({{"dp", 2}, {"tp", 3}, {"cp", 2}});

/// Some placement on kMesh, and a shape that it divides.
struct RandomPlacement {
  Dims shape;
  Placement placement;

  explicit RandomPlacement(std::mt19937 &generator) {
    auto below = [&](int64_t n) { return static_cast<int64_t>(generator() % n); };
    size_t rank = static_cast<size_t>(below(4));
    placement.dims.resize(rank);
    std::vector<int32_t> axes = {0, 1, 2};
    std::shuffle(axes.begin(), axes.end(), generator);
    for (int32_t axis : axes)
      if (size_t place = static_cast<size_t>(below(static_cast<int64_t>(rank) + 2)); place < rank)
        placement.dims[place].push_back(axis);
      else if (place == rank)
        placement.flatAxes.push_back(axis);
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
  }
};

/// The elements of a part, in the order in which they are stored.
std::vector<int64_t> elementsOf(const Dims &shape, const Part &part) {
  std::vector<int64_t> elements;
  forEachRun(shape, part, [&](int64_t whole, int64_t, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      elements.push_back(whole + i);
  });
  return elements;
}

/// Elements of `wanted`, taken from those parts of `stored` that have them.
std::vector<int64_t> elementsThrough(const Dims &shape, const Part &wanted, const Dims &view,
                                     const std::vector<Part> &stored) {
  std::vector<int64_t> result(static_cast<size_t>(wanted.end - wanted.begin), -1);
  for (const Part &part : stored) {
    std::vector<int64_t> there = elementsOf(view, part);
    forEachCommonRun(PartRuns(shape, wanted), PartRuns(view, part),
                     [&](int64_t to, int64_t from, int64_t count) {
                       for (int64_t i = 0; i < count; ++i) {
                         EXPECT_EQ(result.at(to + i), -1);
                         result.at(to + i) = there.at(from + i);
                       }
                     });
  }
  return result;
}

} // namespace

TEST(Placement, TensorInABucket) {
  // 4x6 on <tp=2, dp=4>: 12 local elements from the third place of a bucket of 16 on.
  RankMesh mesh({{"tp", 2}, {"dp", 4}});
  Placement placement{{{}, {0}}, {1}, 2, 16};
  auto storageOf = [&](int64_t rank) {
    return storageByRuns({4, 6}, mesh.part({4, 6}, placement, rank));
  };
  EXPECT_EQ(storageOf(0), (std::vector<int64_t>{-1, -1, 0, 1}));
  EXPECT_EQ(storageOf(1), (std::vector<int64_t>{2, 6, 7, 8}));
  EXPECT_EQ(storageOf(7), (std::vector<int64_t>{22, 23, -1, -1})); // tp=1, dp=3
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
  expectAsDefined({5}, {{{}}, {0, 2}, 0, 8}, kMesh); // padded
  expectAsDefined({5}, {{{}}, {2, 0}, 3, 8}, kMesh);
  expectAsDefined({}, {{}, {1}, 7, 9}, kMesh);             // one element in the last part
  expectAsDefined({3}, {{{}}, {0, 1, 2}, 20, 120}, kMesh); // most ranks have none of it
}

TEST(Placement, ManyAtRandom) {
  std::mt19937 generator(7);
  for (int trial = 0; trial < 300; ++trial) {
    RandomPlacement random(generator);
    expectAsDefined(random.shape, random.placement, kMesh);
  }
}

TEST(Placement, SharesOfCopiesMakeUpThePart) {
  std::mt19937 generator(8);
  for (int trial = 0; trial < 300; ++trial) {
    RandomPlacement random(generator);
    std::vector<int64_t> all;
    for (int64_t rank = 0; rank < kMesh.numRanks(); ++rank) {
      Part share = kMesh.share(random.shape, random.placement, rank);
      std::vector<int64_t> elements = elementsOf(random.shape, share);
      all.insert(all.end(), elements.begin(), elements.end());
      std::vector<int64_t> stored =
          storageByRuns(random.shape, kMesh.part(random.shape, random.placement, rank));
      for (size_t i = 0; i < elements.size(); ++i) // where the share says that it lies
        EXPECT_EQ(stored.at(share.at + i), elements[i]);
    }
    std::sort(all.begin(), all.end());
    std::vector<int64_t> expected(static_cast<size_t>(product(random.shape)));
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected) << shapeText(random.shape);
  }
}

TEST(PartRuns, AreThoseOfForEachRun) {
  std::mt19937 generator(9);
  for (int trial = 0; trial < 300; ++trial) {
    RandomPlacement random(generator);
    Part part = kMesh.share(random.shape, random.placement, trial % kMesh.numRanks());
    PartRuns runs(random.shape, part);
    std::vector<int64_t> elements;
    for (int64_t i = 0; i < runs.size(); ++i) {
      EXPECT_EQ(runs[i].local, static_cast<int64_t>(elements.size()));
      EXPECT_EQ(runs.findEndingAfter(runs[i].at), i);
      for (int64_t j = 0; j < runs[i].count; ++j)
        elements.push_back(runs[i].at + j);
    }
    EXPECT_EQ(elements, elementsOf(random.shape, part));
  }
}

/// The elements of a tensor that a part of a longer view has, by their places in the part; -1:
/// none.
std::vector<int64_t> elementsOfLonger(const Dims &tensor, const Dims &view, const Part &part) {
  std::vector<int64_t> result;
  for (int64_t seen : elementsOf(view, part)) {
    int64_t at = 0, stride = 1;
    bool isThere = true;
    for (size_t dim = view.size(); dim-- > 0; seen /= view[dim], stride *= tensor[dim]) {
      isThere &= seen % view[dim] < tensor[dim];
      at += seen % view[dim] * stride;
    }
    result.push_back(isThere ? at : -1);
  }
  return result;
}

TEST(PartRuns, OfALongerViewAreThoseThatTheTensorHas) {
  std::mt19937 generator(11);
  for (int trial = 0; trial < 300; ++trial) {
    RandomPlacement random(generator);
    Dims tensor = random.shape;
    for (int64_t &size : tensor)
      size -= std::min<int64_t>(size - 1, static_cast<int64_t>(generator() % 4));
    Part part = kMesh.share(random.shape, random.placement, trial % kMesh.numRanks());
    std::vector<int64_t> elements(static_cast<size_t>(part.end - part.begin), -1);
    PartRuns runs(tensor, random.shape, part);
    for (int64_t i = 0; i < runs.size(); ++i) {
      EXPECT_GT(runs[i].count, 0);
      EXPECT_EQ(runs.findEndingAfter(runs[i].at), i);
      for (int64_t j = 0; j < runs[i].count; ++j)
        elements.at(static_cast<size_t>(runs[i].local + j)) = runs[i].at + j;
    }
    EXPECT_EQ(elements, elementsOfLonger(tensor, random.shape, part));
  }
}

TEST(PartRuns, FillWhatHasRoomForAllElements) {
  EXPECT_EQ(filledOf({6, 4}, {2, 3, 4}), (Dims{2, 3, 4}));
  EXPECT_EQ(filledOf({6, 4}, {6, 5}), (Dims{6, 4}));
  EXPECT_TRUE(mayFill({6, 4}, {2, 3, 4}, {2, 4, 4}));
  EXPECT_FALSE(mayFill({6, 4}, {2, 3, 4}, {2, 2, 8})); // a dimension is too short
  EXPECT_FALSE(mayFill({6, 4}, {2, 2, 4}, {2, 4, 4})); // elements are left out
  EXPECT_FALSE(mayFill({6, 4}, {6, 4}, {2, 4, 4}));
}

TEST(PartRuns, LeadFromOnePaddingToAnother) {
  Dims tensor = {3, 5}, from = {4, 5}, to = {3, 6};
  Placement rows{{{0}, {}}, {}}, columns{{{}, {1}}, {}};
  std::vector<Part> stored;
  for (int64_t rank = 0; rank < kMesh.numRanks(); ++rank)
    stored.push_back(kMesh.share(from, rows, rank));
  for (int64_t rank = 0; rank < kMesh.numRanks(); ++rank) {
    Part wanted = kMesh.part(to, columns, rank);
    std::vector<int64_t> found(static_cast<size_t>(wanted.end - wanted.begin), -1);
    for (const Part &part : stored) {
      std::vector<int64_t> there = elementsOfLonger(tensor, from, part);
      forEachCommonRun(PartRuns(tensor, to, wanted), PartRuns(tensor, from, part),
                       [&](int64_t at, int64_t source, int64_t count) {
                         for (int64_t i = 0; i < count; ++i)
                           found.at(at + i) = there.at(source + i);
                       });
    }
    EXPECT_EQ(found, elementsOfLonger(tensor, to, wanted));
  }
}

TEST(PartRuns, LeadFromAnyPlacementToAnyOther) {
  std::mt19937 generator(10);
  for (int trial = 0; trial < 300; ++trial) {
    RandomPlacement from(generator), to(generator);
    // Another view of as many elements: dimensions are added where one has too few.
    int64_t a = product(from.shape), b = product(to.shape);
    for (auto [random, factor] : {std::pair(&from, b), {&to, a}}) {
      if (!random->placement.flatAxes.empty())
        random->placement = {Sharding(random->shape.size()), {}};
      random->shape.push_back(factor);
      random->placement.dims.emplace_back();
    }
    std::vector<Part> stored;
    for (int64_t rank = 0; rank < kMesh.numRanks(); ++rank)
      stored.push_back(kMesh.share(from.shape, from.placement, rank));
    for (int64_t rank = 0; rank < kMesh.numRanks(); ++rank) {
      Part wanted = kMesh.part(to.shape, to.placement, rank);
      EXPECT_EQ(elementsThrough(to.shape, wanted, from.shape, stored), elementsOf(to.shape, wanted))
          << shapeText(from.shape) << " to " << shapeText(to.shape) << " rank " << rank;
    }
  }
}

TEST(PartRuns, LeadFromOneBucketToAnother) {
  Dims shape = {4, 6};
  Placement from{{{}, {1}}, {0}, 2, 12}, to{{{2}, {}}, {1, 0}, 5, 24};
  std::vector<Part> stored;
  for (int64_t rank = 0; rank < kMesh.numRanks(); ++rank)
    stored.push_back(kMesh.share(shape, from, rank));
  for (int64_t rank = 0; rank < kMesh.numRanks(); ++rank) {
    Part wanted = kMesh.part(shape, to, rank);
    EXPECT_EQ(elementsThrough(shape, wanted, shape, stored), elementsOf(shape, wanted));
  }
}
