// Kernels of GPUs against published measurements, and their limits.
#include "dtc/Plan/Cost/CostModel.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace dtc::plan;

static LocalWork product(int64_t m, int64_t n, int64_t k, int64_t batch = 1) {
  LocalWork work;
  work.type = DType::BF16;
  work.batch = batch;
  work.m = m;
  work.n = n;
  work.k = k;
  work.flops = 2.0 * double(batch) * double(m) * double(n) * double(k);
  work.bytes = 2.0 * double(batch) * double(m * k + k * n + m * n);
  return work;
}

static double tflops(const CostModel &model, const LocalWork &work) {
  return work.flops / model.opSeconds(work) / 1e12;
}

/// The rate of a kernel timed alone, launch included, at the clock that the device
/// reaches then.
static double tflopsAlone(const CostModel &model, const LocalWork &work,
                          double launchSeconds = 0) {
  double share = sustainedShare(model.getCluster().device.architecture);
  double seconds = share * model.opSeconds(work) + launchSeconds;
  return work.flops / seconds / 1e12;
}

static CostModel modelOf(const std::string &name) { return CostModel(*loadCluster(name), 8); }

// stas00/ml-engineering, MAMF: the best bf16 product over a search of shapes; of
// the H200, 8192 cubed in PyTorch.
TEST(KernelModel, BestProducts) {
  auto expect = [](const char *cluster, const LocalWork &work, double measured) {
    EXPECT_NEAR(tflopsAlone(modelOf(cluster), work) / measured, 1, 0.08) << cluster;
  };
  expect("a100-80", product(1024, 10240, 5120), 271.2);
  expect("h100", product(2048, 2048, 13312), 794.5);
  expect("h200", product(8192, 8192, 8192), 788);
  expect("b200", product(1792, 16128, 3072), 1745);
  expect("b300", product(12288, 18432, 1024), 1769);
  expect("gb200", product(4096, 9728, 2048), 1822);
}

TEST(KernelModel, ProductsKeepAShareOfTheirRateWithinSteps) {
  auto share = [](const char *name) {
    CostModel model = modelOf(name);
    const DeviceSpec &device = model.getCluster().device;
    return tflops(model, product(8192, 8192, 8192)) / (device.achieved.at(DType::BF16) / 1e12);
  };
  EXPECT_NEAR(share("a100-80"), 0.87, 0.005);
  EXPECT_NEAR(share("h100"), 0.80, 0.005);
  EXPECT_NEAR(share("b200"), 0.80, 0.005);
}

// NVIDIA's figure of cuBLAS on an A100, read off the plot (+-5), each product
// launched and timed alone. Rates are at the clock that the device keeps up:
// MAMF's best is 271.2 where the plot's is 291.
TEST(KernelModel, SquareProductsOfAnA100) {
  CostModel model = modelOf("a100-80");
  constexpr double clock = 271.2 / 291;
  double sum = 0, worst = 0;
  const std::vector<std::pair<int64_t, double>> points = {
      {512, 28},   {768, 64},   {1024, 88},  {1280, 152}, {1536, 148}, {1792, 202}, {2048, 195},
      {2304, 244}, {3072, 235}, {4096, 260}, {5120, 262}, {6144, 278}, {8192, 291}};
  for (auto [size, measured] : points) {
    double rate = tflopsAlone(model, product(size, size, size), model.device().launchSeconds);
    double error = std::abs(rate / (clock * measured) - 1);
    sum += error;
    worst = std::max(worst, error);
  }
  EXPECT_LT(sum / double(points.size()), 0.06);
  EXPECT_LT(worst, 0.2);
}

TEST(KernelModel, UnfinishedWavesCost) {
  CostModel model = modelOf("a100-80");
  // 108 multiprocessors: 9 x 12 tiles of 128 x 256 are one wave, one more tile two.
  double full = tflops(model, product(9 * 128, 12 * 256, 4096));
  double over = tflops(model, product(11 * 128, 10 * 256, 4096));
  EXPECT_GT(full, 1.3 * over);
  EXPECT_GT(full, 225);
}

TEST(KernelModel, SkinnyProductsAreSlow) {
  CostModel model = modelOf("h100");
  double large = tflops(model, product(8192, 8192, 8192));
  EXPECT_LT(tflops(model, product(8192, 8192, 64)), 0.5 * large) << "writing the result counts";
  EXPECT_LT(tflops(model, product(16, 8192, 8192)), 0.1 * large) << "reading the weight counts";
  // A gradient with a long sum over few tiles is split along k.
  EXPECT_GT(tflops(model, product(512, 512, 65536)), 0.5 * large);
  // Many small ones fill the device together.
  EXPECT_GT(tflops(model, product(512, 512, 512, 64)), 5 * tflops(model, product(512, 512, 512)));
}

TEST(KernelModel, TimeGrowsWithEverySize) {
  CostModel model = modelOf("h100");
  for (int64_t size : {64, 100, 512, 1000, 4096})
    for (int64_t other : {64, 777, 8192}) {
      double before = model.opSeconds(product(size, other, other));
      EXPECT_LE(before, model.opSeconds(product(size + 64, other, other)));
      EXPECT_LE(model.opSeconds(product(other, other, size)),
                model.opSeconds(product(other, other, size + 64)));
      EXPECT_LE(before, model.opSeconds(product(size, other, other, 2)));
      EXPECT_GT(model.opSeconds(product(size, other, other)),
                product(size, other, other).flops / model.peakFlops(DType::BF16));
    }
}

TEST(KernelModel, StreamsReachTheBandwidthWhenLong) {
  CostModel model = modelOf("a100-80");
  auto share = [&](double bytes) { return bytes / model.streamSeconds(bytes) / 2039e9; };
  EXPECT_LT(share(1e5), 0.05);
  EXPECT_LT(share(1e6), share(1e7));
  EXPECT_LT(share(1e7), share(1e9));
  EXPECT_NEAR(share(1e10), 0.9, 0.01);
}

static LocalWork attention(int64_t heads, int64_t length, int64_t size, bool causal,
                           bool backward) {
  LocalWork work;
  work.type = DType::BF16;
  work.attention = true;
  work.batch = heads;
  work.m = work.n = length;
  work.k = size;
  work.causal = causal;
  work.backward = backward;
  work.bytes = (backward ? 16.0 : 8.0) * double(heads * length * size);
  work.flops = (backward ? 10.0 : 4.0) * double(heads * length) * double(length * size);
  return work;
}

static CostModel withFlash(const char *name, int version) {
  Cluster cluster = *loadCluster(name);
  cluster.software.flashAttention = version;
  return CostModel(cluster, 8);
}

// FlashAttention-2 (Dao 2023): up to 225 TFLOP/s on an A100; FlashAttention-3
// (Shah et al. 2024): up to 740 forward on an H100, 2 about 370.
TEST(KernelModel, FusedAttentionByVersionAndDevice) {
  LocalWork forward = attention(64, 16384, 128, false, false);
  EXPECT_NEAR(tflopsAlone(withFlash("a100-80", 2), forward), 220, 20);
  // Half idle, it isn't held up by power: as fast within steps as alone.
  EXPECT_NEAR(tflops(withFlash("h100", 2), forward), 365, 30);
  EXPECT_NEAR(tflopsAlone(withFlash("h100", 3), forward), 690, 60);
  EXPECT_LT(tflops(withFlash("a100-80", 1), forward), 140);
  EXPECT_EQ(tflops(withFlash("a100-80", 3), forward), tflops(withFlash("a100-80", 2), forward));
  EXPECT_LT(tflops(withFlash("h100", 3), attention(64, 16384, 128, false, true)),
            tflops(withFlash("h100", 3), forward));
}

TEST(KernelModel, CausalAttentionSkipsHalf) {
  CostModel model = withFlash("h100", 3);
  double all = model.opSeconds(attention(64, 8192, 128, false, false));
  double half = model.opSeconds(attention(64, 8192, 128, true, false));
  EXPECT_NEAR(half / all, 0.51, 0.02);
}

/// Of 64 blocks of keys those of a query's window: its own and the one before it.
TEST(KernelModel, AttentionInAWindowSkipsWhatLiesBefore) {
  CostModel model = withFlash("h100", 3);
  LocalWork work = attention(64, 8192, 128, true, false);
  double all = model.opSeconds(attention(64, 8192, 128, false, false));
  work.bytes = 0;
  work.window = 128;
  EXPECT_NEAR(model.opSeconds(work) / all, 2.0 / 64, 0.003);
  work.window = 1024;
  EXPECT_NEAR(model.opSeconds(work) / all, 9.0 / 64, 0.003);
  work.window = 8192;
  EXPECT_NEAR(model.opSeconds(work) / all, 0.51, 0.02);
}

TEST(KernelModel, UnfusedAttentionPassesItsScoresThroughMemory) {
  CostModel fused = withFlash("a100-80", 2), apart = withFlash("a100-80", 0);
  for (bool backward : {false, true}) {
    LocalWork work = attention(64, 2048, 128, true, backward);
    double scores = 64.0 * 2048 * 2048 * 2;
    EXPECT_GT(apart.opSeconds(work), 4 * scores / 2039e9);
    EXPECT_GT(apart.opSeconds(work), 1.5 * fused.opSeconds(work));
  }
  Cluster cluster = apart.getCluster();
  cluster.software.fusedSoftmax = false;
  LocalWork work = attention(64, 2048, 128, true, false);
  EXPECT_GT(CostModel(cluster, 8).opSeconds(work), 1.5 * apart.opSeconds(work));
}

/// ALiBi's, copied to where the product adds to it (`torch.baddbmm`): written and read once.
TEST(KernelModel, WhatIsAddedToScoresPassesThroughMemory) {
  CostModel apart = withFlash("a100-80", 0);
  LocalWork work = attention(64, 2048, 128, true, false);
  double without = apart.opSeconds(work), scores = 64.0 * 2048 * 2048 * 2;
  work.biased = true;
  EXPECT_NEAR(apart.opSeconds(work) - without, 2 * scores / (0.9 * 2039e9), 3e-6);
}

/// Megatron-LM's kernel takes multiples of 4.
TEST(KernelModel, SomeSoftmaxKernelsTakeMultiplesOfHeads) {
  CostModel any = withFlash("a100-80", 0);
  Cluster cluster = any.getCluster();
  cluster.software.softmaxMultiple = 4;
  CostModel some(cluster, 8);
  cluster.software.fusedSoftmax = false;
  CostModel none(cluster, 8);
  for (bool backward : {false, true}) {
    LocalWork four = attention(4, 2048, 128, true, backward);
    LocalWork two = attention(2, 2048, 128, true, backward);
    EXPECT_EQ(some.opSeconds(four), any.opSeconds(four));
    EXPECT_EQ(some.opSeconds(two), none.opSeconds(two));
    EXPECT_GT(some.opSeconds(two), any.opSeconds(two));
  }
}

TEST(KernelModel, Fp16WithoutARateHasThatOfBf16) {
  Cluster cluster = *loadCluster("a100-80");
  CostModel whole(cluster, 8);
  cluster.device.peak.erase(DType::F16);
  cluster.device.achieved.erase(DType::F16);
  CostModel partly(cluster, 8);
  LocalWork work = product(4096, 4096, 4096);
  double bf16 = partly.opSeconds(work);
  work.type = DType::F16;
  EXPECT_EQ(partly.peakFlops(DType::F16), partly.peakFlops(DType::BF16));
  EXPECT_EQ(partly.opSeconds(work), bf16);
  EXPECT_EQ(whole.opSeconds(work), bf16);
  CostModel volta = modelOf("v100"); // has its own rate, and none of bf16
  EXPECT_GT(volta.peakFlops(DType::F16), 4 * volta.peakFlops(DType::F32));
}

TEST(KernelModel, OnlyEagerProgramsTakeTheHostsTime) {
  Cluster cluster = *loadCluster("h100");
  CostModel compiled(cluster, 8);
  cluster.software.compiled = false;
  CostModel eager(cluster, 8);
  LocalWork work = product(64, 64, 64);
  EXPECT_EQ(eager.opSeconds(work), compiled.opSeconds(work));
  EXPECT_EQ(compiled.hostSeconds(10), 0);
  EXPECT_GT(eager.hostSeconds(1), 10 * cluster.device.launchSeconds);
  EXPECT_EQ(eager.hostSeconds(10), 10 * eager.hostSeconds(1));
}

TEST(KernelModel, DropoutPassesOverScoresOnceMore) {
  Cluster cluster = *loadCluster("a100-80");
  cluster.software.flashAttention = 0;
  CostModel plain(cluster, 8);
  cluster.software.dropout = true;
  CostModel drops(cluster, 8);
  for (bool backward : {false, true}) {
    LocalWork work = attention(64, 2048, 128, true, backward);
    double scores = 64.0 * 2048 * 2048;
    EXPECT_NEAR(drops.opSeconds(work) - plain.opSeconds(work), drops.streamSeconds(5 * scores),
                1e-9);
  }
}

TEST(KernelModel, WhatADeviceKeepsForItself) {
  CostModel model = modelOf("h100");
  EXPECT_NEAR(model.memoryPerRank(), 84.9e9, 0.1e9);
  MemoryReserve reserve = model.reserve(3);
  EXPECT_EQ(reserve.communicators, 3 * model.reserve(1).communicators);
  EXPECT_EQ(model.reservedBytes(3), reserve.context + reserve.workspace + reserve.communicators);
  EXPECT_EQ(model.availableBytes(3), model.memoryPerRank() - model.reservedBytes(3));
  EXPECT_GT(model.availableBytes(3), 80e9);
  CostModel cpu(*loadCluster("cpu"), 1);
  EXPECT_EQ(cpu.reservedBytes(3), 0);
}

/// What was measured is what is predicted, but for the power limit of steps.
TEST(KernelModel, AMeasuredRateOfAttentionCounts) {
  Cluster cluster = *loadCluster("h100");
  for (bool isBackward : {false, true}) {
    const LocalWork work = attention(16, 4096, 64, true, isBackward);
    const double published = CostModel(cluster, 8).opSeconds(work), seconds = 3 * published;
    Cluster slower = cluster;
    double &rate = isBackward ? slower.device.attention.backward : slower.device.attention.forward;
    rate = attentionRate(work, cluster.device.multiprocessors, seconds);
    EXPECT_NEAR(CostModel(slower, 8).opSeconds(work), seconds, 1e-9);
    EXPECT_EQ(CostModel(slower, 8).opSeconds(attention(16, 4096, 64, true, !isBackward)),
              CostModel(cluster, 8).opSeconds(attention(16, 4096, 64, true, !isBackward)));
    LocalWork single = work;
    single.type = DType::F32;
    EXPECT_EQ(CostModel(slower, 8).opSeconds(single), CostModel(cluster, 8).opSeconds(single));
  }
}
