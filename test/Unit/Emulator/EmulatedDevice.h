// What the tests of the emulator share: a device, buffers, and kernels from PTX text.
#pragma once

#include "Emulator/Driver/Context.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace dtc::emulator::test {

using namespace dtc::cuda;

/// A stream on a device that no other test of the process has used: one that was broken stays
/// broken, as true ones do.
class EmulatedDevice : public ::testing::Test {
protected:
  void SetUp() override;
  void TearDown() override;

  CUdeviceptr allocate(size_t bytes);

  template <typename T> CUdeviceptr upload(const std::vector<T> &values) {
    CUdeviceptr address = allocate(values.size() * sizeof(T));
    EXPECT_EQ(cuMemcpyHtoDAsync_v2(address, values.data(), values.size() * sizeof(T), stream),
              CUDA_SUCCESS);
    return address;
  }

  template <typename T> std::vector<T> download(CUdeviceptr address, size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(cuMemcpyDtoHAsync_v2(values.data(), address, count * sizeof(T), stream),
              CUDA_SUCCESS);
    return values;
  }

  /// A kernel of a module of PTX text.
  CUfunction load(const std::string &text, const char *name);

  /// A kernel `test` with the given body, three .u64 parameters in %rd1 to %rd3, and thread x in
  /// %r1.
  CUfunction kernel(const std::string &body);

  CUresult launch(CUfunction function, unsigned blocks, unsigned threads,
                  std::vector<CUdeviceptr> arguments, unsigned sharedBytes = 0,
                  CUstream on = nullptr);

  CUstream stream = nullptr;
};

/// The committed PTX of kernels.ll.
std::string readPtx(const std::string &name);

} // namespace dtc::emulator::test
