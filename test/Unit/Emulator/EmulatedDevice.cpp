#include "EmulatedDevice.h"

#include <cstdlib>

namespace dtc::emulator::test {

namespace {

/// The emulator reads its settings once, so they are set before any test runs.
[[maybe_unused]] const bool isConfigured = [] {
  setenv("DTC_EMULATED_GPU_COUNT", "256", 1);
  setenv("DTC_EMULATED_GPU_MEMORY", "1G", 1);
  setenv("DTC_EMULATED_GPU_CONTEXT", "16M", 1);
  setenv("DTC_EMULATED_NCCL_MEMORY", "8M", 1);
  return true;
}();

} // namespace

void EmulatedDevice::SetUp() {
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  static int next = 0;
  CUcontext context = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, next++), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
}

void EmulatedDevice::TearDown() { cuStreamDestroy_v2(stream); }

CUdeviceptr EmulatedDevice::allocate(size_t bytes) {
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc_v2(&address, bytes), CUDA_SUCCESS);
  return address;
}

CUfunction EmulatedDevice::load(const std::string &text, const char *name) {
  CUmodule module = nullptr;
  EXPECT_EQ(cuModuleLoadDataEx(&module, text.c_str(), 0, nullptr, nullptr), CUDA_SUCCESS);
  CUfunction function = nullptr;
  if (module)
    EXPECT_EQ(cuModuleGetFunction(&function, module, name), CUDA_SUCCESS);
  return function;
}

CUfunction EmulatedDevice::kernel(const std::string &body) {
  return load(R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry test(.param .u64 a, .param .u64 b, .param .u64 c)
{
  .reg .pred %p<9>;
  .reg .b16 %rs<20>;
  .reg .b32 %r<40>;
  .reg .b64 %rd<40>;
  .reg .f32 %f<20>;
  .reg .f64 %fd<20>;
  .shared .align 16 .b8 buffer[1024];
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %rd3, [c];
  mov.u32 %r1, %tid.x;
)" + body + "\n  ret;\n}\n",
              "test");
}

CUresult EmulatedDevice::launch(CUfunction function, unsigned blocks, unsigned threads,
                                std::vector<CUdeviceptr> arguments, unsigned sharedBytes,
                                CUstream on) {
  arguments.resize(8, 0);
  std::vector<void *> values;
  for (CUdeviceptr &argument : arguments)
    values.push_back(&argument);
  return cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, sharedBytes, on ? on : stream,
                        values.data(), nullptr);
}

std::string readPtx(const std::string &name) {
  std::ifstream file(std::string(DTC_TEST_DIR) + "/Unit/Emulator/ptx/" + name);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

} // namespace dtc::emulator::test
