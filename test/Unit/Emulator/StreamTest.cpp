// Streams, events and graphs; and the races that vector clocks find whatever the timing.
#include "EmulatedDevice.h"

namespace dtc::emulator::test {

namespace {

class StreamTest : public EmulatedDevice {
protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    ASSERT_EQ(cuEventCreate(&back, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    a = allocate(256);
    b = allocate(256);
    ASSERT_EQ(cuMemsetD32Async(a, 1, 64, stream), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  }
  void TearDown() override {
    cuStreamDestroy_v2(other);
    EmulatedDevice::TearDown();
  }

  /// Lets `to` wait for everything on `from`.
  void order(CUstream from, CUstream to, CUevent by) {
    ASSERT_EQ(cuEventRecord(by, from), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamWaitEvent(to, by, 0), CUDA_SUCCESS);
  }

  /// Expects a race between the two streams once the body has run, and returns what is said about
  /// it.
  template <typename Body> std::string expectRace(Body &&body) {
    ::testing::internal::CaptureStderr();
    body();
    CUresult first = cuStreamSynchronize(stream), second = cuStreamSynchronize(other);
    std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_TRUE(first == CUDA_ERROR_LAUNCH_FAILED || second == CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_NE(said.find("race between streams: "), std::string::npos) << said;
    return said;
  }

  CUstream other = nullptr;
  CUevent event = nullptr, back = nullptr;
  CUdeviceptr a = 0, b = 0;
};

TEST_F(StreamTest, EventsOrderStreams) {
  for (unsigned i = 0; i < 20; ++i) {
    cuMemsetD32Async(a, i, 64, stream);
    order(stream, other, event);
    cuMemcpyDtoDAsync_v2(b, a, 256, other);
    order(other, stream, back);
  }
  EXPECT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
  EXPECT_EQ(download<unsigned>(b, 64), std::vector<unsigned>(64, 19));
}

TEST_F(StreamTest, GraphsKeepPriorities) {
  int least = 0, greatest = 0;
  CUstream urgent = nullptr;
  ASSERT_EQ(cuCtxGetStreamPriorityRange(&least, &greatest), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamCreateWithPriority(&urgent, CU_STREAM_NON_BLOCKING, greatest - 1),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuStreamCreateWithPriority(&urgent, CU_STREAM_NON_BLOCKING, greatest), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  order(stream, urgent, event);
  cuMemsetD32Async(a, 2, 64, urgent);
  order(urgent, stream, back);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(
      cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY),
      CUDA_SUCCESS);
  cuGraphExecDestroy(exec);
  cuGraphDestroy(graph);
  cuStreamDestroy_v2(urgent);
}

TEST_F(StreamTest, MissingWaitAfterAWrite) {
  std::string said = expectRace([&] {
    cuMemsetD32Async(a, 2, 64, stream);
    cuMemcpyDtoDAsync_v2(b, a, 256, other);
  });
  EXPECT_NE(said.find("fill of 256 bytes"), std::string::npos) << said;
  EXPECT_NE(said.find("copy of 256 bytes"), std::string::npos) << said;
}

TEST_F(StreamTest, MissingWaitBeforeReuse) {
  expectRace([&] {
    cuMemsetD32Async(a, 3, 64, stream);
    order(stream, other, event);
    cuMemcpyDtoDAsync_v2(b, a, 256, other);
    cuMemsetD32Async(a, 4, 64, stream); // overwrites what `other` may still read
  });
}

TEST_F(StreamTest, MissingWaitIsFoundInKernels) {
  CUfunction function =
      kernel("mul.wide.u32 %rd4, %r1, 4;\n add.s64 %rd5, %rd1, %rd4;\n add.s64 %rd6, %rd2, %rd4;\n"
             "ld.global.u32 %r2, [%rd5];\n st.global.u32 [%rd6], %r2;\n");
  ASSERT_EQ(launch(function, 1, 64, {a, b}), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  // Two launches on different halves don't conflict; the third does.
  ASSERT_EQ(launch(function, 1, 32, {a, b}), CUDA_SUCCESS);
  ASSERT_EQ(launch(function, 1, 32, {a, b + 128}, 0, other), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
  std::string said = expectRace([&] {
    launch(function, 1, 32, {a, b});
    launch(function, 1, 32, {a, b + 124}, 0, other);
  });
  EXPECT_NE(said.find("writes 4 bytes"), std::string::npos) << said;
}

TEST_F(StreamTest, HostSynchronizationOrders) {
  cuMemsetD32Async(a, 5, 64, stream);
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  cuMemcpyDtoDAsync_v2(b, a, 256, other);
  EXPECT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
}

TEST_F(StreamTest, QueriesOrderOnceDone) {
  cuMemsetD32Async(a, 6, 64, stream);
  ASSERT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
  while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
    std::this_thread::yield();
  cuMemcpyDtoDAsync_v2(b, a, 256, other);
  EXPECT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
}

TEST_F(StreamTest, GraphsRunWhatWasCaptured) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUdeviceptr c = allocate(256);
  ASSERT_EQ(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  cuMemsetD32Async(a, 7, 64, stream);
  order(stream, other, event);
  cuMemcpyDtoDAsync_v2(b, a, 256, other);
  cuMemcpyDtoDAsync_v2(c, a, 256, stream);
  order(other, stream, back);
  cuMemsetD32Async(a, 8, 64, stream);
  ASSERT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  EXPECT_EQ(download<unsigned>(a, 1)[0], 1u) << "a capture runs nothing";
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
  EXPECT_EQ(download<unsigned>(a, 1)[0], 8u);
  EXPECT_EQ(download<unsigned>(b, 1)[0], 7u);
  EXPECT_EQ(download<unsigned>(c, 1)[0], 7u);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(StreamTest, RaceWithinAGraph) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  order(stream, other, event);
  cuMemsetD32Async(a, 7, 64, stream);
  cuMemcpyDtoDAsync_v2(b, a, 256, other);
  order(other, stream, back);
  ASSERT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  ::testing::internal::CaptureStderr();
  ASSERT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("race between streams"),
            std::string::npos);
}

TEST_F(StreamTest, UnjoinedCapture) {
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  cuMemsetD32Async(a, 7, 64, stream);
  order(stream, other, event);
  cuMemcpyDtoDAsync_v2(b, a, 256, other);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("copy of 256 bytes"), std::string::npos);
}

TEST_F(StreamTest, SynchronizingACaptureIsRefused) {
  ASSERT_EQ(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  ::testing::internal::GetCapturedStderr();
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
}

TEST_F(StreamTest, RowsAreCopied) {
  std::vector<unsigned> source(12);
  for (unsigned i = 0; i < 12; ++i)
    source[i] = i;
  CUdeviceptr from = upload(source), to = allocate(6 * 4);
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.srcXInBytes = 4;
  copy.srcPitch = 16;
  copy.dstDevice = to;
  copy.dstPitch = 8;
  copy.WidthInBytes = 8;
  copy.Height = 3;
  ASSERT_EQ(cuMemcpy2DAsync_v2(&copy, stream), CUDA_SUCCESS);
  EXPECT_EQ(download<unsigned>(to, 6), (std::vector<unsigned>{1, 2, 5, 6, 9, 10}));
}

/// Pinned memory.
class PinnedTest : public StreamTest {
protected:
  void SetUp() override {
    StreamTest::SetUp();
    void *memory = nullptr;
    ASSERT_EQ(cuMemHostAlloc(&memory, 256, 0), CUDA_SUCCESS);
    room = static_cast<unsigned *>(memory);
  }
  void TearDown() override {
    cuMemFreeHost(room);
    StreamTest::TearDown();
  }

  unsigned *room = nullptr;
};

TEST_F(PinnedTest, MissingWaitForWhatLeftTheDevice) {
  expectRace([&] {
    cuMemcpyDtoHAsync_v2(room, a, 256, stream);
    cuMemcpyHtoDAsync_v2(b, room, 256, other);
  });
}

TEST_F(PinnedTest, MissingWaitBeforeTheHostsMemoryIsReused) {
  expectRace([&] {
    cuMemcpyHtoDAsync_v2(b, room, 256, other);
    cuMemcpyDtoHAsync_v2(room, a, 256, stream);
  });
}

TEST_F(PinnedTest, WhatTheHostHasWaitedForIsOrdered) {
  cuMemcpyDtoHAsync_v2(room, a, 256, stream);
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  cuMemcpyHtoDAsync_v2(b, room, 256, other);
  EXPECT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
  EXPECT_EQ(download<unsigned>(b, 64), std::vector<unsigned>(64, 1));
}

/// Some of these lie in one page of the machine, and one of them begins it.
TEST_F(StreamTest, WhatIsFreedLeavesItsNeighboursAsTheyAre) {
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 16; ++i)
    blocks.push_back(upload(std::vector<int>(128, i + 1)));
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  for (int i = 0; i < 16; i += 2)
    ASSERT_EQ(cuMemFree_v2(blocks[i + 1]), CUDA_SUCCESS);
  for (int i = 0; i < 16; i += 2)
    EXPECT_EQ(download<int>(blocks[i], 128), std::vector<int>(128, i + 1)) << i;
}

TEST_F(StreamTest, OutOfMemory) {
  size_t free = 0, total = 0;
  ASSERT_EQ(cuMemGetInfo_v2(&free, &total), CUDA_SUCCESS);
  EXPECT_EQ(total - free, (16u << 20) + 512u); // the context, and two arrays
  CUdeviceptr address = 0;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(cuMemAlloc_v2(&address, free + 1), CUDA_ERROR_OUT_OF_MEMORY);
  ::testing::internal::GetCapturedStderr();
}

} // namespace
} // namespace dtc::emulator::test
