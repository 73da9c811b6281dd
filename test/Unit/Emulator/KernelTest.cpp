// Kernels as LLVM emits them, against the same computation on the host.
#include "EmulatedDevice.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace dtc::emulator::test {

namespace {

uint16_t toBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float fromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

class KernelTest : public EmulatedDevice {};

TEST_F(KernelTest, Elementwise) {
  std::vector<float> x(4 * 96 * 3);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(i % 17) - 8;
  CUdeviceptr input = upload(x), output = allocate(x.size() * 4);
  ASSERT_EQ(launch(load(readPtx("kernels.ptx"), "elementwise"), 3, 96, {input, output}),
            CUDA_SUCCESS);
  std::vector<float> y = download<float>(output, x.size());
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(y[i], x[i] > 0 ? 2 * x[i] + 1 : -x[i]) << i;
}

TEST_F(KernelTest, RowSumThroughShufflesAndSharedMemory) {
  std::vector<uint16_t> x(3 * 1000);
  std::vector<float> expected(3, 0);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = toBf16(static_cast<float>(i % 13));
    expected[i / 1000] += fromBf16(x[i]);
  }
  CUdeviceptr input = upload(x), output = allocate(3 * 4);
  ASSERT_EQ(launch(load(readPtx("kernels.ptx"), "row_sum"), 3, 128, {input, output}), CUDA_SUCCESS);
  EXPECT_EQ(download<float>(output, 3), expected);
}

TEST_F(KernelTest, DivergingLoops) {
  std::vector<uint16_t> x(64), expected(64);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = toBf16(static_cast<float>(i % 5) * 0.75f);
    float v = fromBf16(x[i]);
    for (size_t k = 0; k < (i & 7); ++k)
      v = v > 2 ? v * 0.5f : std::exp2(v);
    expected[i] = toBf16(v);
  }
  CUdeviceptr input = upload(x), output = allocate(x.size() * 2);
  ASSERT_EQ(launch(load(readPtx("kernels.ptx"), "diverging"), 1, 64, {input, output}),
            CUDA_SUCCESS);
  EXPECT_EQ(download<uint16_t>(output, x.size()), expected);
}

TEST_F(KernelTest, TableOfBranches) {
  std::vector<int> expected(64);
  for (int t = 0; t < 64; ++t) {
    int cases[] = {10, t * 3, t / 3, t ^ 85, t + 1000, t << 4, -1, -1};
    expected[t] = cases[t & 7];
  }
  CUdeviceptr output = allocate(64 * 4);
  ASSERT_EQ(launch(load(readPtx("kernels.ptx"), "switching"), 1, 64, {output}), CUDA_SUCCESS);
  EXPECT_EQ(download<int>(output, 64), expected);
}

} // namespace
} // namespace dtc::emulator::test
