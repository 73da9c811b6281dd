// Collectives of groups of ranks. Values are small integers, so that every order of
// adding gives the same sums.
#include "Conformance.h"

#include <thread>

using dtc::ErrorCategory;
using namespace dtc::rt;
using namespace dtc::rt::conformance;

namespace {

using fbs::CollectiveKind;
using Floats = std::vector<float>;

constexpr uint64_t kSource = 0, kTarget = 4096, kStep = 16384; ///< kStep: to the next operand
const std::vector<QueueKind> kQueues = {QueueKind::Compute, QueueKind::Collective};

CollectiveSpec specOf(CollectiveKind kind, std::vector<int> ranks, std::vector<Dims> shapes,
                      int dim = -1) {
  CollectiveSpec spec;
  spec.kind = kind;
  spec.ranks = std::move(ranks);
  spec.shapes = std::move(shapes);
  spec.dim = dim;
  return spec;
}

/// 0, 1, 2, ... with 100 for each rank.
Floats valuesOf(int rank, int64_t count) {
  Floats values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(100 * rank + i);
  return values;
}

/// Fills the sources and runs the collective on a queue of its own; in place where asked.
Status perform(Rank &rank, const CollectiveSpec &spec, bool inPlace = false) {
  DTC_TRY(rank.begin(kQueues));
  std::vector<uint64_t> offsets;
  for (size_t i = 0; i < spec.shapes.size(); ++i) {
    uint64_t source = kSource + i * kStep, target = inPlace ? source : kTarget + i * kStep;
    Floats values = valuesOf(rank.number(), product(spec.shapes[i]));
    for (float &value : values)
      value += 1000.0f * static_cast<float>(i);
    DTC_TRY(rank.put(source, values));
    offsets.insert(offsets.end(), {source, target});
  }
  DTC_TRY(rank.issue(1, spec, offsets));
  return rank.synchronizeAll();
}

} // namespace

TEST_P(Conformance, AllReduceOfSeveralOperandsInPlaceToo) {
  for (bool inPlace : {false, true})
    onRanks(3, [&](Rank &rank) {
      DTC_TRY(perform(rank, specOf(CollectiveKind::AllReduce, {0, 1, 2}, {{5}, {2, 3}}), inPlace));
      uint64_t from = inPlace ? kSource : kTarget;
      EXPECT_EQ(rank.get(from, 5), (Floats{300, 303, 306, 309, 312}));
      EXPECT_EQ(rank.get(from + kStep, 6), (Floats{3300, 3303, 3306, 3309, 3312, 3315}));
      return Status::ok();
    });
}

TEST_P(Conformance, AllReduceOfMaximum) {
  onRanks(2, [&](Rank &rank) {
    CollectiveSpec spec = specOf(CollectiveKind::AllReduce, {0, 1}, {{3}});
    spec.reduction = Reduction::Max;
    DTC_TRY(perform(rank, spec));
    EXPECT_EQ(rank.get(kTarget, 3), (Floats{100, 101, 102}));
    return Status::ok();
  });
}

TEST_P(Conformance, GroupsAreListsInTheirOwnOrder) {
  // Two groups at once; positions are not in the order of ranks.
  onRanks(4, [&](Rank &rank) {
    bool inFirst = rank.number() == 0 || rank.number() == 3;
    std::vector<int> ranks = inFirst ? std::vector{3, 0} : std::vector{2, 1};
    DTC_TRY(perform(rank, specOf(CollectiveKind::AllGather, ranks, {{1}}, 0)));
    EXPECT_EQ(rank.get(kTarget, 2), inFirst ? (Floats{300, 0}) : (Floats{200, 100}));
    return Status::ok();
  });
}

TEST_P(Conformance, AllGatherOfSeveralOperandsInPlaceToo) {
  for (bool inPlace : {false, true})
    onRanks(2, [&](Rank &rank) {
      DTC_TRY(
          perform(rank, specOf(CollectiveKind::AllGather, {0, 1}, {{2, 2}, {1, 1}}, 1), inPlace));
      uint64_t from = inPlace ? kSource : kTarget;
      EXPECT_EQ(rank.get(from, 8), (Floats{0, 1, 100, 101, 2, 3, 102, 103}));
      EXPECT_EQ(rank.get(from + kStep, 2), (Floats{1000, 1100}));
      return Status::ok();
    });
}

TEST_P(Conformance, ReduceScatterOfSeveralOperandsInPlaceToo) {
  for (bool inPlace : {false, true})
    onRanks(2, [&](Rank &rank) {
      DTC_TRY(perform(rank, specOf(CollectiveKind::ReduceScatter, {0, 1}, {{2, 4}, {1, 2}}, 1),
                      inPlace));
      uint64_t from = inPlace ? kSource : kTarget;
      bool first = rank.number() == 0;
      EXPECT_EQ(rank.get(from, 4),
                first ? (Floats{100, 102, 108, 110}) : (Floats{104, 106, 112, 114}));
      EXPECT_EQ(rank.get(from + kStep, 1)[0], first ? 2100 : 2102);
      return Status::ok();
    });
}

TEST_P(Conformance, AllToAllAndPermuteAndSlice) {
  onRanks(2, [&](Rank &rank) {
    CollectiveSpec spec = specOf(CollectiveKind::AllToAll, {0, 1}, {{4, 2}}, 0);
    spec.concatDim = 1;
    DTC_TRY(perform(rank, spec));
    EXPECT_EQ(rank.get(kTarget, 8), rank.number() == 0 ? (Floats{0, 1, 100, 101, 2, 3, 102, 103})
                                                       : (Floats{4, 5, 104, 105, 6, 7, 106, 107}));
    return Status::ok();
  });
  onRanks(3, [&](Rank &rank) {
    CollectiveSpec spec = specOf(CollectiveKind::Permute, {0, 1, 2}, {{2}});
    spec.sources = {2, 0, 0};
    DTC_TRY(perform(rank, spec));
    EXPECT_EQ(rank.get(kTarget, 2), rank.number() == 0 ? (Floats{200, 201}) : (Floats{0, 1}));
    return Status::ok();
  });
  onRanks(2, [&](Rank &rank) {
    DTC_TRY(
        perform(rank, specOf(CollectiveKind::Slice, {1, 0}, {{2, 2}}, 1))); // rank 1 has position 0
    EXPECT_EQ(rank.get(kTarget, 2), rank.number() == 1 ? (Floats{100, 102}) : (Floats{1, 3}));
    return Status::ok();
  });
}

TEST_P(Conformance, QueuesOfDifferentNamesDoNotMeet) {
  // Collectives of one group at a time, each on its queue, in another order on each rank.
  onRanks(2, [&](Rank &rank) {
    DTC_TRY(rank.begin(kQueues));
    const float own = 10.0f * rank.number();
    DTC_TRY(rank.put(kSource, {1, 2, own + 1, own + 2}));
    CollectiveSpec specs[] = {specOf(CollectiveKind::AllReduce, {0, 1}, {{1}}),
                              specOf(CollectiveKind::Permute, {0, 1}, {{1}})};
    specs[1].sources = {1, 0};
    for (size_t queue : {0, 1})
      for (const CollectiveSpec &spec : specs)
        DTC_TRY(rank.prepare(queue, spec));
    DTC_TRY(rank.device.finishPreparing());
    size_t first = rank.number();
    for (size_t queue : {first, 1 - first})
      for (size_t i : {0, 1}) {
        uint64_t place = kSource + 8 * i + 4 * queue;
        DTC_TRY(rank.issue(queue, specs[i], {place, place}));
      }
    DTC_TRY(rank.synchronizeAll());
    EXPECT_EQ(rank.get(kSource, 4), (Floats{2, 4, 11 - own, 12 - own}));
    return Status::ok();
  });
}

/// NCCL destroys no communicator while a graph is left that has captured its calls.
TEST_P(Conformance, QueuesEndBeforeWhatWasRecordedOfThem) {
  onRanks(2, [](Rank &rank) {
    DTC_TRY(perform(rank, specOf(CollectiveKind::AllReduce, {0, 1}, {{2}}), true));
    auto recorded = rank.device.record(rank.queue(0), [&] {
      rank.order(0, 1);
      DTC_TRY(rank.issue(1, specOf(CollectiveKind::AllReduce, {0, 1}, {{2}}), {kSource, kSource}));
      rank.order(1, 0);
      return Status::ok();
    });
    if (!recorded)
      return recorded.status();
    for (int i = 0; i < 2 && *recorded; ++i)
      DTC_TRY((*recorded)->issue({}));
    DTC_TRY(rank.synchronizeAll());
    EXPECT_EQ(rank.get(kSource, 2), *recorded ? (Floats{400, 408}) : (Floats{100, 102}));
    const auto begin = std::chrono::steady_clock::now();
    rank.end();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    return Status::ok();
  });
}

TEST_P(Conformance, CollectivesThatDifferAreAnError) {
  DTC_NEEDS_RANKS(2);
  auto statuses = statusesOf(2, [&](Rank &rank) {
    return perform(rank, specOf(CollectiveKind::AllReduce, {0, 1}, {{rank.number() + 1}}));
  });
  for (const Status &status : statuses)
    EXPECT_FALSE(status.isOk());
}

TEST_P(Conformance, ACollectiveThatARankMissesEndsInTime) {
  DTC_NEEDS_RANKS(2);
  auto statuses = statusesOf(2, [&](Rank &rank) {
    DTC_TRY(rank.begin(kQueues));
    if (rank.number() == 1) {
      while (rank.device.status().isOk())
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return rank.device.status();
    }
    CollectiveSpec spec = specOf(CollectiveKind::AllReduce, {0, 1}, {{1}});
    DTC_TRY(rank.issue(1, spec, {kSource, kTarget}, "gradients"));
    return rank.synchronizeAll();
  }, std::chrono::milliseconds(200));
  EXPECT_EQ(statuses[0].category(), ErrorCategory::RankLost);
  EXPECT_NE(statuses[0].message().find("at gradients for rank: 1"), std::string::npos)
      << statuses[0].message();
  EXPECT_EQ(statuses[1].category(), ErrorCategory::RankLost);
}
