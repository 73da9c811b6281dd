// GPUs, true or emulated: the emulator that is built beside the tests is used unless
// DTC_CUDA_LIBRARY_PATH says where other libraries are.
#include "Conformance.h"

#include "dtc-rt/CUDA/CudaPlatform.h"

#include <cstdlib>

namespace {

/// As ../TestKernels.c, a thread for each iteration. "count" has the scratch of the launch.
constexpr const char *kKernels = R"(
.version 7.0
.target sm_80
.address_size 64

.visible .entry add(.param .u64 add_a, .param .u64 add_b, .param .u64 add_out)
{
  .reg .b32 %r<5>;
  .reg .b64 %rd<10>;
  .reg .f32 %f<4>;
  ld.param.u64 %rd1, [add_a];
  ld.param.u64 %rd2, [add_b];
  ld.param.u64 %rd3, [add_out];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  mul.wide.u32 %rd4, %r4, 4;
  add.s64 %rd5, %rd1, %rd4;
  add.s64 %rd6, %rd2, %rd4;
  add.s64 %rd7, %rd3, %rd4;
  ld.global.f32 %f1, [%rd5];
  ld.global.f32 %f2, [%rd6];
  add.rn.f32 %f3, %f1, %f2;
  st.global.f32 [%rd7], %f3;
  ret;
}

.visible .entry count(.param .u64 count_out, .param .u64 count_scratch)
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<6>;
  .reg .f32 %f<3>;
  ld.param.u64 %rd1, [count_out];
  ld.param.u64 %rd2, [count_scratch];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  mul.wide.u32 %rd3, %r4, 4;
  add.s64 %rd4, %rd1, %rd3;
  ld.global.f32 %f1, [%rd4];
  add.rn.f32 %f2, %f1, 0f3F800000;
  st.global.f32 [%rd4], %f2;
  setp.ne.s32 %p1, %r4, 0;
  @%p1 bra DONE;
  mov.u32 %r5, %nctaid.x;
  mul.wide.u32 %rd5, %r5, %r2;
  st.global.u64 [%rd2], %rd5;
DONE:
  ret;
}
)";

/// Why there is no GPU to test.
std::string whyNoGpu() {
  ::setenv("DTC_CUDA_LIBRARY_PATH", DTC_GPU_EMULATOR, /*overwrite=*/0);
  dtc::rt::Manifest manifest;
  auto platform = dtc::rt::openCudaPlatform(manifest);
  return platform ? "" : platform.status().message();
}

dtc::rt::conformance::RegisterTarget cuda({"CUDA", dtc::rt::createCudaPlatform, "kernels.ptx",
                                           [] { return kKernels; }, whyNoGpu,
                                           /*hasConvolutions=*/false, /*dropsIssuedWork=*/false});

} // namespace
