// What ranks that share no memory learn of each other's calls: each has a book of its own.
#include "ProcessLedger.h"

#include "dtc-rt/Threads/ThreadCommunicator.h"

#include <gtest/gtest.h>

#include <functional>

using dtc::ErrorCategory;
using namespace dtc::rt;
using namespace dtc::rt::cuda;

namespace {

std::shared_ptr<const ExchangeCall> callOf(std::string name, std::string signature) {
  return std::make_shared<ExchangeCall>(ExchangeCall{"all_reduce", name, signature, false});
}

/// Its ids begin with a number that no other one of this process has.
Nccl nccl() {
  Nccl table;
  table.ncclGetUniqueId = [](ncclUniqueId *id) {
    static std::atomic<char> next{0};
    id->internal[0] = ++next;
    id->internal[127] = -1;
    return ncclSuccess;
  };
  return table;
}

/// Runs the body as each rank.
void runRanks(ThreadWorld &world, int ranks,
              const std::function<void(Communicator &, ProcessLedgerBook &)> &body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      std::unique_ptr<Communicator> communicator = world.communicator(rank);
      ProcessLedgerBook book(*communicator);
      body(*communicator, book);
    });
  for (std::thread &thread : threads)
    thread.join();
}

template <typename Condition> bool waitUntil(Condition &&condition) {
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return condition();
}

} // namespace

/// Ranks 1 and 2 begin their groups in opposite orders; rank 2 makes none of the ids.
TEST(ProcessLedger, RanksOfAGroupGetOneId) {
  ThreadWorld world(3, std::chrono::seconds(20));
  GroupKey all{"queue", {0, 1, 2}}, some{"queue", {2, 1}};
  std::array<std::vector<char>, 3> firsts;
  runRanks(world, 3, [&](Communicator &own, ProcessLedgerBook &book) {
    int rank = own.rank();
    auto join = [&](const GroupKey &key) {
      auto place = std::ranges::find(key.ranks, rank) - key.ranks.begin();
      auto id = book.find(key)->join(static_cast<int>(place), nccl());
      ASSERT_TRUE(id) << id.status().message();
      EXPECT_EQ(id->internal[127], -1);
      firsts[rank].push_back(id->internal[0]);
    };
    if (rank == 1)
      join(some);
    join(all);
    if (rank == 2)
      join(some);
  });
  EXPECT_EQ(firsts[0][0], firsts[1][1]);
  EXPECT_EQ(firsts[0][0], firsts[2][0]);
  EXPECT_EQ(firsts[1][0], firsts[2][1]);
  EXPECT_NE(firsts[0][0], firsts[1][0]);
}

TEST(ProcessLedger, WhoHasCalledLessIsMissing) {
  ThreadWorld world(2, std::chrono::seconds(20));
  runRanks(world, 2, [&](Communicator &own, ProcessLedgerBook &book) {
    auto ledger = book.find({"queue", {0, 1}});
    ASSERT_TRUE(ledger->join(own.rank(), nccl()));
    auto call = callOf("gradients", "sum of f32");
    EXPECT_TRUE(ledger->enter(own.rank(), call).isOk());
    if (own.rank() == 0) {
      EXPECT_TRUE(ledger->enter(0, callOf("weights", "sum of f32")).isOk());
      EXPECT_TRUE(waitUntil([&] { return ledger->activityOfOthers(0) == 2; }));
      auto missing = ledger->missing(0);
      ASSERT_TRUE(missing);
      EXPECT_EQ(missing->ranks, std::vector{1});
      ASSERT_TRUE(missing->call);
      EXPECT_EQ(missing->call->name, "weights");
    } else {
      EXPECT_TRUE(waitUntil([&] { return ledger->activityOfOthers(1) == 3; }));
      EXPECT_FALSE(ledger->missing(1));
    }
  });
}

TEST(ProcessLedger, CallsThatDifferEndTheRun) {
  ThreadWorld world(2, std::chrono::seconds(20));
  runRanks(world, 2, [&](Communicator &own, ProcessLedgerBook &book) {
    auto ledger = book.find({"queue", {0, 1}});
    ASSERT_TRUE(ledger->join(own.rank(), nccl()));
    (void)ledger->enter(own.rank(), callOf("gradients", own.rank() ? "sum of f32" : "sum of bf16"));
    EXPECT_TRUE(waitUntil([&] { return !own.check().isOk(); }));
  });
  std::string said = world.abortReason().message();
  EXPECT_NE(said.find("rank 0 calls sum of bf16 at gradients"), std::string::npos) << said;
  EXPECT_NE(said.find("rank 1 calls sum of f32 at gradients"), std::string::npos) << said;
}

TEST(ProcessLedger, ARankThatMakesNoIdIsNamed) {
  ThreadWorld world(2, std::chrono::seconds(1));
  runRanks(world, 2, [&](Communicator &own, ProcessLedgerBook &book) {
    if (own.rank() == 0) {
      EXPECT_TRUE(waitUntil([&] { return !own.check().isOk(); }));
      return;
    }
    auto id = book.find({"queue", {0, 1}})->join(1, nccl());
    ASSERT_FALSE(id);
    EXPECT_EQ(id.status().category(), ErrorCategory::RankLost);
    EXPECT_NE(id.status().message().find("by rank: 0"), std::string::npos);
    own.abort(id.status());
  });
}
