// Ranks that call a communicator, each on its thread.
#pragma once

#include "dtc-rt/Processes/ProcessCommunicator.h"
#include "dtc-rt/Threads/ThreadCommunicator.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <unistd.h>

namespace dtc::rt::test {

/// Ranks as threads that share a world, or each with a world of its own as processes have it.
class CommunicatorTest : public testing::TestWithParam<bool> {
protected:
  /// Runs `body` on every rank, each on its thread; statuses by rank.
  std::vector<Status> onRanks(int ranks, std::function<Status(Communicator &)> body,
                              std::chrono::milliseconds limit = std::chrono::seconds(20)) {
    std::unique_ptr<ThreadWorld> shared;
    if (!GetParam())
      shared = std::make_unique<ThreadWorld>(ranks, limit);
    std::vector<Status> statuses(ranks, Status::ok());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        statuses[rank] = shared ? onRank(*shared, rank, body) : onProcess(rank, ranks, body, limit);
      });
    for (std::thread &thread : threads)
      thread.join();
    return statuses;
  }

  static Launch launchOf(int rank, int ranks) {
    Launch launch;
    launch.rank = launch.localRank = rank;
    launch.worldSize = launch.localWorldSize = ranks;
    launch.port = static_cast<uint16_t>(20000 + ::getpid() % 10000);
    launch.token = "tests of process " + std::to_string(::getpid());
    return launch;
  }

private:
  static Status onRank(World &world, int rank, const std::function<Status(Communicator &)> &body) {
    auto communicator = world.communicator(rank);
    Status status = body(*communicator);
    if (!status.isOk())
      communicator->abort(status);
    return status;
  }

  Status onProcess(int rank, int ranks, const std::function<Status(Communicator &)> &body,
                   std::chrono::milliseconds limit) {
    auto world = ProcessWorld::connect(launchOf(rank, ranks), limit);
    if (!world)
      return world.status();
    Status status = onRank(**world, rank, body);
    Status closed = (*world)->close(status);
    return status.isOk() ? closed : status;
  }
};

inline void expectOk(const std::vector<Status> &statuses) {
  for (const Status &status : statuses)
    EXPECT_TRUE(status.isOk()) << status.message();
}

} // namespace dtc::rt::test
