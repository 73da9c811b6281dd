// The emulated NCCL with ranks as threads, and what it finds.
#include "EmulatedDevice.h"
#include "Emulator/Device/Settings.h"

#include "dtc-cuda/Nccl.h"

#include <barrier>
#include <bit>
#include <latch>
#include <thread>

#define DTC_CUDA_FUNCTION(result, name, ...) extern "C" result name(__VA_ARGS__);
namespace dtc::cuda {
#include "dtc-cuda/NcclFunctions.def"
} // namespace dtc::cuda

namespace dtc::emulator::test {

namespace {

/// What a rank's thread has.
struct Rank {
  unsigned number;
  CUstream stream;
  ncclComm_t comm;

  void *upload(const std::vector<float> &values) const {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAlloc_v2(&address, values.size() * 4), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyHtoDAsync_v2(address, values.data(), values.size() * 4, stream),
              CUDA_SUCCESS);
    return reinterpret_cast<void *>(address);
  }
  std::vector<float> download(const void *address, size_t count) const {
    std::vector<float> values(count);
    EXPECT_EQ(cuMemcpyDtoHAsync_v2(values.data(), reinterpret_cast<CUdeviceptr>(address), count * 4,
                                   stream),
              CUDA_SUCCESS);
    return values;
  }
};

/// What a call of a communicator that doesn't block ends with.
ncclResult_t settled(ncclComm_t comm, ncclResult_t state) {
  while (state == ncclInProgress) {
    std::this_thread::yield();
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  }
  return state;
}

class NcclTest : public ::testing::Test {
protected:
  static constexpr unsigned kRanks = 4;
  void SetUp() override { setCollectiveTimeout(std::chrono::seconds(60)); }

  /// Once all ranks are here they wait only a second for each other. Before, on a busy machine,
  /// they may take longer.
  std::barrier<void (*)() noexcept> beginToHurry{
      kRanks, []() noexcept { setCollectiveTimeout(std::chrono::seconds(1)); }};

  inline static int nextDevice = 255;

  /// Runs a function as each rank, on devices that no other test uses.
  template <typename Body> void run(Body &&body, bool blocks = true) {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    std::vector<std::thread> threads;
    for (unsigned rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&, rank, device = nextDevice--] {
        CUcontext context = nullptr;
        Rank made{rank, nullptr, nullptr};
        ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
        ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
        ASSERT_EQ(cuStreamCreate(&made.stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
        ncclConfig_t config;
        config.blocking = blocks;
        ncclResult_t state =
            ncclCommInitRankConfig(&made.comm, kRanks, id, static_cast<int>(rank), &config);
        ASSERT_EQ(settled(made.comm, state), ncclSuccess);
        body(made);
        cuStreamDestroy_v2(made.stream);
      });
    for (std::thread &thread : threads)
      thread.join();
  }

  /// Runs ranks of which at least one fails; returns what is printed.
  template <typename Body> std::string runFailing(Body &&body) {
    std::atomic<unsigned> failures{0};
    ::testing::internal::CaptureStderr();
    run([&](Rank &rank) {
      body(rank);
      // A rank that comes late hears of it from the communicator.
      ncclResult_t asynchronous = ncclSuccess;
      bool isBroken = cuStreamSynchronize(rank.stream) != CUDA_SUCCESS;
      ncclCommGetAsyncError(rank.comm, &asynchronous);
      failures += isBroken || asynchronous == ncclRemoteError;
    });
    EXPECT_EQ(failures, kRanks) << "every rank must end with an error";
    return ::testing::internal::GetCapturedStderr();
  }
};

TEST_F(NcclTest, AllReduceAddsInTheOrderOfRanks) {
  run([](Rank &rank) {
    // (2^24 + 1) + 1 - 2^24 is 0 in 32 bits in this order.
    float values[] = {16777216.0f, 1.0f, 1.0f, -16777216.0f};
    void *buffer = rank.upload({values[rank.number], float(rank.number)});
    ASSERT_EQ(ncclAllReduce(buffer, buffer, 2, ncclFloat32, ncclSum, rank.comm, rank.stream),
              ncclSuccess);
    EXPECT_EQ(rank.download(buffer, 2), (std::vector<float>{0, 6}));
  });
}

TEST_F(NcclTest, GatherAndScatter) {
  run([](Rank &rank) {
    void *one = rank.upload({float(rank.number)}), *all = rank.upload({9, 9, 9, 9});
    ASSERT_EQ(ncclAllGather(one, all, 1, ncclFloat32, rank.comm, rank.stream), ncclSuccess);
    EXPECT_EQ(rank.download(all, 4), (std::vector<float>{0, 1, 2, 3}));
    ASSERT_EQ(ncclReduceScatter(all, one, 1, ncclFloat32, ncclSum, rank.comm, rank.stream),
              ncclSuccess);
    EXPECT_EQ(rank.download(one, 1), (std::vector<float>{4 * float(rank.number)}));
  });
}

TEST_F(NcclTest, GroupedMessagesMakeAnAllToAll) {
  run([](Rank &rank) {
    std::vector<float> mine(4);
    for (unsigned i = 0; i < 4; ++i)
      mine[i] = float(rank.number * 10 + i);
    auto *from = static_cast<float *>(rank.upload(mine)),
         *to = static_cast<float *>(rank.upload({9, 9, 9, 9}));
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (int peer = 0; peer < 4; ++peer) {
      ASSERT_EQ(ncclSend(from + peer, 1, ncclFloat32, peer, rank.comm, rank.stream), ncclSuccess);
      ASSERT_EQ(ncclRecv(to + peer, 1, ncclFloat32, peer, rank.comm, rank.stream), ncclSuccess);
    }
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    float own = float(rank.number);
    EXPECT_EQ(rank.download(to, 4), (std::vector<float>{own, 10 + own, 20 + own, 30 + own}));
  });
}

TEST_F(NcclTest, SplitCommunicators) {
  run([](Rank &rank) {
    ncclComm_t half = nullptr;
    ASSERT_EQ(
        ncclCommSplit(rank.comm, rank.number % 2, -static_cast<int>(rank.number), &half, nullptr),
        ncclSuccess);
    void *one = rank.upload({float(rank.number)}), *all = rank.upload({9, 9});
    ASSERT_EQ(ncclAllGather(one, all, 1, ncclFloat32, half, rank.stream), ncclSuccess);
    float low = float(rank.number % 2);
    EXPECT_EQ(rank.download(all, 2), (std::vector<float>{low + 2, low})) << "ordered by key";
  });
}

/// Without blocking the new communicator is there once the parent is done with the split.
TEST_F(NcclTest, SplitsThatDoNotBlock) {
  run(
      [](Rank &rank) {
        ncclComm_t part = nullptr;
        ncclConfig_t config;
        config.blocking = 0;
        const int color = rank.number == 3 ? -1 : 0;
        ASSERT_EQ(settled(rank.comm, ncclCommSplit(rank.comm, color, static_cast<int>(rank.number),
                                                   &part, &config)),
                  ncclSuccess);
        ASSERT_EQ(part == nullptr, color < 0);
        void *one = rank.upload({float(rank.number)}), *all = rank.upload({9, 9, 9});
        if (part)
          ASSERT_EQ(settled(part, ncclAllGather(one, all, 1, ncclFloat32, part, rank.stream)),
                    ncclSuccess);
        EXPECT_EQ(rank.download(all, 3),
                  part ? (std::vector<float>{0, 1, 2}) : (std::vector<float>{9, 9, 9}));
      },
      /*blocks=*/false);
}

/// Whose first call is over has met the first calls of all others.
TEST_F(NcclTest, RanksConnectInTheirFirstCall) {
  std::latch areLooking{kRanks - 1};
  run(
      [&](Rank &rank) {
        void *sum = rank.upload({1});
        if (rank.number == 0)
          areLooking.wait();
        ncclResult_t state =
            ncclAllReduce(sum, sum, 1, ncclFloat32, ncclSum, rank.comm, rank.stream);
        if (rank.number != 0) {
          EXPECT_EQ(state, ncclInProgress);
          EXPECT_EQ(ncclAllReduce(sum, sum, 1, ncclFloat32, ncclSum, rank.comm, rank.stream),
                    ncclInvalidUsage);
          areLooking.count_down();
        }
        ASSERT_EQ(settled(rank.comm, state), ncclSuccess);
        state = ncclAllReduce(sum, sum, 1, ncclFloat32, ncclSum, rank.comm, rank.stream);
        EXPECT_EQ(settled(rank.comm, state), ncclSuccess);
        EXPECT_EQ(rank.download(sum, 1), (std::vector<float>{16}));
      },
      /*blocks=*/false);
}

/// Two ranks send, after a sum of all has connected them. None of the others takes part.
TEST_F(NcclTest, RanksConnectInTheirFirstMessage) {
  std::latch isLooking{1};
  run(
      [&](Rank &rank) {
        void *buffer = rank.upload({1});
        ASSERT_EQ(settled(rank.comm, ncclAllReduce(buffer, buffer, 1, ncclFloat32, ncclSum,
                                                   rank.comm, rank.stream)),
                  ncclSuccess);
        ncclResult_t state = ncclSuccess;
        if (rank.number == 0) {
          state = ncclSend(buffer, 1, ncclFloat32, 1, rank.comm, rank.stream);
          EXPECT_EQ(ncclCommGetAsyncError(rank.comm, &state), ncclSuccess);
          EXPECT_EQ(state, ncclInProgress);
          isLooking.count_down();
        } else if (rank.number == 1) {
          isLooking.wait();
          state = ncclRecv(buffer, 1, ncclFloat32, 0, rank.comm, rank.stream);
        }
        EXPECT_EQ(settled(rank.comm, state), ncclSuccess);
        EXPECT_EQ(rank.download(buffer, 1), (std::vector<float>{4}));
      },
      /*blocks=*/false);
}

/// Also of ranks that are connected: the library may still carry the call out, on a thread.
TEST_F(NcclTest, ACommunicatorIsNotUsedBeforeACallIsOver) {
  ::testing::internal::CaptureStderr();
  run(
      [](Rank &rank) {
        void *sum = rank.upload({1});
        for (int i = 0; i < 2; ++i) {
          ncclResult_t state =
              ncclAllReduce(sum, sum, 1, ncclFloat32, ncclSum, rank.comm, rank.stream);
          EXPECT_EQ(ncclAllReduce(sum, sum, 1, ncclFloat32, ncclSum, rank.comm, rank.stream),
                    ncclInvalidUsage);
          ASSERT_EQ(settled(rank.comm, state), ncclSuccess);
        }
        EXPECT_EQ(rank.download(sum, 1), (std::vector<float>{16}));
      },
      /*blocks=*/false);
  std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("used while a call is in progress"), std::string::npos) << said;
}

/// Three ranks ask for a split that the fourth doesn't ask for.
TEST_F(NcclTest, ACommunicatorIsNotUsedWhileItIsSplit) {
  ::testing::internal::CaptureStderr();
  run(
      [](Rank &rank) {
        if (rank.number == 3)
          return;
        ncclComm_t part = nullptr;
        ncclConfig_t config;
        config.blocking = 0;
        void *buffer = rank.upload({1});
        ASSERT_EQ(ncclCommSplit(rank.comm, 0, 0, &part, &config), ncclInProgress);
        EXPECT_EQ(ncclAllReduce(buffer, buffer, 1, ncclFloat32, ncclSum, rank.comm, rank.stream),
                  ncclInvalidUsage);
      },
      /*blocks=*/false);
  std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("used while it is being split"), std::string::npos) << said;
}

TEST_F(NcclTest, CountsThatDisagree) {
  std::string said = runFailing([](Rank &rank) {
    void *buffer = rank.upload({1, 2});
    ncclAllReduce(buffer, buffer, rank.number == 2 ? 1 : 2, ncclFloat32, ncclSum, rank.comm,
                  rank.stream);
  });
  EXPECT_NE(said.find("ranks disagree about collective 1"), std::string::npos) << said;
  EXPECT_NE(said.find("all_reduce of 1 f32 (sum)"), std::string::npos) << said;
}

TEST_F(NcclTest, SwappedOrder) {
  std::string said = runFailing([](Rank &rank) {
    void *buffer = rank.upload({1, 2, 3, 4}), *one = rank.upload({1});
    if (rank.number == 1)
      ncclAllGather(one, buffer, 1, ncclFloat32, rank.comm, rank.stream);
    ncclAllReduce(one, one, 1, ncclFloat32, ncclSum, rank.comm, rank.stream);
    if (rank.number != 1)
      ncclAllGather(one, buffer, 1, ncclFloat32, rank.comm, rank.stream);
  });
  EXPECT_NE(said.find("ranks disagree"), std::string::npos) << said;
}

TEST_F(NcclTest, SwappedCommunicator) {
  std::string said = runFailing([&](Rank &rank) {
    ncclComm_t half = nullptr;
    ASSERT_EQ(ncclCommSplit(rank.comm, rank.number / 2, 0, &half, nullptr), ncclSuccess);
    void *buffer = rank.upload({1});
    beginToHurry.arrive_and_wait();
    ncclComm_t used = rank.number == 0 ? rank.comm : half;
    ncclAllReduce(buffer, buffer, 1, ncclFloat32, ncclSum, used, rank.stream);
    ncclAllReduce(buffer, buffer, 1, ncclFloat32, ncclSum, rank.comm, rank.stream);
  });
  EXPECT_NE(said.find("waited 1 s in collective"), std::string::npos) << said;
}

TEST_F(NcclTest, MissingRank) {
  std::string said = runFailing([&](Rank &rank) {
    void *buffer = rank.upload({1});
    beginToHurry.arrive_and_wait();
    if (rank.number != 3)
      ncclAllReduce(buffer, buffer, 1, ncclFloat32, ncclSum, rank.comm, rank.stream);
    else
      ncclSend(buffer, 1, ncclFloat32, 0, rank.comm, rank.stream);
  });
  EXPECT_NE(said.find("collectives begun by rank: 1 1 1 0"), std::string::npos) << said;
}

TEST_F(NcclTest, NothingComesToPassAfterAnAbort) {
  std::barrier begun(kRanks);
  std::latch aborted(1);
  run([&](Rank &rank) {
    void *buffer = rank.upload({1});
    if (rank.number == kRanks - 1) // its stream comes to the collective after the abort
      streamOf(rank.stream).submit({"wait", [&] {
                                      aborted.wait();
                                      return Accesses();
                                    }});
    ASSERT_EQ(ncclAllReduce(buffer, buffer, 1, ncclFloat32, ncclSum, rank.comm, rank.stream),
              ncclSuccess);
    begun.arrive_and_wait();
    if (rank.number == 0) {
      EXPECT_EQ(ncclCommAbort(rank.comm), ncclSuccess);
      aborted.count_down();
    } else { // it waits until it has aborted its own
      aborted.wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_EQ(cuStreamQuery(rank.stream), CUDA_ERROR_NOT_READY);
      EXPECT_EQ(ncclCommAbort(rank.comm), ncclSuccess);
    }
    EXPECT_EQ(rank.download(buffer, 1), (std::vector<float>{1}));
  });
}

/// The device of rank 2 fails while three ranks wait. What they gave is gone when the last one
/// comes.
TEST_F(NcclTest, NothingComesToPassAfterAFailure) {
  std::barrier begun(kRanks);
  std::latch failed(1);
  runFailing([&](Rank &rank) {
    void *buffer = rank.upload({1});
    if (rank.number == 3)
      streamOf(rank.stream).submit({"wait", [&] {
                                      failed.wait();
                                      return Accesses();
                                    }});
    ASSERT_EQ(ncclAllReduce(buffer, buffer, 1, ncclFloat32, ncclSum, rank.comm, rank.stream),
              ncclSuccess);
    begun.arrive_and_wait();
    if (rank.number == 2) {
      CUstream other = nullptr;
      ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
      std::this_thread::sleep_for(std::chrono::milliseconds(20)); // until it waits
      streamOf(other).submit(
          {"mistake", []() -> Accesses { throw Fault(CUDA_ERROR_LAUNCH_FAILED, "a mistake"); }});
    }
    if (rank.number == 0) {
      EXPECT_NE(cuStreamSynchronize(rank.stream), CUDA_SUCCESS);
      failed.count_down();
    }
    EXPECT_NE(cuStreamSynchronize(rank.stream), CUDA_SUCCESS);
  });
}

TEST_F(NcclTest, AbortsWaitForGraphs) {
  std::barrier haveCaptured(kRanks);
  run([&](Rank &rank) {
    void *buffer = rank.upload({1});
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    ASSERT_EQ(cuStreamBeginCapture_v2(rank.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
              CUDA_SUCCESS);
    ASSERT_EQ(ncclAllReduce(buffer, buffer, 1, ncclFloat32, ncclSum, rank.comm, rank.stream),
              ncclSuccess);
    ASSERT_EQ(cuStreamEndCapture(rank.stream, &graph), CUDA_SUCCESS);
    ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    haveCaptured.arrive_and_wait();
    std::atomic<bool> isDone = false;
    std::thread abort([&] {
      EXPECT_EQ(ncclCommAbort(rank.comm), ncclSuccess);
      isDone = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(isDone);
    ASSERT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
    abort.join();
  });
}

TEST_F(NcclTest, MessageOfAnotherSize) {
  std::string said = runFailing([](Rank &rank) {
    void *buffer = rank.upload({1, 2});
    int peer = static_cast<int>(rank.number ^ 1);
    if (rank.number % 2)
      ncclRecv(buffer, 2, ncclFloat32, peer, rank.comm, rank.stream);
    else
      ncclSend(buffer, 1, ncclFloat32, peer, rank.comm, rank.stream);
  });
  EXPECT_NE(said.find("sends 1 f32, and rank"), std::string::npos) << said;
}

TEST_F(NcclTest, MissingWaitBeforeACollective) {
  std::string said = runFailing([](Rank &rank) {
    CUstream communication = nullptr;
    ASSERT_EQ(cuStreamCreate(&communication, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    void *buffer = rank.upload({1});
    ASSERT_EQ(cuStreamSynchronize(rank.stream), CUDA_SUCCESS);
    cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(buffer), 0, 1, rank.stream);
    ncclAllReduce(buffer, buffer, 1, ncclFloat32, ncclSum, rank.comm, communication);
    cuStreamSynchronize(communication);
  });
  EXPECT_NE(said.find("race between streams"), std::string::npos) << said;
  EXPECT_NE(said.find("all_reduce of 1 f32"), std::string::npos) << said;
}

} // namespace
} // namespace dtc::emulator::test
