// Each family of instructions against the same computation on the host, lane by lane.
#include "EmulatedDevice.h"

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

namespace dtc::emulator::test {

namespace {

/// Three operands of an instruction, as 64 bits of which it takes the low ones.
struct Inputs {
  uint64_t a, b, c;
};

template <typename T> T as(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

template <typename T> uint64_t bitsOf(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

uint16_t toBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  return std::isnan(value) ? 0x7fff
                           : static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
float fromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }
uint16_t toF16(float value) {
  return std::isnan(value) ? 0x7fff : std::bit_cast<uint16_t>(static_cast<_Float16>(value));
}
float fromF16(uint16_t bits) { return static_cast<float>(std::bit_cast<_Float16>(bits)); }

/// Runs instructions on lanes of interesting values. Operands are %r10 to %r12, and likewise %rd,
/// %rs, %f and %fd; the result is number 20 of a kind.
class InstructionTest : public EmulatedDevice {
protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    std::vector<uint64_t> values = {0,
                                    1,
                                    2,
                                    ~uint64_t(0),
                                    0x80000000,
                                    0x8000000000000000,
                                    0x7fffffff,
                                    31,
                                    33,
                                    bitsOf(1.5f),
                                    bitsOf(-2.25f),
                                    bitsOf(0.1f),
                                    bitsOf(-0.0f),
                                    bitsOf(1e-40f),
                                    bitsOf(std::numeric_limits<float>::infinity()),
                                    0x7fc00000,
                                    bitsOf(3e9f),
                                    bitsOf(2.5f),
                                    bitsOf(1.5),
                                    bitsOf(-1e300),
                                    0x3fc03f80,
                                    0xc0004049,
                                    0x3c0042ab};
    uint64_t state = 88172645463325252u;
    auto random = [&] {
      state ^= state << 13;
      state ^= state >> 7;
      return state ^= state << 17;
    };
    while (values.size() < 64)
      values.push_back(random());
    for (size_t i = 0; i < 256; ++i)
      inputs.push_back({values[random() % 64], values[i % 64], values[random() % 64]});
  }

  /// Makes all inputs hold floats of a range.
  void useFloats(float low, float high) {
    uint64_t n = 0;
    for (Inputs &input : inputs)
      for (uint64_t *field : {&input.a, &input.b, &input.c}) {
        n = (n * 5 + 3) % 1021;
        *field = bitsOf(low + (high - low) * static_cast<float>(n) / 1021.0f);
      }
  }

  void expect(const std::string &instructions, const std::string &result,
              const std::function<uint64_t(const Inputs &)> &host, double tolerance = 0) {
    std::string store = result == "%rd20"   ? ""
                        : result == "%r20"  ? "cvt.u64.u32 %rd20, %r20;"
                        : result == "%rs20" ? "cvt.u64.u16 %rd20, %rs19;"
                        : result == "%f20"  ? "mov.b32 %r20, %f19;\n cvt.u64.u32 %rd20, %r20;"
                                            : "mov.b64 %rd20, %fd19;";
    CUfunction function = kernel(
        R"(
  mul.wide.u32 %rd4, %r1, 24;
  add.s64 %rd5, %rd1, %rd4;
  ld.global.u64 %rd10, [%rd5];
  ld.global.u64 %rd11, [%rd5+8];
  ld.global.u64 %rd12, [%rd5+16];
  cvt.u32.u64 %r10, %rd10;  cvt.u32.u64 %r11, %rd11;  cvt.u32.u64 %r12, %rd12;
  cvt.u16.u64 %rs10, %rd10; cvt.u16.u64 %rs11, %rd11; cvt.u16.u64 %rs12, %rd12;
  mov.b32 %f10, %r10;       mov.b32 %f11, %r11;       mov.b32 %f12, %r12;
  mov.b64 %fd10, %rd10;     mov.b64 %fd11, %rd11;     mov.b64 %fd12, %rd12;
)" + instructions +
        "\n" + store +
        "\n mul.wide.u32 %rd6, %r1, 8;\n add.s64 %rd7, %rd2, %rd6;\n st.global.u64 [%rd7], %rd20;");
    CUdeviceptr from = upload(inputs), to = allocate(inputs.size() * 8);
    ASSERT_EQ(launch(function, 1, static_cast<unsigned>(inputs.size()), {from, to}), CUDA_SUCCESS)
        << instructions;
    std::vector<uint64_t> values = download<uint64_t>(to, inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      uint64_t expected = host(inputs[i]);
      if (values[i] == expected)
        continue;
      float got = as<float>(values[i]), want = as<float>(expected);
      bool isClose = tolerance > 0 && std::abs(got - want) <= tolerance * std::abs(want);
      bool isNan = (result == "%f20" && std::isnan(got) && std::isnan(want)) ||
                   (result == "%fd20" && std::isnan(as<double>(values[i])) &&
                    std::isnan(as<double>(expected)));
      ASSERT_TRUE(isClose || isNan)
          << instructions << " of " << std::hex << inputs[i].a << ", " << inputs[i].b << ", "
          << inputs[i].c << " gives " << values[i] << " instead of " << expected;
    }
  }

  std::vector<Inputs> inputs;
};

#define EXPECT_RESULT(instructions, result, type, expression)                                      \
  expect(instructions, result, [](const Inputs &in) -> uint64_t {                                  \
    [[maybe_unused]] auto a = as<type>(in.a), b = as<type>(in.b), c = as<type>(in.c);              \
    return bitsOf(expression);                                                                     \
  })

TEST_F(InstructionTest, IntegerArithmetic) {
  EXPECT_RESULT("add.s32 %r20, %r10, %r11;", "%r20", uint32_t, a + b);
  EXPECT_RESULT("sub.s64 %rd20, %rd10, %rd11;", "%rd20", uint64_t, a - b);
  EXPECT_RESULT("mul.lo.s32 %r20, %r10, %r11;", "%r20", uint32_t, a *b);
  EXPECT_RESULT("mul.hi.u32 %r20, %r10, %r11;", "%r20", uint32_t, uint32_t(uint64_t(a) * b >> 32));
  EXPECT_RESULT("mul.hi.s64 %rd20, %rd10, %rd11;", "%rd20", int64_t,
                int64_t(__int128(a) * b >> 64));
  EXPECT_RESULT("mul.wide.s32 %rd20, %r10, %r11;", "%rd20", int32_t, int64_t(a) * b);
  EXPECT_RESULT("mad.lo.s32 %r20, %r10, %r11, %r12;", "%r20", uint32_t, a *b + c);
  EXPECT_RESULT("mad.wide.u32 %rd20, %r10, %r11, %rd12;", "%rd20", uint64_t,
                uint64_t(uint32_t(a)) * uint32_t(b) + c);
  EXPECT_RESULT("min.s32 %r20, %r10, %r11;", "%r20", int32_t, std::min(a, b));
  EXPECT_RESULT("max.u64 %rd20, %rd10, %rd11;", "%rd20", uint64_t, std::max(a, b));
  EXPECT_RESULT("neg.s32 %r20, %r10;", "%r20", uint32_t, 0 - a);
  EXPECT_RESULT("abs.s32 %r20, %r10;", "%r20", int32_t, uint32_t(a < 0 ? 0 - uint32_t(a) : a));
  EXPECT_RESULT("or.b32 %r21, %r11, 1;\n div.s32 %r20, %r10, %r21;", "%r20", int32_t,
                int32_t(int64_t(a) / (b | 1)));
  EXPECT_RESULT("or.b64 %rd21, %rd11, 1;\n rem.u64 %rd20, %rd10, %rd21;", "%rd20", uint64_t,
                a % (b | 1));
  EXPECT_RESULT("add.s16 %rs19, %rs10, -3;", "%rs20", uint16_t, uint16_t(a - 3));
}

TEST_F(InstructionTest, BitsAndShifts) {
  EXPECT_RESULT("and.b32 %r20, %r10, %r11;", "%r20", uint32_t, a &b);
  EXPECT_RESULT("xor.b64 %rd20, %rd10, %rd11;", "%rd20", uint64_t, a ^ b);
  EXPECT_RESULT("not.b32 %r20, %r10;", "%r20", uint32_t, ~a);
  EXPECT_RESULT("shl.b32 %r20, %r10, %r11;", "%r20", uint32_t, b > 31 ? 0u : a << b);
  EXPECT_RESULT("shr.u64 %rd20, %rd10, %r11;", "%rd20", uint64_t,
                uint32_t(b) > 63 ? 0 : a >> uint32_t(b));
  EXPECT_RESULT("shr.s32 %r20, %r10, %r11;", "%r20", int32_t, a >> std::min(uint32_t(b), 31u));
  EXPECT_RESULT("shf.l.wrap.b32 %r20, %r10, %r11, %r12;", "%r20", uint32_t,
                uint32_t((uint64_t(b) << 32 | a) << (c & 31) >> 32));
  EXPECT_RESULT("shf.r.wrap.b32 %r20, %r10, %r11, %r12;", "%r20", uint32_t,
                uint32_t((uint64_t(b) << 32 | a) >> (c & 31)));
  EXPECT_RESULT("popc.b64 %r20, %rd10;", "%r20", uint64_t, uint32_t(std::popcount(a)));
  EXPECT_RESULT("clz.b32 %r20, %r10;", "%r20", uint32_t, uint32_t(std::countl_zero(a)));
  EXPECT_RESULT("bfe.u32 %r20, %r10, 4, 9;", "%r20", uint32_t, a >> 4 & 511);
  EXPECT_RESULT("bfe.s32 %r20, %r10, 4, 9;", "%r20", int32_t, int32_t(uint32_t(a) << 19) >> 23);
  EXPECT_RESULT("prmt.b32 %r20, %r10, %r11, 0x5410;", "%r20", uint32_t, (a & 0xffff) | b << 16);
  EXPECT_RESULT("mov.b32 {%rs18, %rs19}, %r10;", "%rs20", uint32_t, uint16_t(a >> 16));
  EXPECT_RESULT("mov.b64 %rd20, {%r11, %r10};", "%rd20", uint32_t, uint64_t(a) << 32 | b);
}

TEST_F(InstructionTest, FloatArithmetic) {
  EXPECT_RESULT("add.rn.f32 %f19, %f10, %f11;", "%f20", float, a + b);
  EXPECT_RESULT("sub.f32 %f19, %f10, %f11;", "%f20", float, a - b);
  EXPECT_RESULT("mul.f32 %f19, %f10, 0f3FC00000;", "%f20", float, a * 1.5f);
  EXPECT_RESULT("div.rn.f32 %f19, %f10, %f11;", "%f20", float, a / b);
  EXPECT_RESULT("fma.rn.f32 %f19, %f10, %f11, %f12;", "%f20", float, std::fma(a, b, c));
  EXPECT_RESULT("fma.rn.f64 %fd19, %fd10, %fd11, %fd12;", "%fd20", double, std::fma(a, b, c));
  EXPECT_RESULT("sqrt.rn.f32 %f19, %f10;", "%f20", float, std::sqrt(a));
  EXPECT_RESULT("rcp.rn.f32 %f19, %f10;", "%f20", float, 1 / a);
  EXPECT_RESULT("neg.f32 %f19, %f10;", "%f20", float, -a);
  EXPECT_RESULT("abs.f64 %fd19, %fd10;", "%fd20", double, std::fabs(a));
  EXPECT_RESULT("min.f32 %f19, %f10, %f11;", "%f20", float,
                std::isnan(a)   ? b
                : std::isnan(b) ? a
                : a == b        ? (std::signbit(a) ? a : b)
                                : std::min(a, b));
  EXPECT_RESULT("max.NaN.f32 %f19, %f10, %f11;", "%f20", float,
                std::isnan(a) || std::isnan(b) ? NAN
                : a == b                       ? (std::signbit(a) ? b : a)
                                               : std::max(a, b));
  EXPECT_RESULT("copysign.f32 %f19, %f10, %f11;", "%f20", float, std::copysign(b, a));
}

TEST_F(InstructionTest, Approximations) {
  useFloats(0.125f, 6);
  auto close = [&](const std::string &name, float (*function)(float)) {
    expect(
        name + " %f19, %f10;", "%f20",
        [=](const Inputs &in) { return bitsOf(function(as<float>(in.a))); }, 1e-6);
  };
  close("ex2.approx.f32", [](float x) { return std::exp2(x); });
  close("ex2.approx.ftz.f32", [](float x) { return std::exp2(x); });
  close("rcp.approx.ftz.f32", [](float x) { return 1 / x; });
  EXPECT_RESULT("rcp.approx.ftz.f32 %f19, 0f00000001;", "%f20", float,
                std::numeric_limits<float>::infinity());
}

TEST_F(InstructionTest, Comparisons) {
  std::string select = "selp.b32 %r20, 1, 0, %p1;";
  EXPECT_RESULT("setp.lt.s32 %p1, %r10, %r11;\n" + select, "%r20", int32_t, uint32_t(a < b));
  EXPECT_RESULT("setp.gt.u32 %p1, %r10, %r11;\n" + select, "%r20", uint32_t, uint32_t(a > b));
  EXPECT_RESULT("setp.eq.b64 %p1, %rd10, %rd11;\n" + select, "%r20", uint64_t, uint32_t(a == b));
  EXPECT_RESULT("setp.lt.f32 %p1, %f10, %f11;\n" + select, "%r20", float, uint32_t(a < b));
  EXPECT_RESULT("setp.geu.f32 %p1, %f10, %f11;\n" + select, "%r20", float, uint32_t(!(a < b)));
  EXPECT_RESULT("setp.ne.f32 %p1, %f10, %f11;\n" + select, "%r20", float,
                uint32_t(!std::isnan(a) && !std::isnan(b) && a != b));
  EXPECT_RESULT("setp.nan.f64 %p1, %fd10, %fd10;\n" + select, "%r20", double,
                uint32_t(std::isnan(a)));
  EXPECT_RESULT("setp.num.f32 %p1, %f10, %f11;\n" + select, "%r20", float,
                uint32_t(!std::isnan(a) && !std::isnan(b)));
  EXPECT_RESULT("setp.gt.f16 %p1, %rs10, %rs11;\n" + select, "%r20", uint16_t,
                uint32_t(fromF16(a) > fromF16(b)));
  EXPECT_RESULT(
      "setp.gt.s32 %p1, %r10, 0;\n setp.gt.s32 %p2, %r11, 0;\n xor.pred %p1, %p1, %p2;\n" + select,
      "%r20", int32_t, uint32_t((a > 0) != (b > 0)));
}

TEST_F(InstructionTest, IntegerConversions) {
  EXPECT_RESULT("cvt.s64.s32 %rd20, %r10;", "%rd20", int32_t, int64_t(a));
  EXPECT_RESULT("cvt.s32.s8 %r20, %r10;", "%r20", int8_t, int32_t(a));
  EXPECT_RESULT("cvt.s8.s32 %rs19, %r10;", "%rs20", int32_t, uint16_t(int8_t(a)));
  EXPECT_RESULT("cvt.s8.s64 %rs19, %rd10;", "%rs20", int64_t, uint16_t(int8_t(a)));
  EXPECT_RESULT("cvt.s64.s16 %rd20, %rd10;", "%rd20", int16_t, int64_t(a));
  EXPECT_RESULT("cvt.u32.u16 %r20, %rs10;", "%r20", uint16_t, uint32_t(a));
  EXPECT_RESULT("cvt.s32.s16 %r20, %rs10;", "%r20", int16_t, int32_t(a));
  EXPECT_RESULT("cvt.rn.f32.s32 %f19, %r10;", "%f20", int32_t, float(a));
  EXPECT_RESULT("cvt.rn.f32.u64 %f19, %rd10;", "%f20", uint64_t, float(a));
  EXPECT_RESULT("cvt.rn.f64.s64 %fd19, %rd10;", "%fd20", int64_t, double(a));
}

template <typename T> T clamped(double value) {
  if (std::isnan(value))
    return 0;
  return static_cast<T>(std::clamp<double>(value, double(std::numeric_limits<T>::min()),
                                           double(std::numeric_limits<T>::max())));
}

TEST_F(InstructionTest, FloatConversions) {
  EXPECT_RESULT("cvt.rzi.s32.f32 %r20, %f10;", "%r20", float, clamped<int32_t>(std::trunc(a)));
  EXPECT_RESULT("cvt.rzi.u16.f32 %rs19, %f10;", "%rs20", float, clamped<uint16_t>(std::trunc(a)));
  EXPECT_RESULT("cvt.rmi.f32.f32 %f19, %f10;", "%f20", float, std::floor(a));
  EXPECT_RESULT("cvt.rpi.f32.f32 %f19, %f10;", "%f20", float, std::ceil(a));
  EXPECT_RESULT("cvt.rni.f32.f32 %f19, %f10;", "%f20", float, std::nearbyint(a));
  EXPECT_RESULT("cvt.f64.f32 %fd19, %f10;", "%fd20", float, double(a));
  EXPECT_RESULT("cvt.rn.f32.f64 %f19, %fd10;", "%f20", double, float(a));
}

TEST_F(InstructionTest, HalfConversions) {
  EXPECT_RESULT("cvt.rn.bf16.f32 %rs19, %f10;", "%rs20", float, toBf16(a));
  EXPECT_RESULT("cvt.rn.f16.f32 %rs19, %f10;", "%rs20", float, toF16(a));
  EXPECT_RESULT("cvt.f32.bf16 %f19, %rs10;", "%f20", uint16_t, fromBf16(a));
  EXPECT_RESULT("cvt.f32.f16 %f19, %rs10;", "%f20", uint16_t, fromF16(a));
  EXPECT_RESULT("cvt.rn.bf16x2.f32 %r20, %f10, %f11;", "%r20", float,
                uint32_t(toBf16(a)) << 16 | toBf16(b));
  EXPECT_RESULT("cvt.rn.f16x2.f32 %r20, %f10, %f11;", "%r20", float,
                uint32_t(toF16(a)) << 16 | toF16(b));
  EXPECT_RESULT("cvt.rn.f16.s32 %rs19, %r10;", "%rs20", int32_t, toF16(float(a)));
  EXPECT_RESULT("cvt.rni.f16.f16 %rs19, %rs10;", "%rs20", uint16_t,
                toF16(std::nearbyint(fromF16(a))));
  EXPECT_RESULT("cvt.rmi.f16.f16 %rs19, %rs10;", "%rs20", uint16_t, toF16(std::floor(fromF16(a))));
}

TEST_F(InstructionTest, HalfArithmetic) {
  EXPECT_RESULT("mul.rn.f16 %rs19, %rs10, %rs11;", "%rs20", uint16_t,
                toF16(fromF16(a) * fromF16(b)));
  EXPECT_RESULT("neg.bf16 %rs19, %rs10;", "%rs20", uint16_t, uint16_t(a ^ 0x8000));
  EXPECT_RESULT("abs.f16 %rs19, %rs10;", "%rs20", uint16_t, uint16_t(a & 0x7fff));
  EXPECT_RESULT("fma.rn.bf16 %rs19, %rs10, %rs11, %rs12;", "%rs20", uint16_t,
                toBf16(float(double(fromBf16(a)) * fromBf16(b) + fromBf16(c))));
  EXPECT_RESULT("max.NaN.f16 %rs19, %rs10, %rs11;", "%rs20", uint16_t,
                toF16(std::isnan(fromF16(a)) || std::isnan(fromF16(b)) ? NAN
                      : fromF16(a) == fromF16(b)
                          ? (std::signbit(fromF16(a)) ? fromF16(b) : fromF16(a))
                          : std::max(fromF16(a), fromF16(b))));
}

TEST_F(InstructionTest, MemoryOfAllWidths) {
  // %rd5 is the address of this lane's 24 bytes.
  EXPECT_RESULT("ld.global.s8 %r20, [%rd5+3];", "%r20", uint64_t, int32_t(int8_t(a >> 24)));
  EXPECT_RESULT("ld.global.u8 %rs19, [%rd5+1];", "%rs20", uint64_t, uint16_t(uint8_t(a >> 8)));
  EXPECT_RESULT("ld.global.s16 %rd20, [%rd5+6];", "%rd20", uint64_t, int64_t(int16_t(a >> 48)));
  EXPECT_RESULT("ld.global.nc.v2.u32 {%r19, %r20}, [%rd5+8];", "%r20", uint64_t, uint32_t(b >> 32));
  EXPECT_RESULT("ld.global.v4.u16 {%rs17, %rs18, %rs19, %rs16}, [%rd5+16];", "%rs20", uint64_t,
                uint16_t(c >> 32));
  // Through shared memory, which other lanes read.
  EXPECT_RESULT(
      "mov.u64 %rd21, buffer;\n and.b32 %r21, %r1, 31;\n setp.ge.u32 %p1, %r1, 32;\n "
      "@%p1 bra skip;\n"
      "mul.wide.u32 %rd22, %r21, 8;\n add.s64 %rd23, %rd21, %rd22;\n"
      "st.shared.v2.u32 [%rd23], {%r10, %r11};\n bar.warp.sync -1;\n ld.shared.u64 %rd20, "
      "[%rd23];\n bra done;\n"
      "skip: mov.b64 %rd20, {%r10, %r11};\ndone:",
      "%rd20", uint32_t, uint64_t(b) << 32 | a);
}

TEST_F(InstructionTest, WarpsTogether) {
  auto lanes = [&](const std::string &instructions, const std::function<uint32_t(uint32_t)> &host) {
    CUdeviceptr to = allocate(32 * 4);
    CUfunction function =
        kernel(instructions + "\n mul.wide.u32 %rd4, %r1, 4;\n add.s64 %rd5, %rd1, %rd4;\n"
                              "st.global.u32 [%rd5], %r20;");
    ASSERT_EQ(launch(function, 1, 32, {to}), CUDA_SUCCESS);
    std::vector<uint32_t> values = download<uint32_t>(to, 32);
    for (uint32_t lane = 0; lane < 32; ++lane)
      ASSERT_EQ(values[lane], host(lane)) << instructions << ", lane " << lane;
  };
  lanes("shfl.sync.bfly.b32 %r20, %r1, 5, 31, -1;", [](uint32_t lane) { return lane ^ 5; });
  lanes("shfl.sync.bfly.b32 %r20, %r1, 12, 0x1807, -1;",
        [](uint32_t lane) { return (lane ^ 12) > (lane | 7) ? lane : lane ^ 12; });
  lanes("setp.lt.u32 %p1, %r1, 9;\n vote.sync.ballot.b32 %r20, %p1, -1;",
        [](uint32_t) { return 0x1ffu; });
  lanes("and.b32 %r2, %r1, 3;\n match.any.sync.b32 %r20, %r2, -1;",
        [](uint32_t lane) { return 0x11111111u << (lane & 3); });
}

} // namespace
} // namespace dtc::emulator::test
