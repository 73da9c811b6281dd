#include "RanksOfAWorld.h"

#include "dtc-rt/Program/RankMesh.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <latch>
#include <numeric>
#include <random>
#include <thread>

using dtc::ErrorCategory;
using namespace dtc::rt;
using namespace dtc::rt::test;
using namespace std::chrono_literals;

namespace {

INSTANTIATE_TEST_SUITE_P(Ranks, CommunicatorTest, testing::Bool(),
                         [](const auto &info) { return info.param ? "AsProcesses" : "AsThreads"; });

RankGroup everyone(Communicator &communicator) {
  std::vector<int> ranks(communicator.worldSize());
  std::iota(ranks.begin(), ranks.end(), 0);
  return communicator.group(ranks);
}

std::vector<float> randomFloats(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float &value : values)
    value = normal(generator);
  return values;
}

Transfer transfer(const std::vector<float> &source, std::vector<float> &target, Dims shape) {
  return {reinterpret_cast<const char *>(source.data()), reinterpret_cast<char *>(target.data()),
          std::move(shape)};
}

const RankMesh kMesh({{"dp", 2}, {"tp", 2}});

/// Element of rank r's tensor: tells rank and place apart.
float element(int rank, int64_t i) { return static_cast<float>(1000 * rank + i); }

std::vector<float> tensorOf(int rank, int64_t size) {
  std::vector<float> values(size);
  for (int64_t i = 0; i < size; ++i)
    values[i] = element(rank, i);
  return values;
}

} // namespace

TEST_P(CommunicatorTest, AllReduceSumsInRankOrder) {
  // Sizes around the pieces that are reduced at a time, and fewer elements than ranks.
  for (int64_t size : {1, 3, 16, 17, 1000, 5000, 100003}) {
    std::vector<std::vector<float>> inputs;
    for (unsigned rank = 0; rank < 3; ++rank)
      inputs.push_back(randomFloats(size, rank));
    std::vector<float> expected(size);
    for (int64_t i = 0; i < size; ++i)
      expected[i] = (inputs[0][i] + inputs[1][i]) + inputs[2][i];
    for (bool inPlace : {false, true}) {
      std::vector<std::vector<float>> sources = inputs, targets(3, std::vector<float>(size));
      expectOk(onRanks(3, [&](Communicator &c) {
        auto &target = inPlace ? sources[c.rank()] : targets[c.rank()];
        Transfer buffer = transfer(sources[c.rank()], target, {size});
        return c.allReduce(everyone(c), Reduction::Sum, DType::F32, {&buffer, 1});
      }));
      for (int rank = 0; rank < 3; ++rank)
        EXPECT_EQ(inPlace ? sources[rank] : targets[rank], expected) << size;
    }
  }
}

TEST_P(CommunicatorTest, AllReduceOfSeveralBuffers) {
  std::vector<int64_t> sizes = {5, 1, 3000, 7};
  std::vector<std::vector<std::vector<float>>> data(2);
  for (int rank = 0; rank < 2; ++rank)
    for (size_t i = 0; i < sizes.size(); ++i)
      data[rank].push_back(randomFloats(sizes[i], 10 * rank + i));
  auto inputs = data;
  expectOk(onRanks(2, [&](Communicator &c) {
    std::vector<Transfer> buffers;
    for (auto &values : data[c.rank()])
      buffers.push_back(transfer(values, values, {static_cast<int64_t>(values.size())}));
    return c.allReduce(everyone(c), Reduction::Sum, DType::F32, buffers);
  }));
  for (size_t i = 0; i < sizes.size(); ++i)
    for (int64_t j = 0; j < sizes[i]; ++j)
      for (int rank = 0; rank < 2; ++rank)
        ASSERT_EQ(data[rank][i][j], inputs[0][i][j] + inputs[1][i][j]);
}

TEST_P(CommunicatorTest, MaximumKeepsNaN) {
  std::vector<std::vector<float>> data = {{1, NAN, -5}, {2, 3, -7}};
  expectOk(onRanks(2, [&](Communicator &c) {
    Transfer buffer = transfer(data[c.rank()], data[c.rank()], {3});
    return c.allReduce(everyone(c), Reduction::Max, DType::F32, {&buffer, 1});
  }));
  EXPECT_EQ(data[0][0], 2);
  EXPECT_TRUE(std::isnan(data[0][1]) && std::isnan(data[1][1]));
  EXPECT_EQ(data[1][2], -5);
}

TEST_P(CommunicatorTest, BFloat16SumsInFloat) {
  // 256 + 1 is not a bf16; adding in bf16 would lose every one of them.
  constexpr int kRanks = 4;
  std::vector<uint16_t> values[kRanks];
  for (int rank = 0; rank < kRanks; ++rank)
    values[rank] = {bfloat16FromFloat(rank == 0 ? 256.0f : 1.0f)};
  expectOk(onRanks(kRanks, [&](Communicator &c) {
    char *data = reinterpret_cast<char *>(values[c.rank()].data());
    Transfer buffer{data, data, {1}};
    return c.allReduce(everyone(c), Reduction::Sum, DType::BF16, {&buffer, 1});
  }));
  EXPECT_EQ(floatFromBFloat16(values[2][0]), 260.0f); // 259 rounds to even
}

TEST_P(CommunicatorTest, GroupsOfAMesh) {
  // Ranks 0 1 2 3 are (dp, tp) = (0,0) (0,1) (1,0) (1,1).
  for (auto [axes, expected] :
       {std::pair(AxisList{0}, std::vector<float>{2, 4, 2, 4}),
        std::pair(AxisList{1}, std::vector<float>{1, 1, 5, 5})}) {
    std::vector<float> result(4);
    expectOk(onRanks(4, [&, axes = axes](Communicator &c) {
      RankGroup group = c.group(kMesh.group(c.rank(), axes));
      std::vector<float> value = {static_cast<float>(c.rank())};
      Transfer buffer = transfer(value, value, {1});
      Status status = c.allReduce(group, Reduction::Sum, DType::F32, {&buffer, 1});
      result[c.rank()] = value[0];
      return status;
    }));
    EXPECT_EQ(result, expected);
  }
}

TEST_P(CommunicatorTest, GroupOrderFollowsTheAxes) {
  // Over (tp, dp) rank 1 = (dp 0, tp 1) has position 2.
  std::vector<std::vector<float>> gathered(4, std::vector<float>(4));
  expectOk(onRanks(4, [&](Communicator &c) {
    RankGroup group = c.group(kMesh.group(c.rank(), {1, 0}));
    std::vector<float> value = {static_cast<float>(c.rank())};
    Transfer buffer = transfer(value, gathered[c.rank()], {1});
    return c.allGather(group, DType::F32, {&buffer, 1}, 0);
  }));
  for (auto &values : gathered)
    EXPECT_EQ(values, (std::vector<float>{0, 2, 1, 3}));
}

TEST_P(CommunicatorTest, AllGatherJoinsAlongTheDimension) {
  for (int dim : {0, 1, 2})
    for (bool inPlace : {false, true}) {
      Dims shape = {2, 3, 4}, whole = shape;
      whole[dim] *= 3;
      std::vector<std::vector<float>> targets(3, std::vector<float>(72));
      expectOk(onRanks(3, [&](Communicator &c) {
        std::vector<float> &target = targets[c.rank()], source = tensorOf(c.rank(), 24);
        std::copy(source.begin(), source.end(), target.begin());
        Transfer buffer = transfer(inPlace ? target : source, target, shape);
        return c.allGather(everyone(c), DType::F32, {&buffer, 1}, dim);
      }));
      for (auto &target : targets)
        for (int64_t i = 0; i < 72; ++i) {
          Dims at = {i / (whole[1] * whole[2]), i / whole[2] % whole[1], i % whole[2]};
          int owner = static_cast<int>(at[dim] / shape[dim]);
          at[dim] %= shape[dim];
          ASSERT_EQ(target[i], element(owner, (at[0] * 3 + at[1]) * 4 + at[2])) << dim << inPlace;
        }
    }
}

TEST_P(CommunicatorTest, ReduceScatterKeepsOwnPart) {
  for (int dim : {0, 1})
    for (bool inPlace : {false, true}) {
      Dims shape = {4, 6}, part = shape;
      part[dim] /= 2;
      std::vector<std::vector<float>> sources = {tensorOf(0, 24), tensorOf(1, 24)};
      std::vector<std::vector<float>> targets(2, std::vector<float>(12));
      expectOk(onRanks(2, [&](Communicator &c) {
        auto &source = sources[c.rank()];
        auto &target = inPlace ? source : targets[c.rank()];
        Transfer buffer = transfer(source, target, shape);
        return c.reduceScatter(everyone(c), Reduction::Sum, DType::F32, {&buffer, 1}, dim);
      }));
      for (int rank = 0; rank < 2; ++rank)
        for (int64_t i = 0; i < 12; ++i) {
          Dims at = {i / part[1], i % part[1]};
          at[dim] += rank * part[dim];
          float expected = 2 * element(0, at[0] * 6 + at[1]) + 1000;
          ASSERT_EQ((inPlace ? sources : targets)[rank][i], expected) << dim << inPlace;
        }
    }
}

TEST_P(CommunicatorTest, AllToAllExchangesParts) {
  // Split dimension 0 of 4x2, join along 1: 2x4; and back again.
  std::vector<std::vector<float>> middle(2, std::vector<float>(8)), back = middle;
  expectOk(onRanks(2, [&](Communicator &c) {
    std::vector<float> source = tensorOf(c.rank(), 8);
    Status status = c.allToAll(everyone(c), DType::F32,
                               transfer(source, middle[c.rank()], {4, 2}), 0, 1);
    if (!status.isOk())
      return status;
    return c.allToAll(everyone(c), DType::F32,
                      transfer(middle[c.rank()], back[c.rank()], {2, 4}), 1, 0);
  }));
  EXPECT_EQ(middle[0], (std::vector<float>{0, 1, 1000, 1001, 2, 3, 1002, 1003}));
  EXPECT_EQ(middle[1], (std::vector<float>{4, 5, 1004, 1005, 6, 7, 1006, 1007}));
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_EQ(back[rank], tensorOf(rank, 8));
}

TEST_P(CommunicatorTest, PermuteTakesFromItsSource) {
  constexpr int64_t kSize = 20000; // more than one piece
  std::vector<int64_t> sources = {2, 0, 1};
  for (bool inPlace : {false, true}) {
    std::vector<std::vector<float>> data, targets(3, std::vector<float>(kSize));
    for (int rank = 0; rank < 3; ++rank)
      data.push_back(tensorOf(rank, kSize));
    expectOk(onRanks(3, [&](Communicator &c) {
      auto &target = inPlace ? data[c.rank()] : targets[c.rank()];
      return c.permute(everyone(c), DType::F32, transfer(data[c.rank()], target, {kSize}),
                       sources);
    }));
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_EQ((inPlace ? data : targets)[rank],
                tensorOf(static_cast<int>(sources[rank]), kSize));
  }
}

TEST_P(CommunicatorTest, BroadcastFromTheRoot) {
  std::vector<std::vector<float>> data = {{1}, {2}, {3}};
  expectOk(onRanks(3, [&](Communicator &c) {
    return c.broadcast(everyone(c), reinterpret_cast<char *>(data[c.rank()].data()), 4, 1);
  }));
  for (auto &values : data)
    EXPECT_EQ(values[0], 2);
}

TEST_P(CommunicatorTest, BarrierWaitsForAll) {
  std::atomic<int> arrived{0};
  std::atomic<bool> early{false};
  expectOk(onRanks(4, [&](Communicator &c) {
    for (int round = 1; round <= 200; ++round) {
      ++arrived;
      if (Status status = c.barrier(everyone(c)); !status.isOk())
        return status;
      early = early || arrived < 4 * round;
      if (Status status = c.barrier(everyone(c)); !status.isOk())
        return status;
    }
    return Status::ok();
  }));
  EXPECT_FALSE(early);
}

TEST_P(CommunicatorTest, SameBitsEveryTime) {
  std::vector<float> first;
  for (int run = 0; run < 5; ++run) {
    std::vector<std::vector<float>> data;
    for (unsigned rank = 0; rank < 4; ++rank)
      data.push_back(randomFloats(50000, rank));
    expectOk(onRanks(4, [&](Communicator &c) {
      std::this_thread::sleep_for(std::chrono::microseconds((c.rank() * 7 + run * 13) % 5 * 100));
      Transfer buffer = transfer(data[c.rank()], data[c.rank()], {50000});
      return c.allReduce(everyone(c), Reduction::Sum, DType::F32, {&buffer, 1});
    }));
    for (auto &values : data)
      EXPECT_EQ(std::memcmp(values.data(), data[0].data(), 4 * values.size()), 0);
    if (run == 0)
      first = data[0];
    EXPECT_EQ(std::memcmp(first.data(), data[0].data(), 4 * first.size()), 0);
  }
}

TEST_P(CommunicatorTest, FailureOfOneRankEndsAll) {
  auto start = std::chrono::steady_clock::now();
  auto statuses = onRanks(4, [&](Communicator &c) {
    if (c.rank() == 2) {
      std::this_thread::sleep_for(50ms);
      return refused("the data is wrong");
    }
    return c.barrier(everyone(c));
  }, 1h);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 1min); // not the limit of an hour
  EXPECT_EQ(statuses[2].category(), ErrorCategory::InputRefused);
  for (int rank : {0, 1, 3}) {
    EXPECT_EQ(statuses[rank].category(), ErrorCategory::RankLost);
    EXPECT_NE(statuses[rank].message().find("the data is wrong"), std::string::npos);
  }
}

TEST_P(CommunicatorTest, TimeoutNamesRankAndWait) {
  std::atomic<int> ended{0};
  std::latch bothCall(2); // else the first one waits for the other, too
  auto statuses = onRanks(
      3,
      [&](Communicator &c) {
        if (c.rank() == 1) { // hangs until both others have given up
          while (ended < 2)
            std::this_thread::sleep_for(5ms);
          return Status::ok();
        }
        std::vector<float> value = {1};
        Transfer buffer = transfer(value, value, {1});
        c.setPurpose("gradients");
        const RankGroup group = everyone(c);
        bothCall.arrive_and_wait();
        Status status = c.allReduce(group, Reduction::Sum, DType::F32, {&buffer, 1});
        ++ended;
        return status;
      },
      GetParam() ? 2s : 200ms); // processes also meet within it
  for (int rank : {0, 2}) {
    EXPECT_EQ(statuses[rank].category(), ErrorCategory::RankLost);
    EXPECT_NE(statuses[rank].message().find("in all_reduce at gradients for rank: 1"),
              std::string::npos) << statuses[rank].message();
  }
}

TEST_P(CommunicatorTest, DifferentCallsAreNoticed) {
  auto statuses = onRanks(2, [&](Communicator &c) {
    std::vector<float> value = {1, 2};
    Transfer buffer = transfer(value, value, {c.rank() + 1});
    return c.allReduce(everyone(c), Reduction::Sum, DType::F32, {&buffer, 1});
  });
  EXPECT_FALSE(statuses[0].isOk());
  EXPECT_FALSE(statuses[1].isOk());
}
