// Memory, kernels and small operations.
#include "Conformance.h"

#include <cstring>

using dtc::ErrorCategory;
using namespace dtc::rt;
using namespace dtc::rt::conformance;

TEST_P(Conformance, MemoryBeginsAsZerosInEverySpace) {
  onRanks(1, [](Rank &rank) {
    for (Space space : {Space::Device, Space::Host})
      for (uint64_t bytes : {uint64_t(4), uint64_t(100000)}) {
        auto memory = rank.device.allocate(space, bytes);
        if (!memory)
          return memory.status();
        EXPECT_GE((*memory)->size(), bytes);
        EXPECT_EQ(reinterpret_cast<uint64_t>((*memory)->base()) % 64, 0u);
        DTC_TRY(rank.device.read((*memory)->base(), bytes, [&](const char *host) {
          for (uint64_t i = 0; i < bytes; ++i)
            ASSERT_EQ(host[i], 0);
        }));
      }
    return Status::ok();
  });
}

TEST_P(Conformance, ImpossibleMemoryDoesNotFit) {
  onRanks(1, [](Rank &rank) {
    auto memory = rank.device.allocate(Space::Device, ~uint64_t(0) - 4096);
    EXPECT_FALSE(memory);
    if (!memory)
      EXPECT_EQ(memory.status().category(), ErrorCategory::NoFit);
    return Status::ok();
  });
}

TEST_P(Conformance, WritesAndReadsWhatWasWritten) {
  onRanks(1, [](Rank &rank) {
    DTC_TRY(rank.begin({QueueKind::Compute}));
    DTC_TRY(rank.put(128, {1, 2, 3}));
    DTC_TRY(rank.put(132, {5}));
    EXPECT_EQ(rank.get(124, 5), (std::vector<float>{0, 1, 5, 3, 0}));
    return Status::ok();
  });
}

TEST_P(Conformance, CopiesBetweenSpaces) {
  onRanks(1, [](Rank &rank) {
    DTC_TRY(rank.begin({QueueKind::Compute, QueueKind::Copy}));
    auto host = rank.device.allocate(Space::Host, 4096);
    if (!host)
      return host.status();
    auto copy = rank.device.prepare(rank.queue(1), CopySpec{12}, "offload");
    if (!copy)
      return copy.status();
    DTC_TRY(rank.put(0, {1, 2, 3}));
    Address there[] = {rank.at(0), (*host)->base() + 64};
    Address back[] = {(*host)->base() + 64, rank.at(256)};
    DTC_TRY((*copy)->issue(there));
    DTC_TRY((*copy)->issue(back));
    DTC_TRY(rank.synchronizeAll());
    EXPECT_EQ(rank.get(256, 3), (std::vector<float>{1, 2, 3}));
    return Status::ok();
  });
}

TEST_P(Conformance, LaunchDoesEveryIterationOnce) {
  for (int threads : {1, 2, 3})
    for (auto [extent, grain] : {std::pair(1000, 1), {1000, 16}, {7, 16}, {2, 1}, {1, 1}, {0, 4}})
      onRanks(1, [&, extent = uint64_t(extent), grain = uint64_t(grain)](Rank &rank) {
        DTC_TRY(rank.begin({QueueKind::Compute}));
        // "count" adds 1 to each element, and the iterations of a thread to its scratch.
        DTC_TRY(rank.issue(0, launchOf("count", 1, extent, grain, 64), {0, 8192}));
        DTC_TRY(rank.queue(0).synchronize());
        std::vector<float> done = rank.get(0, 1024);
        for (uint64_t i = 0; i < 1024; ++i)
          EXPECT_EQ(done[i], i < extent ? 1.0f : 0.0f) << i;
        return rank.device.read(rank.at(8192), 64 * 3, [&](const char *host) {
          int64_t total = 0, count = 0;
          for (int thread = 0; thread < threads; ++thread, total += count)
            std::memcpy(&count, host + 64 * thread, sizeof(count));
          EXPECT_EQ(total, int64_t(extent));
        });
      }, threads);
}

TEST_P(Conformance, MissingKernelIsNamed) {
  onRanks(1, [](Rank &rank) {
    DTC_TRY(rank.begin({QueueKind::Compute}));
    auto made = rank.device.prepare(rank.queue(0), launchOf("no_such_kernel", 0, 1, 1, 0), "op");
    EXPECT_FALSE(made);
    if (!made) {
      EXPECT_EQ(made.status().category(), ErrorCategory::InputRefused);
      EXPECT_NE(made.status().message().find("no_such_kernel"), std::string::npos);
    }
    return Status::ok();
  });
}

TEST_P(Conformance, CodeThatIsNoneIsRefused) {
  std::unique_ptr<Platform> platform = GetParam().createPlatform();
  std::vector<CodeFile> files = {{GetParam().codeName, std::string_view("not code")}};
  EXPECT_EQ(platform->load(files).category(), ErrorCategory::InputRefused);
}

TEST_P(Conformance, ZeroCopyAndConstantTouchTheirBytesAlone) {
  onRanks(1, [](Rank &rank) {
    DTC_TRY(rank.begin({QueueKind::Compute}));
    DTC_TRY(rank.put(0, {1, 2, 3, 4}));
    DTC_TRY(rank.issue(0, ZeroSpec{8}, {4}));
    DTC_TRY(rank.copy(0, 0, 64, 16));
    DTC_TRY(rank.copy(0, 64, 64, 16)); // onto itself
    DTC_TRY(rank.issue(0, ConstantSpec{-7}, {128}));
    DTC_TRY(rank.issue(0, ConstantSpec{int64_t(1) << 40}, {136}));
    DTC_TRY(rank.queue(0).synchronize());
    EXPECT_EQ(rank.get(0, 4), (std::vector<float>{1, 0, 0, 4}));
    EXPECT_EQ(rank.get(60, 6), (std::vector<float>{0, 1, 0, 0, 4, 0}));
    return rank.device.read(rank.at(128), 24, [](const char *host) {
      int64_t values[3];
      std::memcpy(values, host, sizeof(values));
      EXPECT_EQ(values[0], -7);
      EXPECT_EQ(values[1], int64_t(1) << 40);
      EXPECT_EQ(values[2], 0);
    });
  });
}
