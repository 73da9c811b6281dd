// Order within a queue, and between queues where events ask for it.
#include "Conformance.h"

#include <cstring>

using namespace dtc::rt;
using namespace dtc::rt::conformance;

namespace {

constexpr uint64_t kCount = 200000, kBytes = kCount * 4;
constexpr uint64_t kA = 0, kB = 1 << 20, kC = 2 << 20, kD = 3 << 20, kArena = 8 << 20;

void expectAll(Rank &rank, uint64_t offset, float value) {
  for (float found : rank.get(offset, kCount))
    ASSERT_EQ(found, value);
}

} // namespace

TEST_P(Conformance, AQueueKeepsItsOrder) {
  for (auto kinds : {std::vector{QueueKind::Compute},
                     std::vector{QueueKind::Compute, QueueKind::Copy}})
    onRanks(1, [&](Rank &rank) {
      DTC_TRY(rank.begin(kinds, kArena));
      DTC_TRY(rank.put(kA, std::vector<float>(kCount, 1)));
      for (int i = 0; i < 10; ++i) { // b = a; a = b + b
        DTC_TRY(rank.copy(0, kA, kB, kBytes));
        DTC_TRY(rank.add(0, kB, kB, kA, kCount));
      }
      DTC_TRY(rank.synchronizeAll());
      expectAll(rank, kA, 1024);
      return Status::ok();
    }, 2);
}

TEST_P(Conformance, EventsOrderQueues) {
  onRanks(1, [](Rank &rank) {
    DTC_TRY(rank.begin({QueueKind::Compute, QueueKind::Copy}, kArena));
    DTC_TRY(rank.put(kA, std::vector<float>(kCount, 1)));
    for (int i = 0; i < 20; ++i) { // every other operation on the other queue
      DTC_TRY(rank.add(0, kA, kA, kB, kCount));
      rank.order(0, 1);
      DTC_TRY(rank.copy(1, kB, kA, kBytes));
      rank.order(1, 0);
    }
    DTC_TRY(rank.queue(0).synchronize()); // waits for queue 1 by the last event
    expectAll(rank, kA, 1 << 20);
    return Status::ok();
  }, 2);
}

TEST_P(Conformance, AnEventCanBeSignalledAgain) {
  onRanks(1, [](Rank &rank) {
    DTC_TRY(rank.begin({QueueKind::Compute, QueueKind::Copy}, kArena));
    auto made = rank.device.createEvent(), taken = rank.device.createEvent();
    rank.queue(0).wait(*taken); // not signalled yet: no wait
    for (int i = 0; i < 50; ++i) {
      rank.queue(0).wait(*taken);
      DTC_TRY(rank.put(kD + 4 * i, {0}));
      DTC_TRY(rank.add(0, kA, kB, kA, kCount)); // a += b
      rank.queue(0).signal(*made);
      rank.queue(1).wait(*made);
      DTC_TRY(rank.copy(1, kA + 4 * (kCount - 1), kD + 4 * i, 4));
      rank.queue(1).signal(*taken);
      if (i == 0) { // b becomes 1 after the first round
        DTC_TRY(rank.synchronizeAll());
        DTC_TRY(rank.put(kB, std::vector<float>(kCount, 1)));
      }
    }
    DTC_TRY(rank.synchronizeAll());
    std::vector<float> seen = rank.get(kD, 50);
    for (int i = 0; i < 50; ++i)
      EXPECT_EQ(seen[i], float(i));
    return Status::ok();
  }, 2);
}

TEST_P(Conformance, AWaitIsForTheSignalIssuedBeforeIt) {
  // Queue 1 waits for the first signal only. The second follows what queue 0 receives from a rank
  // that waits for queue 1. Were queue 1 to wait for that, nothing would end.
  onRanks(2, [](Rank &rank) {
    DTC_TRY(rank.begin({QueueKind::Compute, QueueKind::Send, QueueKind::Receive}, kArena));
    int other = 1 - rank.number();
    DTC_TRY(rank.prepare(1, MessageSpec{false, other, 0, {4}}));
    DTC_TRY(rank.prepare(2, MessageSpec{true, other, 0, {4}}));
    DTC_TRY(rank.device.finishPreparing());
    if (rank.number() == 1) {
      DTC_TRY(rank.receive(2, 0, kA, 4));
      rank.order(2, 1);
      DTC_TRY(rank.send(1, 0, kA, 4));
      return rank.synchronizeAll();
    }
    auto event = rank.device.createEvent();
    DTC_TRY(rank.put(kA, {3}));
    DTC_TRY(rank.add(0, kA, kA, kB, 1));
    rank.queue(0).signal(*event);
    rank.queue(1).wait(*event);
    DTC_TRY(rank.receive(2, 1, kC, 4));
    rank.order(2, 0);
    rank.queue(0).signal(*event);
    DTC_TRY(rank.send(1, 1, kB, 4));
    DTC_TRY(rank.synchronizeAll());
    EXPECT_EQ(rank.get(kC, 1)[0], 6);
    return Status::ok();
  });
}

TEST_P(Conformance, SynchronizeOfAnIdleQueueReturns) {
  onRanks(1, [](Rank &rank) {
    DTC_TRY(rank.begin({QueueKind::Compute, QueueKind::Collective, QueueKind::Send}));
    DTC_TRY(rank.synchronizeAll());
    return rank.synchronizeAll();
  });
}

TEST_P(Conformance, AwaitReturnsWhenTheLastSignalHasHappened) {
  for (auto kinds :
       {std::vector{QueueKind::Compute}, std::vector{QueueKind::Compute, QueueKind::Copy}})
    onRanks(
        1,
        [&](Rank &rank) {
          DTC_TRY(rank.begin(kinds, kArena));
          auto host = rank.device.allocate(Space::Host, sizeof(float));
          if (!host)
            return host.status();
          auto out = rank.device.prepare(rank.queue(0), CopySpec{sizeof(float)}, "out");
          if (!out)
            return out.status();
          auto event = rank.device.createEvent();
          DTC_TRY(rank.device.await(*event)); // not signalled yet: no wait
          DTC_TRY(rank.put(kA, std::vector<float>(kCount, 1)));
          for (int i = 1; i <= 10; ++i) {
            DTC_TRY(rank.add(0, kA, kA, kA, kCount));
            Address addresses[] = {rank.at(kA + 4 * (kCount - 1)), (*host)->base()};
            DTC_TRY((*out)->issue(addresses));
            rank.queue(0).signal(*event);
            DTC_TRY(rank.device.await(*event));
            DTC_TRY(rank.device.read((*host)->base(), sizeof(float), [&](const char *bytes) {
              float value = 0;
              std::memcpy(&value, bytes, sizeof(value));
              EXPECT_EQ(value, float(1 << i));
            }));
          }
          rank.end(); // before the host's memory goes
          return Status::ok();
        },
        2);
}

TEST_P(Conformance, WhatIsRecordedIsDoneWheneverItIsIssued) {
  onRanks(1, [](Rank &rank) {
    DTC_TRY(rank.begin({QueueKind::Compute, QueueKind::Collective}, kArena));
    DTC_TRY(rank.put(kA, std::vector<float>(kCount, 1)));
    auto recorded =
        rank.device.record(rank.queue(0), [&] { // b = a + a on the other queue; a = b + b
          rank.order(0, 1);
          DTC_TRY(rank.add(1, kA, kA, kB, kCount));
          rank.order(1, 0);
          return rank.add(0, kB, kB, kA, kCount);
        });
    if (!recorded)
      return recorded.status();
    DTC_TRY(rank.synchronizeAll());
    expectAll(rank, kA, 1); // recorded, not done
    for (int i = 0; i < 5 && *recorded; ++i)
      DTC_TRY((*recorded)->issue({}));
    DTC_TRY(rank.synchronizeAll());
    expectAll(rank, kA, *recorded ? 1024 : 1);
    return Status::ok();
  });
}
