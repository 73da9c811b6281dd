// How ranks find out which of them is to blame where others wait.
#include "Processes/Handshake.h"
#include "RanksOfAWorld.h"

#include <atomic>
#include <future>
#include <signal.h>
#include <sys/wait.h>

using dtc::ErrorCategory;
using namespace dtc::rt;
using namespace dtc::rt::test;
using namespace std::chrono_literals;

namespace {

class ProcessesTest : public CommunicatorTest {};
INSTANTIATE_TEST_SUITE_P(Ranks, ProcessesTest, testing::Values(true));

/// Longer than a minute, after which ranks of a busy machine are given up.
constexpr auto kLimit = 180s;

/// A rank that shows rank 0 who it is, and says nothing more until its end.
void fallSilent(const Launch &launch, std::future<void> end) {
  Claim claim;
  claim.rank = static_cast<uint32_t>(launch.rank);
  claim.worldSize = static_cast<uint32_t>(launch.worldSize);
  claim.isControl = 1;
  asio::io_context io;
  for (bool isTaken = false; !isTaken && end.wait_for(10ms) == std::future_status::timeout;) {
    asio::ip::tcp::socket socket(io);
    std::error_code error;
    socket.connect({asio::ip::address_v4::loopback(), launch.port}, error);
    if (error) // nobody listens yet
      continue;
    auto call = [&]() -> asio::awaitable<void> {
      try {
        isTaken = co_await callPeer(socket, launch.token, claim, [] {});
      } catch (const std::system_error &) {
        co_return; // on a busy machine it is given up, and calls again
      }
    };
    asio::co_spawn(io, call, asio::detached);
    io.restart();
    io.run();
    if (isTaken)
      end.wait();
  }
}

/// A rank whose GPU doesn't end what all have called doesn't know for whom it waits.
TEST_P(ProcessesTest, AProcessThatDoesNotAnswerIsNamedWhereNobodyIsMissing) {
  const Launch launches[] = {launchOf(0, 2), launchOf(1, 2)};
  const pid_t other = ::fork();
  if (other == 0) {
    auto world = ProcessWorld::connect(launches[1], 20s);
    ::pause();
    ::_exit(0);
  }
  auto world = ProcessWorld::connect(launches[0], 20s);
  ::kill(other, SIGSTOP);
  std::this_thread::sleep_for(2s); // its silence shows after some beats, which may come late
  const Status reason(ErrorCategory::RankLost, "rank 0 waited 2 s for its GPU");
  const Status status =
      world ? (*world)->communicator(0)->waitedTooLong(reason, std::nullopt) : world.status();
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  EXPECT_NE(status.message().find("rank 0 waited 2 s for its GPU, or for rank: 1, whose process "
                                  "does not answer"),
            std::string::npos)
      << status.message();
}

/// Rank 2 never comes.
TEST_P(ProcessesTest, AProcessThatIsStoppedIsNoticedBeforeAllHaveMet) {
  std::promise<void> end;
  std::thread stopped([&] { fallSilent(launchOf(1, 3), end.get_future()); });
  auto world = ProcessWorld::connect(launchOf(0, 3), kLimit);
  end.set_value();
  stopped.join();
  ASSERT_FALSE(world);
  EXPECT_NE(world.status().message().find("rank 1 was lost: its process has not answered for 6 s"),
            std::string::npos)
      << world.status().message();
}

/// Rank 0 waits for rank 1, and rank 1 for rank 2, which calls `last` first.
class StepsTest : public CommunicatorTest {
protected:
  std::vector<Status> chainAfter(std::chrono::seconds patience,
                                 const std::function<Status(Communicator &)> &last) {
    auto body = [&](Communicator &c) {
      c.setPulse({/*step=*/7, patience});
      char byte = 0;
      ReceiveBlock into{&byte, 1};
      SendBlock from{&byte, 1};
      Status status = c.rank() < 2 ? c.receive(c.rank() + 1, /*channel=*/0, {&into, 1}) : last(c);
      if (status.isOk() && c.rank() > 0)
        status = c.send(c.rank() - 1, /*channel=*/0, {&from, 1});
      ended += !status.isOk();
      return status;
    };
    return onRanks(3, body, kLimit);
  }
  std::atomic<int> ended{0};
};

INSTANTIATE_TEST_SUITE_P(Ranks, StepsTest, testing::Values(false, true));

TEST_P(StepsTest, TheRankThatOthersWaitForIsNamed) {
  std::atomic<int> ended{0};
  auto statuses = onRanks(
      3,
      [&](Communicator &c) {
        Status status = Status::ok();
        char byte = 0;
        ReceiveBlock block{&byte, 1};
        if (c.rank() < 2) // rank 0 waits for rank 1, and rank 1 for rank 2
          status = c.receive(c.rank() + 1, /*channel=*/0, {&block, 1});
        for (++ended; c.rank() == 2 && ended < 3;)
          std::this_thread::sleep_for(5ms);
        return status;
      },
      GetParam() ? 5s : 1500ms); // processes also meet within it
  for (int rank : {0, 1}) {
    EXPECT_EQ(statuses[rank].category(), ErrorCategory::RankLost);
    EXPECT_NE(statuses[rank].message().find("for rank: 2"), std::string::npos)
        << statuses[rank].message();
  }
}

/// In a second, or in a minute on a busy machine (StallFinder.h).
TEST_P(StepsTest, OneThatHangsIsFoundBeforeTheTimeLimit) {
  auto begin = std::chrono::steady_clock::now();
  auto statuses = chainAfter(1s, [&](Communicator &) {
    while (ended < 2)
      std::this_thread::sleep_for(5ms);
    return Status(ErrorCategory::Failed, "has hung");
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLimit);
  for (int rank : {0, 1}) {
    const std::string message = statuses[rank].message();
    EXPECT_EQ(statuses[rank].category(), ErrorCategory::RankLost);
    EXPECT_TRUE(message.find("waited 1 s in receive") != std::string::npos ||
                message.find("waited 60 s in receive") != std::string::npos)
        << message;
    EXPECT_NE(statuses[rank].message().find("for rank: 2"), std::string::npos);
  }
}

TEST_P(StepsTest, OneThatDoesSomethingElseMayTakeItsTime) {
  expectOk(chainAfter(1s, [](Communicator &c) {
    c.setPulse({/*step=*/0, /*patience=*/1s}); // it saves, for example
    std::this_thread::sleep_for(3500ms);
    return Status::ok();
  }));
}

TEST_P(StepsTest, OneThatComesToAnotherStepIsGivenMoreTime) {
  expectOk(chainAfter(2s, [](Communicator &c) {
    for (int64_t step : {8, 9, 10, 11}) {
      std::this_thread::sleep_for(900ms);
      c.setPulse({step, /*patience=*/2s});
    }
    return Status::ok();
  }));
}

TEST_P(StepsTest, AnotherStepBringsTheWholeLimitBack) {
  std::atomic<bool> isOver{false};
  auto body = [&](Communicator &c) {
    c.setPulse({/*step=*/7, /*patience=*/1s});
    while (c.rank() == 1 && !isOver)
      std::this_thread::sleep_for(5ms);
    if (c.rank() == 1)
      return Status::ok();
    for (int i = 0; i < 1000 && c.timeLimit() == kLimit; ++i)
      std::this_thread::sleep_for(100ms);
    const bool isFound = c.timeLimit() < kLimit;
    c.setPulse({/*step=*/8, /*patience=*/60s});
    const bool isBack = c.timeLimit() == kLimit;
    isOver = true;
    return isFound && isBack ? Status::ok() : Status(ErrorCategory::Failed, "not so");
  };
  expectOk(onRanks(2, body, kLimit));
}

TEST_P(StepsTest, RanksThatSayNothingHaveTheWholeLimit) {
  expectOk(onRanks(2, [](Communicator &c) {
    std::this_thread::sleep_for(2500ms);
    return c.timeLimit() == 20s ? Status::ok() : Status(ErrorCategory::Failed, "has become short");
  }));
}

/// What comes over a slow network takes hardly any time of a processor. Then nothing comes.
TEST_P(ProcessesTest, OneThatHangsIsFoundOnceNoDataComes) {
  const Launch launches[] = {launchOf(0, 2), launchOf(1, 2)};
  constexpr int kPieces = 15;
  const StepPulse pulse{/*step=*/7, /*patience=*/1000s, /*computesHere=*/true};
  char byte = 0;
  const pid_t other = ::fork();
  if (other == 0) {
    auto world = ProcessWorld::connect(launches[1], kLimit);
    auto communicator = (*world)->communicator(1);
    communicator->setPulse(pulse);
    SendBlock block{&byte, 1};
    for (int piece = 0; piece < kPieces; ++piece) {
      std::this_thread::sleep_for(500ms);
      (void)communicator->send(0, /*channel=*/0, {&block, 1});
    }
    ::pause();
  }
  auto world = ProcessWorld::connect(launches[0], kLimit);
  ASSERT_TRUE(world);
  auto communicator = (*world)->communicator(0);
  communicator->setPulse(pulse);
  ReceiveBlock block{&byte, 1};
  for (int piece = 0; piece < kPieces; ++piece)
    EXPECT_TRUE(communicator->receive(1, /*channel=*/0, {&block, 1}).isOk());
  EXPECT_EQ(communicator->timeLimit(), kLimit);
  const Status status = communicator->receive(1, /*channel=*/0, {&block, 1});
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  EXPECT_NE(status.message().find("rank 0 waited 5 s in receive for rank: 1"), std::string::npos)
      << status.message();
}

/// Comes to a step in which all hang, until that is found.
void hang(Communicator &communicator) {
  communicator.setPulse({/*step=*/7, /*patience=*/1s});
  while (communicator.timeLimit() == kLimit)
    std::this_thread::sleep_for(5ms);
}

/// All ranks have called the same, of which a device ends nothing.
class DevicesTest : public CommunicatorTest {
protected:
  /// `hangs` says which devices don't end though their ranks wait for no others any more.
  std::vector<Status> whereDevicesHang(const std::function<bool(int)> &hangs) {
    auto body = [&](Communicator &c) {
      hang(c);
      return c.deviceTookTooLong({ErrorCategory::RankLost, "a rank waited for its device"},
                                 [&] { return !hangs(c.rank()); });
    };
    return onRanks(3, body, kLimit);
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, DevicesTest, testing::Values(false, true));

TEST_P(DevicesTest, TheOneThatHangsIsNamed) {
  for (const Status &status : whereDevicesHang([](int rank) { return rank == 1; }))
    EXPECT_NE(
        status.message().find("a rank waited for its device, because of the device of rank: 1"),
        std::string::npos)
        << status.message();
}

/// Rank 0 has nothing left for its device. The rank that it waits for isn't the one that hangs.
TEST_P(DevicesTest, OneThatHangsIsNamedAlsoWhereAnotherRankIsMissed) {
  auto body = [&](Communicator &c) {
    char byte = 0;
    ReceiveBlock into{&byte, 1};
    if (c.rank() == 0) {
      c.setPulse({/*step=*/7, /*patience=*/1s});
      return c.receive(/*from=*/1, /*channel=*/0, {&into, 1});
    }
    hang(c);
    return c.deviceTookTooLong({ErrorCategory::RankLost, "a rank waited for its device"},
                               [&] { return c.rank() == 1; });
  };
  for (const Status &status : onRanks(3, body, kLimit))
    EXPECT_NE(status.message().find("because of the device of rank: 2"), std::string::npos)
        << status.message();
}

TEST_P(DevicesTest, NoneIsNamedWhereAllHaveEnded) {
  for (const Status &status : whereDevicesHang([](int) { return false; })) {
    EXPECT_EQ(status.category(), ErrorCategory::RankLost);
    EXPECT_EQ(status.message().find("because"), std::string::npos) << status.message();
  }
}

class DevicesOfThreadsTest : public CommunicatorTest {};
INSTANTIATE_TEST_SUITE_P(Ranks, DevicesOfThreadsTest, testing::Values(false));

TEST_P(DevicesOfThreadsTest, TheRunEndsAlsoWhereNoRankCanGiveUpWhatItsDeviceWaitsFor) {
  auto body = [](Communicator &c) {
    hang(c);
    return c.deviceTookTooLong({ErrorCategory::RankLost, "a rank waited for its device"}, [&] {
      while (c.check().isOk())
        std::this_thread::sleep_for(5ms);
      return false;
    });
  };
  for (const Status &status : onRanks(3, body, kLimit))
    EXPECT_EQ(status.category(), ErrorCategory::RankLost);
}

} // namespace
