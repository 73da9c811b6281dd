// Planted mistakes: each is found, and named with its place.
#include "EmulatedDevice.h"

namespace dtc::emulator::test {

namespace {

/// Expects a text within what was printed.
#define EXPECT_SAID(printed, text) EXPECT_NE((printed).find(text), std::string::npos) << (printed)

class MistakeTest : public EmulatedDevice {
protected:
  /// Runs a kernel with a body on one block, and returns what is printed when it fails with a code.
  std::string run(const std::string &body, unsigned threads, std::vector<CUdeviceptr> arguments,
                  CUresult code) {
    CUfunction function = kernel(body);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(launch(function, 1, threads, arguments), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), code);
    return ::testing::internal::GetCapturedStderr();
  }

  CUdeviceptr filled(size_t floats) { return upload(std::vector<float>(floats, 1.0f)); }

  const std::string address = "mul.wide.u32 %rd4, %r1, 4;\n add.s64 %rd5, %rd1, %rd4;\n";
};

TEST_F(MistakeTest, OutOfBoundsByOne) {
  std::string said =
      run(address + "st.global.u32 [%rd5], %r1;", 33, {filled(32)}, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_SAID(said, "kernel test, PTX line");
  EXPECT_SAID(said, "st.global.u32 [%rd5], %r1;");
  EXPECT_SAID(said, "block (0, 0, 0), thread 32");
  EXPECT_SAID(said, "0 bytes past the end of an allocation of 128 bytes");
}

TEST_F(MistakeTest, NullPointer) {
  std::string said = run("ld.global.u32 %r2, [%rd1];", 1, {0}, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_SAID(said, "out of bounds: 4 bytes at 0x0");
}

TEST_F(MistakeTest, UseAfterFree) {
  CUdeviceptr gone = filled(32);
  ASSERT_EQ(cuMemFree_v2(gone), CUDA_SUCCESS);
  std::string said =
      run(address + "ld.global.u32 %r2, [%rd5];", 32, {gone}, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_SAID(said, "in freed memory, 0 bytes into an allocation of 128 bytes");
}

TEST_F(MistakeTest, MisalignedVector) {
  std::string said = run("ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1+8];", 1, {filled(32)},
                         CUDA_ERROR_MISALIGNED_ADDRESS);
  EXPECT_SAID(said, "misaligned");
  EXPECT_SAID(said, "an access of 16 bytes");
}

TEST_F(MistakeTest, UninitializedRead) {
  std::string said =
      run(address + "ld.global.u32 %r2, [%rd5];", 32, {allocate(128)}, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_SAID(said, "uninitialized read: kernel test");
  EXPECT_SAID(said, "reads 128 bytes");
}

TEST_F(MistakeTest, UninitializedSharedMemory) {
  std::string said = run("ld.shared.u32 %r2, [buffer];", 1, {}, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_SAID(said, "uninitialized read of shared byte 0");
}

TEST_F(MistakeTest, SharedMemoryOutOfBounds) {
  std::string said = run("st.shared.u32 [buffer+1024], %r1;", 1, {}, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_SAID(said, "of the block's 1024 bytes of shared memory");
}

const char *kExchange = R"(
  mov.u64 %rd6, buffer;
  mul.wide.u32 %rd4, %r1, 4;
  add.s64 %rd7, %rd6, %rd4;
  st.shared.u32 [%rd7], %r1;
  BARRIER
  xor.b32 %r2, %r1, MASK;
  mul.wide.u32 %rd8, %r2, 4;
  add.s64 %rd9, %rd6, %rd8;
  ld.shared.u32 %r3, [%rd9];
  add.s64 %rd5, %rd1, %rd4;
  st.global.u32 [%rd5], %r3;
)";

std::string exchange(const std::string &barrier, const std::string &mask) {
  std::string body = kExchange;
  body.replace(body.find("BARRIER"), 7, barrier);
  return body.replace(body.find("MASK"), 4, mask);
}

TEST_F(MistakeTest, MissingBarrierBetweenWarps) {
  std::string said = run(exchange("", "32"), 64, {allocate(256)}, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_SAID(said, "uninitialized read of shared byte");
}

TEST_F(MistakeTest, RaceBetweenLanes) {
  std::string said = run(exchange("", "1"), 32, {allocate(128)}, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_SAID(said, "shared-memory race: it reads shared byte");
}

TEST_F(MistakeTest, MissingBarrierBeforeOverwriting) {
  std::string body =
      exchange("bar.sync 0;", "32") + "setp.ge.u32 %p1, %r1, 32;\n @%p1 st.shared.u32 [%rd7], %r3;";
  std::string said = run(body, 64, {allocate(256)}, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_SAID(said, "shared-memory race: it writes shared byte");
  EXPECT_SAID(said, "read since the last barrier");
}

TEST_F(MistakeTest, BarriersMakeExchangesRight) {
  CUdeviceptr output = allocate(256);
  ASSERT_EQ(launch(kernel(exchange("bar.sync 0;", "32")), 1, 64, {output}), CUDA_SUCCESS);
  std::vector<uint32_t> values = download<uint32_t>(output, 64);
  for (uint32_t i = 0; i < 64; ++i)
    EXPECT_EQ(values[i], i ^ 32);
  ASSERT_EQ(launch(kernel(exchange("bar.warp.sync -1;", "1")), 1, 64, {output}), CUDA_SUCCESS);
  values = download<uint32_t>(output, 64);
  for (uint32_t i = 0; i < 64; ++i)
    EXPECT_EQ(values[i], i ^ 1);
}

TEST_F(MistakeTest, DivergentBarrier) {
  std::string said = run("setp.lt.u32 %p1, %r1, 7;\n @%p1 bra skip;\n bar.sync 0;\nskip:", 32, {},
                         CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_SAID(said, "divergent barrier: 25 of the warp's 32 threads arrive");
}

TEST_F(MistakeTest, WarpThatNeverArrives) {
  std::string said = run("setp.lt.u32 %p1, %r1, 32;\n @%p1 bra skip;\n bar.sync 0;\nskip:", 64, {},
                         CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_SAID(said, "divergent barrier: warp 0 has exited without arriving");
}

TEST_F(MistakeTest, DivergentShuffle) {
  std::string said = run("setp.lt.u32 %p1, %r1, 16;\n @%p1 bra skip;\n"
                         "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\nskip:",
                         32, {}, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_SAID(said, "of its member mask aren't here");
}

/// Eight rows of 16 bytes of each matrix, which other warps have written.
std::string matricesAfter(const std::string &barrier, const std::string &load) {
  return R"(
  mov.u64 %rd6, buffer;
  mul.wide.u32 %rd4, %r1, 4;
  add.s64 %rd7, %rd6, %rd4;
  st.shared.u32 [%rd7], %r1;
  )" + barrier +
         R"(
  and.b32 %r9, %r1, 31;
  mul.wide.u32 %rd8, %r9, 16;
  add.s64 %rd9, %rd6, %rd8;
  setp.lt.u32 %p1, %r9, 31;
  )" + load +
         R"(
  add.s64 %rd5, %rd1, %rd4;
  st.global.u32 [%rd5], %r3;
)";
}

TEST_F(MistakeTest, MatricesOfSharedMemory) {
  const std::string load = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r2, %r3, %r4, %r5}, [%rd9";
  CUdeviceptr output = allocate(512);
  ASSERT_EQ(launch(kernel(matricesAfter("bar.sync 0;", load + "];")), 1, 128, {output}),
            CUDA_SUCCESS);
  std::vector<uint32_t> values = download<uint32_t>(output, 128); // of the second matrix
  for (uint32_t i = 0; i < 128; ++i)
    EXPECT_EQ(values[i], 32 + i % 32);
  auto fails = [&](const std::string &barrier, const std::string &of, CUresult code) {
    SetUp();
    return run(matricesAfter(barrier, of), 128, {allocate(512)}, code);
  };
  EXPECT_SAID(fails("", load + "];", CUDA_ERROR_LAUNCH_FAILED), "it reads shared byte 4 that");
  EXPECT_SAID(fails("bar.sync 0;", load + "+8];", CUDA_ERROR_MISALIGNED_ADDRESS), "of 16 bytes");
  EXPECT_SAID(fails("bar.sync 0;", load + "+528];", CUDA_ERROR_LAUNCH_FAILED),
              "uninitialized read of shared byte 528");
  EXPECT_SAID(fails("bar.sync 0;", "@%p1 " + load + "];", CUDA_ERROR_LAUNCH_FAILED),
              "divergent: not all lanes load the matrices");
}

TEST_F(MistakeTest, DivisionByZero) {
  EXPECT_SAID(run("div.u32 %r2, %r1, 0;", 1, {}, CUDA_ERROR_ILLEGAL_INSTRUCTION),
              "division by zero");
}

TEST_F(MistakeTest, HostTouchesDeviceMemory) {
  CUdeviceptr address = allocate(64);
  EXPECT_DEATH(*reinterpret_cast<volatile int *>(address) = 1, "");
}

TEST_F(MistakeTest, LimitsOfTheDevice) {
  ::testing::internal::CaptureStderr();
  CUfunction function = kernel("");
  EXPECT_EQ(launch(function, 1, 1025, {}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(function, 0, 32, {}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(function, 1, 32, {}, 48 * 1024), CUDA_ERROR_INVALID_VALUE);
  auto most = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  EXPECT_EQ(cuFuncSetAttribute(function, most, 227 * 1024), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncSetAttribute(function, most, 226 * 1024), CUDA_SUCCESS);
  EXPECT_EQ(launch(function, 1, 32, {}, 226 * 1024), CUDA_SUCCESS);
  EXPECT_SAID(::testing::internal::GetCapturedStderr(), "no block of 1025 x 1 x 1 threads");
}

TEST_F(MistakeTest, UnknownInstruction) {
  ::testing::internal::CaptureStderr();
  CUmodule module = nullptr;
  const char *text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n  "
                     "wgmma.fence;\n  ret;\n}\n";
  EXPECT_EQ(cuModuleLoadDataEx(&module, text, 0, nullptr, nullptr), CUDA_ERROR_INVALID_PTX);
  EXPECT_SAID(::testing::internal::GetCapturedStderr(),
              "PTX line 6: unknown instruction 'wgmma.fence'");
}

TEST_F(MistakeTest, UnknownModifier) {
  char log[256] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log))};
  CUmodule module = nullptr;
  const char *text =
      ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n .reg .b32 %r<3>;\n"
      " add.wrong.s32 %r1, %r2, 1;\n ret;\n}\n";
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(cuModuleLoadDataEx(&module, text, 2, options, values), CUDA_ERROR_INVALID_PTX);
  ::testing::internal::GetCapturedStderr();
  EXPECT_SAID(std::string(log), "PTX line 7: unknown instruction 'add.wrong.s32'");
}

TEST_F(MistakeTest, BinaryImagesAreRefused) {
  CUmodule module = nullptr;
  EXPECT_EQ(cuModuleLoadDataEx(&module,
                               "\x7f"
                               "ELF----",
                               0, nullptr, nullptr),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
}

TEST_F(MistakeTest, DestroyedHandle) {
  CUevent event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventDestroy_v2(event), CUDA_SUCCESS);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(cuEventRecord(event, stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_SAID(::testing::internal::GetCapturedStderr(), "is no live event");
}

TEST_F(MistakeTest, CopyOutOfBounds) {
  std::vector<std::byte> bytes(65);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(allocate(64), bytes.data(), 65, stream),
            CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_SAID(::testing::internal::GetCapturedStderr(), "out of bounds: 65 bytes");
}

} // namespace
} // namespace dtc::emulator::test
