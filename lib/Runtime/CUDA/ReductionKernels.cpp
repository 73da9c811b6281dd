#include "ReductionKernels.h"

#include <algorithm>
#include <iterator>

namespace dtc::rt::cuda {
namespace {

constexpr unsigned kThreads = 256;

/// How a kernel loads, converts and combines an element.
struct Element {
  ncclDataType_t type;
  const char *name;
  uint64_t bytes;
  const char *bits;    ///< the type that it is loaded and stored as
  const char *stored;  ///< the kind of register that it is loaded into
  const char *sum;     ///< the type in which it is combined
  const char *summed;  ///< the kind of register for that
  const char *convert; ///< "" or the instructions from %in to %value
  const char *round;   ///< "" or the instructions from %sum to %out
};

constexpr Element kElements[] = {
    {ncclFloat32, "f32", 4, "f32", "f32", "f32", "f32", "mov.f32 %value, %in;",
     "mov.f32 %out, %sum;"},
    {ncclFloat64, "f64", 8, "f64", "f64", "f64", "f64", "mov.f64 %value, %in;",
     "mov.f64 %out, %sum;"},
    {ncclBfloat16, "bf16", 2, "u16", "b16", "f32", "f32",
     "mov.b16 %zero, 0;\n  mov.b32 %wide, {%zero, %in};\n  mov.b32 %value, %wide;",
     "cvt.rn.bf16.f32 %out, %sum;"},
    {ncclFloat16, "f16", 2, "u16", "b16", "f32", "f32", "cvt.f32.f16 %value, %in;",
     "cvt.rn.f16.f32 %out, %sum;"},
    {ncclInt64, "s64", 8, "u64", "b64", "s64", "b64", "mov.b64 %value, %in;",
     "mov.b64 %out, %sum;"},
    {ncclInt32, "s32", 4, "u32", "b32", "s32", "b32", "mov.b32 %value, %in;",
     "mov.b32 %out, %sum;"},
    {ncclInt8, "s8", 1, "s8", "b32", "s32", "b32", "mov.b32 %value, %in;", "mov.b32 %out, %sum;"},
    {ncclUint8, "u8", 1, "u8", "b32", "u32", "b32", "mov.b32 %value, %in;", "mov.b32 %out, %sum;"},
};

struct Reduction {
  ncclRedOp_t operation;
  const char *name;
};
constexpr Reduction kReductions[] = {{ncclSum, "add"}, {ncclMax, "max"}, {ncclMin, "min"}};

std::string nameOf(const Element &element, const Reduction &reduction) {
  return std::string("dtc_") + reduction.name + "_" + element.name;
}

/// Replaces each "#word#" of a text.
std::string filled(std::string text, const std::map<std::string, std::string> &words) {
  for (const auto &[word, value] : words)
    for (size_t at = 0; (at = text.find("#" + word + "#", at)) != std::string::npos;
         at += value.size())
      text.replace(at, word.size() + 2, value);
  return text;
}

/// A thread combines one element.
constexpr const char *kKernel = R"(
.visible .entry #name#(
  .param .u64 #name#_param_0,
  .param .u64 #name#_param_1,
  .param .u64 #name#_param_2,
  .param .u64 #name#_param_3,
  .param .u64 #name#_param_4
)
{
  .reg .pred %p<3>;
  .reg .b16 %zero;
  .reg .b32 %wide;
  .reg .b32 %r<4>;
  .reg .b64 %rd<12>;
  .reg .#stored# %in;
  .reg .#stored# %out;
  .reg .#kind# %value;
  .reg .#kind# %sum;
  ld.param.u64 %rd1, [#name#_param_0];
  ld.param.u64 %rd2, [#name#_param_1];
  ld.param.u64 %rd3, [#name#_param_2];
  ld.param.u64 %rd4, [#name#_param_3];
  ld.param.u64 %rd5, [#name#_param_4];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mul.wide.u32 %rd6, %r1, %r2;
  cvt.u64.u32 %rd7, %r3;
  add.s64 %rd8, %rd6, %rd7;
  setp.ge.u64 %p1, %rd8, %rd5;
  @%p1 bra $L_#name#_done;
  mul.lo.s64 %rd9, %rd8, #bytes#;
  cvta.to.global.u64 %rd10, %rd2;
  add.s64 %rd10, %rd10, %rd9;
  ld.global.#bits# %in, [%rd10];
  #convert#
  #move# %sum, %value;
  mov.u64 %rd11, 1;
$L_#name#_next:
  setp.ge.u64 %p2, %rd11, %rd4;
  @%p2 bra $L_#name#_store;
  add.s64 %rd10, %rd10, %rd3;
  ld.global.#bits# %in, [%rd10];
  #convert#
  #combine# %sum, %sum, %value;
  add.s64 %rd11, %rd11, 1;
  bra $L_#name#_next;
$L_#name#_store:
  #round#
  cvta.to.global.u64 %rd10, %rd1;
  add.s64 %rd10, %rd10, %rd9;
  st.global.#bits# [%rd10], %out;
$L_#name#_done:
  ret;
}
)";

std::string kernelOf(const Element &element, const Reduction &reduction) {
  std::string sum = element.sum, name = nameOf(element, reduction);
  bool isFloat = sum.front() == 'f', isSum = reduction.operation == ncclSum;
  std::string combine = isFloat && isSum ? "add.rn." + sum
                        : isSum          ? "add.s" + sum.substr(1)
                                         : std::string(reduction.name) + "." + sum;
  return filled(kKernel, {{"name", name},
                          {"stored", element.stored},
                          {"kind", element.summed},
                          {"bytes", std::to_string(element.bytes)},
                          {"bits", element.bits},
                          {"convert", element.convert},
                          {"combine", combine},
                          {"move", std::string("mov.") + element.summed},
                          {"round", element.round}});
}

} // namespace

uint64_t bytesOf(ncclDataType_t type) {
  auto found = std::ranges::find(kElements, type, &Element::type);
  return found == std::end(kElements) ? 0 : found->bytes;
}

std::string reductionSource() {
  std::string text = ".version 7.0\n.target sm_80\n.address_size 64\n";
  for (const Element &element : kElements)
    for (const Reduction &reduction : kReductions)
      text += kernelOf(element, reduction);
  return text;
}

Result<std::unique_ptr<ReductionKernels>> ReductionKernels::load(const Driver &driver) {
  std::unique_ptr<ReductionKernels> made(new ReductionKernels(driver));
  DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuModuleLoadDataEx, &made->module, reductionSource().c_str(),
                             0, nullptr, nullptr));
  for (const Element &element : kElements)
    for (const Reduction &reduction : kReductions)
      DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuModuleGetFunction,
                                 &made->kernels[{element.type, reduction.operation}], made->module,
                                 nameOf(element, reduction).c_str()));
  return made;
}

ReductionKernels::~ReductionKernels() {
  if (module)
    driver.cuModuleUnload(module);
}

Status ReductionKernels::launch(ncclDataType_t type, ncclRedOp_t operation, CUdeviceptr target,
                                CUdeviceptr slots, uint64_t stride, uint64_t numSlots,
                                uint64_t count, CUstream stream) const {
  auto kernel = kernels.find({type, operation});
  if (kernel == kernels.end())
    return refused("no kernel reduces such elements: " + std::to_string(type));
  void *parameters[] = {&target, &slots, &stride, &numSlots, &count};
  auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  return DTC_CUDA_CALL(driver, cuLaunchKernel, kernel->second, blocks, 1, 1, kThreads, 1, 1, 0,
                       stream, parameters, nullptr);
}

} // namespace dtc::rt::cuda
