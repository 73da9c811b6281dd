// What ranks say of their calls, and what is found out from it.
#include "GroupLedger.h"

#include <gtest/gtest.h>

using namespace dtc::rt;
using namespace dtc::rt::cuda;

namespace {

std::shared_ptr<const ExchangeCall> callOf(std::string kind, std::string name,
                                           std::string signature, bool isMessage = false) {
  return std::make_shared<ExchangeCall>(ExchangeCall{kind, name, signature, isMessage});
}

Nccl nccl() {
  Nccl table;
  table.ncclGetUniqueId = [](ncclUniqueId *id) {
    static char next = 0;
    id->internal[0] = ++next;
    return ncclSuccess;
  };
  return table;
}

} // namespace

TEST(GroupLedger, AllRanksGetOneId) {
  GroupLedger ledger({4, 2});
  auto first = ledger.join(0, nccl()), second = ledger.join(1, nccl());
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->internal[0], second->internal[0]);
}

TEST(GroupLedger, WhoHasNotJoinedIsMissing) {
  GroupLedger ledger({4, 2, 7});
  ASSERT_TRUE(ledger.join(1, nccl()));
  auto missing = ledger.missing(1);
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->ranks, (std::vector{4, 7}));
  EXPECT_FALSE(missing->call);
}

TEST(GroupLedger, WhoHasCalledLessIsMissingAtTheFirstCallThatItLacks) {
  GroupLedger ledger({4, 2, 7});
  for (int position : {0, 1, 2})
    ASSERT_TRUE(ledger.join(position, nccl()));
  for (const char *name : {"a", "b", "c"})
    for (int position : {0, 1})
      if (position == 0 || name[0] != 'c')
        ASSERT_TRUE(ledger.enter(position, callOf("all_reduce", name, "sum")).isOk());
  ASSERT_TRUE(ledger.enter(2, callOf("all_reduce", "a", "sum")).isOk());
  auto missing = ledger.missing(0);
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->ranks, std::vector{7});
  EXPECT_EQ(missing->call->name, "b");
  EXPECT_FALSE(ledger.missing(2)); // others wait for it
  EXPECT_EQ(ledger.activityOfOthers(0), 2u + 3u);
}

TEST(GroupLedger, CallsThatDifferNameBothRanks) {
  GroupLedger ledger({4, 2});
  ASSERT_TRUE(ledger.enter(0, callOf("all_reduce", "x", "all_reduce of F32 3")).isOk());
  Status status = ledger.enter(1, callOf("all_gather", "y", "all_gather of F32 3"));
  EXPECT_EQ(status.message(),
            "rank 4 calls all_reduce of F32 3 at x, but rank 2 calls all_gather of F32 3 at y");
}

TEST(GroupLedger, MessagesThatDifferNameSenderAndReceiver) {
  for (bool receiverFirst : {false, true}) {
    GroupLedger ledger({4, 2});
    auto sent = callOf("send", "x", "4 bytes", true),
         received = callOf("receive", "y", "8 bytes", true);
    ASSERT_TRUE(ledger.enter(receiverFirst, receiverFirst ? received : sent).isOk());
    Status status = ledger.enter(!receiverFirst, receiverFirst ? sent : received);
    EXPECT_EQ(status.message(),
              "rank 4 sends 4 bytes at x, but what is received at y by rank 2 has 8 bytes");
  }
}
