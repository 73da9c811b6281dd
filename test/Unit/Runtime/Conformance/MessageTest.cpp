// Sends and receives.
#include "Conformance.h"

#include <algorithm>
#include <latch>
#include <thread>

using dtc::ErrorCategory;
using namespace dtc::rt;
using namespace dtc::rt::conformance;
using namespace std::chrono_literals;

namespace {

const std::vector<QueueKind> kQueues = {QueueKind::Compute, QueueKind::Send, QueueKind::Receive};
enum : size_t { Compute, Send, Receive };

/// Of one float.
MessageSpec sendTo(int peer, uint32_t channel = 0) { return {false, peer, channel, {4}}; }
MessageSpec receiveFrom(int peer, uint32_t channel = 0) { return {true, peer, channel, {4}}; }

} // namespace

TEST_P(Conformance, AMessageArrives) {
  onRanks(2, [](Rank &rank) {
    DTC_TRY(rank.begin(kQueues));
    if (rank.number() == 0) {
      DTC_TRY(rank.put(0, {1, 2, 3}));
      DTC_TRY(rank.issue(Send, MessageSpec{false, 1, 0, {4, 0, 8}}, {8, 0, 0}));
      return rank.synchronizeAll();
    }
    DTC_TRY(rank.issue(Receive, MessageSpec{true, 0, 0, {4, 0, 8}}, {64, 128, 256}));
    DTC_TRY(rank.synchronizeAll());
    EXPECT_EQ(rank.get(64, 2), (std::vector<float>{3, 0}));
    EXPECT_EQ(rank.get(256, 3), (std::vector<float>{1, 2, 0}));
    return Status::ok();
  });
}

TEST_P(Conformance, IssuingNeverWaitsForAnotherRank) {
  // Both receive first, and compute with what they receive before they issue the send.
  onRanks(2, [](Rank &rank) {
    DTC_TRY(rank.begin(kQueues));
    int other = 1 - rank.number();
    DTC_TRY(rank.prepare(Receive, receiveFrom(other)));
    DTC_TRY(rank.prepare(Send, sendTo(other)));
    DTC_TRY(rank.device.finishPreparing());
    DTC_TRY(rank.put(0, {10.0f + rank.number()}));
    DTC_TRY(rank.receive(Receive, other, 64, 4));
    rank.order(Receive, Compute);
    DTC_TRY(rank.add(Compute, 64, 0, 128, 1));
    DTC_TRY(rank.send(Send, other, 0, 4));
    DTC_TRY(rank.synchronizeAll());
    EXPECT_EQ(rank.get(128, 1)[0], 21);
    return Status::ok();
  });
}

TEST_P(Conformance, MessagesOfAPairKeepTheirOrder) {
  constexpr int kMessages = 100;
  onRanks(3, [](Rank &rank) { // round the ring, and each to its right
    DTC_TRY(rank.begin(kQueues));
    int left = (rank.number() + 2) % 3, right = (rank.number() + 1) % 3;
    DTC_TRY(rank.prepare(Send, sendTo(right)));
    DTC_TRY(rank.prepare(Receive, receiveFrom(left)));
    DTC_TRY(rank.device.finishPreparing());
    for (int i = 0; i < kMessages; ++i) {
      DTC_TRY(rank.put(4 * i, {1000.0f * rank.number() + i}));
      DTC_TRY(rank.send(Send, right, 4 * i, 4));
      DTC_TRY(rank.receive(Receive, left, 4096 + 4 * i, 4));
    }
    DTC_TRY(rank.synchronizeAll());
    std::vector<float> received = rank.get(4096, kMessages);
    for (int i = 0; i < kMessages; ++i)
      EXPECT_EQ(received[i], 1000.0f * left + i);
    return Status::ok();
  });
}

TEST_P(Conformance, ChannelsMayOvertakeEachOther) {
  onRanks(2, [](Rank &rank) { // sent on channel 0 then 1, by a queue each; received the other way
    DTC_TRY(rank.begin({QueueKind::Compute, QueueKind::Send, QueueKind::Send, QueueKind::Receive}));
    bool sends = rank.number() == 0;
    for (uint32_t channel : {0, 1})
      DTC_TRY(rank.prepare(sends ? 1 + channel : 3,
                           sends ? sendTo(1, channel) : receiveFrom(0, channel)));
    DTC_TRY(rank.device.finishPreparing());
    if (sends) {
      DTC_TRY(rank.put(0, {1, 2}));
      for (uint32_t channel : {0, 1})
        DTC_TRY(rank.issue(1 + channel, sendTo(1, channel), {4 * channel}));
      return rank.synchronizeAll();
    }
    for (uint32_t channel : {1, 0})
      DTC_TRY(rank.issue(3, receiveFrom(0, channel), {64 + 4 * channel}));
    DTC_TRY(rank.synchronizeAll());
    EXPECT_EQ(rank.get(64, 2), (std::vector<float>{1, 2}));
    return Status::ok();
  });
}

TEST_P(Conformance, ASendIsDoneWhenItsBufferMayBeReused) {
  onRanks(2, [](Rank &rank) {
    DTC_TRY(rank.begin(kQueues, 8 << 20));
    constexpr uint64_t kCount = 500000;
    if (rank.number() == 0) {
      DTC_TRY(rank.put(0, std::vector<float>(kCount, 1)));
      for (int i = 0; i < 4; ++i) { // doubled as soon as it has been sent
        DTC_TRY(rank.send(Send, 1, 0, 4 * kCount));
        rank.order(Send, Compute);
        DTC_TRY(rank.add(Compute, 0, 0, 0, kCount));
        rank.order(Compute, Send);
      }
      return rank.synchronizeAll();
    }
    for (int i = 0; i < 4; ++i) {
      DTC_TRY(rank.receive(Receive, 0, 0, 4 * kCount));
      DTC_TRY(rank.synchronizeAll());
      for (float value : rank.get(0, kCount))
        EXPECT_EQ(value, float(1 << i));
    }
    return Status::ok();
  });
}

TEST_P(Conformance, SizesThatDifferAreAnErrorOnBothRanks) {
  DTC_NEEDS_RANKS(2);
  for (auto sizes : {std::vector<uint64_t>{8}, std::vector<uint64_t>{4, 4}}) {
    auto statuses = statusesOf(2, [&](Rank &rank) {
      DTC_TRY(rank.begin(kQueues));
      if (rank.number() == 0) {
        DTC_TRY(rank.send(Send, 1, 0, 4));
      } else {
        std::vector<uint64_t> offsets(sizes.size());
        DTC_TRY(rank.issue(Receive, MessageSpec{true, 0, 0, sizes}, offsets, "layer.3"));
      }
      return rank.synchronizeAll();
    });
    for (const Status &status : statuses) {
      EXPECT_FALSE(status.isOk());
      for (const char *part : {"rank 0 sends 4 bytes", "rank 1", "layer.3"})
        EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
    }
  }
}

TEST_P(Conformance, AMessageThatNeverComesEndsInTime) {
  DTC_NEEDS_RANKS(2);
  for (bool receives : {true, false}) {
    auto start = std::chrono::steady_clock::now();
    auto statuses = statusesOf(2, [&](Rank &rank) {
      DTC_TRY(rank.begin(kQueues));
      if (rank.number() == 1) { // alive, but says nothing
        while (rank.device.status().isOk())
          std::this_thread::sleep_for(5ms);
        return rank.device.status();
      }
      size_t queue = receives ? Receive : Send;
      DTC_TRY(rank.issue(queue, MessageSpec{receives, 1, 0, {4}}, {0}, "act.7"));
      rank.order(queue, Compute);
      DTC_TRY(rank.add(Compute, 0, 0, 64, 1));
      return rank.queue(Compute).synchronize(); // not the queue that waits
    }, 200ms);
    EXPECT_LT(std::chrono::steady_clock::now() - start, 1min);
    EXPECT_EQ(statuses[0].category(), ErrorCategory::RankLost);
    std::string expected =
        receives ? "in receive at act.7 for rank: 1" : "in send at act.7 for rank: 1";
    EXPECT_NE(statuses[0].message().find(expected), std::string::npos) << statuses[0].message();
    EXPECT_EQ(statuses[1].category(), ErrorCategory::RankLost);
  }
}

TEST_P(Conformance, FailureOfOneRankEndsWhatOthersWaitFor) {
  DTC_NEEDS_RANKS(3);
  auto start = std::chrono::steady_clock::now();
  auto statuses = statusesOf(3, [&](Rank &rank) {
    DTC_TRY(rank.begin({QueueKind::Compute, QueueKind::Send, QueueKind::Receive,
                        QueueKind::Collective}));
    if (rank.number() == 2) {
      std::this_thread::sleep_for(50ms);
      return refused("the data is wrong");
    }
    if (rank.number() == 1) {
      CollectiveSpec barrier;
      barrier.ranks = {0, 1, 2};
      barrier.shapes = {{1}};
      DTC_TRY(rank.issue(3, barrier, {0, 0}));
      return rank.synchronizeAll();
    }
    DTC_TRY(rank.receive(Receive, 2, 0, 4));
    rank.order(Receive, Compute);
    DTC_TRY(rank.copy(Compute, 0, 64, 4));
    return rank.synchronizeAll();
  }, 1h);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 1min); // not the limit of an hour
  EXPECT_EQ(statuses[2].category(), ErrorCategory::InputRefused);
  for (int rank : {0, 1}) {
    EXPECT_EQ(statuses[rank].category(), ErrorCategory::RankLost);
    EXPECT_NE(statuses[rank].message().find("the data is wrong"), std::string::npos);
  }
}

TEST_P(Conformance, WhatIsLeftOfAnAbortedRunIsNotDone) {
  DTC_NEEDS_RANKS(2);
  if (!GetParam().dropsIssuedWork)
    GTEST_SKIP() << "kernels that were launched can't be called back";
  // Rank 1 fails; rank 0 has far more to compute than it takes to notice that.
  constexpr int kOperations = 20000;
  std::latch begun(2);
  std::chrono::steady_clock::duration one{};
  std::chrono::steady_clock::time_point begin;
  auto statuses = statusesOf(2, [&](Rank &rank) {
    DTC_TRY(rank.begin(kQueues, 64 << 20));
    constexpr uint64_t kCount = 4 << 20;
    auto add = [&] { return rank.add(Compute, 0, 4 * kCount, 8 * kCount, kCount); };
    DTC_TRY(add()); // whose memory is used for the first time
    DTC_TRY(rank.synchronizeAll());
    const auto start = std::chrono::steady_clock::now();
    DTC_TRY(add());
    DTC_TRY(rank.synchronizeAll());
    if (rank.number() == 0) {
      begin = std::chrono::steady_clock::now();
      one = begin - start;
    }
    begun.arrive_and_wait();
    if (rank.number() == 1) {
      // By then much waits in the queue. A fast machine does more of it in 300 ms than it may.
      std::this_thread::sleep_for(std::min<decltype(one)>(300ms, one * kOperations / 200));
      return refused("the data is wrong");
    }
    for (int i = 0; i < kOperations && rank.device.status().isOk(); ++i)
      DTC_TRY(add());
    return rank.synchronizeAll();
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, one * kOperations / 40);
  EXPECT_EQ(statuses[0].category(), ErrorCategory::RankLost);
}
