// The streams that queues are.
#include "CudaQueue.h"

#include "../TestGpu.h"
#include "dtc-rt/Threads/ThreadCommunicator.h"

#include <gtest/gtest.h>

using namespace dtc::rt;
using namespace dtc::rt::cuda;

namespace {

Driver real;
std::vector<int> priorities; ///< of streams, as they were made

CUresult createStream(CUstream *stream, unsigned flags, int priority) {
  priorities.push_back(priority);
  return real.cuStreamCreateWithPriority(stream, flags, priority);
}

} // namespace

TEST(CudaQueue, ExchangesHaveTheHighestPriority) {
  if (std::string why = test::whyNoGpus(); !why.empty())
    GTEST_SKIP() << why;
  auto driver = Driver::load();
  ASSERT_TRUE(driver) << driver.status().message();
  Driver own = real = *driver;
  own.cuStreamCreateWithPriority = createStream;
  auto gpu = Gpu::open(own, 0);
  ASSERT_TRUE(gpu) << gpu.status().message();
  ThreadWorld world(1, std::chrono::seconds(20));
  auto communicator = world.communicator(0);
  LedgerBook book;
  LoadedOnce<Nccl> nccl;
  RankProgress progress(**gpu, *communicator, book, nccl);
  for (QueueKind kind : {QueueKind::Compute, QueueKind::Copy, QueueKind::Collective,
                         QueueKind::Send, QueueKind::Receive})
    ASSERT_TRUE(CudaQueue::create(**gpu, progress, {"a queue", kind}));
  int least = 0, greatest = 0;
  ASSERT_EQ(real.cuCtxGetStreamPriorityRange(&least, &greatest), CUDA_SUCCESS);
  ASSERT_LT(greatest, least);
  EXPECT_EQ(priorities, (std::vector<int>{least, least, greatest, greatest, greatest}));
}
