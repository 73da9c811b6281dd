#include "Problems.h"

#include "dtc/Plan/Cost/CostModel.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace dtc::plan;
using dtc::plan::testing::clusterOf;
using dtc::sharding::Mesh;
using dtc::sharding::StepKind;

static Cluster simple() {
  Cluster cluster;
  cluster.device.bandwidth = 100e9;
  cluster.device.peak = {{DType::F32, 1e12}};
  cluster.device.achieved = {{DType::F32, 0.5e12}};
  cluster.device.launchSeconds = 1e-6;
  cluster.device.memoryBytes = 8e9;
  cluster.levels = {{"near", 4, 50e9, 1e-6}, {"far", 0, 10e9, 10e-6}};
  return cluster;
}

TEST(CostModel, AnOpTakesTheLongerOfComputingAndMoving) {
  CostModel model(simple(), 4);
  LocalWork work;
  work.flops = 1e9;
  work.bytes = 1e6;
  EXPECT_NEAR(model.opSeconds(work), 2e-3 + 1e-6, 1e-9);
  work.bytes = 1e9;
  EXPECT_NEAR(model.opSeconds(work), 1e-2 + 1e-6, 1e-9);
}

/// The example of CostModel.h.
TEST(CostModel, TwoNodesOfFourHaveGroupsInsideAndAcrossThem) {
  CostModel model(simple(), 8);
  Mesh mesh{{{"dp", "dp", 2}, {"tp", "tp", 4}}};
  EXPECT_EQ(model.groupShape({0}, mesh), (GroupShape{2, 1, {1, 2, 2, 2}}));
  EXPECT_EQ(model.groupShape({1}, mesh), (GroupShape{4, 0, {4, 4, 4, 4}}));
  EXPECT_NEAR(model.collectiveSeconds(StepKind::AllReduce, {1}, 50e6, mesh), 1.504e-3, 1e-9);
  EXPECT_NEAR(model.collectiveSeconds(StepKind::AllReduce, {0}, 50e6, mesh), 5.020e-3, 1e-9);
}

TEST(CostModel, MeasuredShapesReplaceTheRate) {
  Cluster cluster = simple();
  cluster.contractions = {{DType::F32, 1, 512, 512, 512, 2.0 * 512 * 512 * 512 / 0.3e12},
                          {DType::F32, 1, 16, 16, 16, 2.0 * 16 * 16 * 16 / 0.01e12}};
  CostModel model(cluster, 1);
  auto rate = [&](int64_t size) {
    LocalWork work;
    work.kernels = 0;
    work.m = work.n = work.k = size;
    work.batch = 1;
    work.flops = 2.0 * double(size * size * size);
    return work.flops / model.opSeconds(work);
  };
  EXPECT_NEAR(rate(512), 0.3e12, 0.003e12);
  EXPECT_NEAR(rate(16), 0.01e12, 0.0003e12);
  EXPECT_GT(rate(128), rate(32));
}

TEST(CostModel, MeasuredShapesReplaceTheTilesOfGpus) {
  Cluster cluster = *loadCluster("h100");
  LocalWork work;
  work.type = DType::BF16;
  work.batch = 1;
  work.m = work.n = work.k = 4096;
  work.flops = 2.0 * 4096 * 4096 * 4096;
  double modelled = CostModel(cluster, 1).opSeconds(work);
  cluster.contractions = {{DType::BF16, 1, 4096, 4096, 4096, 2 * modelled}};
  EXPECT_NEAR(CostModel(cluster, 1).opSeconds(work), 2 * modelled, 1e-9);
  work.type = DType::F16;
  EXPECT_NEAR(CostModel(cluster, 1).opSeconds(work), modelled, 1e-9) << "another type";
}

TEST(CostModel, CollectivesPayForTheWidestLevelTheySpan) {
  CostModel model(simple(), 8);
  Mesh mesh{{{"dp", "dp", 2}, {"tp", "tp", 4}}};
  double inside = model.collectiveSeconds(StepKind::AllReduce, {1}, 1e6, mesh);
  EXPECT_NEAR(inside, 2 * 0.75 * 1e6 / 50e9 + 2 * 2 * 1e-6, 1e-9);
  double across = model.collectiveSeconds(StepKind::AllReduce, {0}, 1e6, mesh);
  EXPECT_NEAR(across, 2 * 0.5 * 1e6 / 10e9 + 2 * 10e-6, 1e-9);
  double scatter = model.collectiveSeconds(StepKind::ReduceScatter, {1}, 1e6, mesh);
  double gather = model.collectiveSeconds(StepKind::AllGather, {1}, 1e6, mesh);
  EXPECT_NEAR(scatter + gather, inside, 1e-12);
}

TEST(CostModel, MeasuredCollectivesAreInterpolated) {
  Cluster cluster = simple();
  cluster.collectives = {{StepKind::AllReduce, 2, 1000, 1e-5},
                         {StepKind::AllReduce, 2, 100000, 1e-4},
                         {StepKind::AllReduce, 8, 1000, 7e-5}};
  CostModel model(cluster, 2);
  Mesh mesh{{{"dp", "dp", 2}}};
  auto seconds = [&](double bytes) {
    return model.collectiveSeconds(StepKind::AllReduce, {0}, bytes, mesh);
  };
  EXPECT_NEAR(seconds(1000), 1e-5, 1e-12);
  EXPECT_NEAR(seconds(100000), 1e-4, 1e-12);
  EXPECT_NEAR(seconds(10000), std::sqrt(1e-5 * 1e-4), 1e-9);
  EXPECT_NEAR(seconds(10), 1e-5, 1e-12) << "below the table: latency";
  EXPECT_NEAR(seconds(200000), 2e-4, 1e-12) << "beyond it: bandwidth";
}

TEST(CostModel, RanksShareAProcessor) {
  Cluster cluster = simple();
  cluster.sharedMemory = true;
  cluster.cores = 2;
  LocalWork work;
  work.flops = 1e9;
  work.kernels = 0;
  EXPECT_NEAR(CostModel(cluster, 4).opSeconds(work), 2 * CostModel(cluster, 2).opSeconds(work),
              1e-12);
  EXPECT_EQ(CostModel(cluster, 4).memoryPerRank(), 2e9);
}

TEST(CostModel, AKernelStartsTheThreadsOfItsRank) {
  Cluster cluster = simple();
  cluster.sharedMemory = true;
  cluster.cores = 8;
  cluster.forks = {{2, 2e-6}, {4, 3e-6}};
  EXPECT_NEAR(CostModel(cluster, 8).launchSeconds(), 1e-6, 1e-12) << "one thread a rank";
  EXPECT_NEAR(CostModel(cluster, 4).launchSeconds(), 3e-6, 1e-12);
  EXPECT_NEAR(CostModel(cluster, 2).launchSeconds(), 4e-6, 1e-12);
  EXPECT_NEAR(CostModel(cluster, 1).launchSeconds(), 6e-6, 1e-12) << "on the line of the last two";
  LocalWork empty;
  EXPECT_NEAR(CostModel(cluster, 2).opSeconds(empty), 4e-6, 1e-12);
}

/// A kernel for each tensor's norm and update, but of dtc's own for GPUs, which do 48 tensors.
TEST(CostModel, UpdatesLaunchKernels) {
  Cluster processor = simple(), gpu = *loadCluster("h100");
  EXPECT_NEAR(CostModel(processor, 1).updateLaunchSeconds(148), 2 * 148 * 1e-6, 1e-12);
  EXPECT_NEAR(CostModel(gpu, 1).updateLaunchSeconds(148), 2 * 148 * 2e-6 / 48, 1e-12);
  gpu.software.compiled = false;
  EXPECT_NEAR(CostModel(gpu, 1).updateLaunchSeconds(148), 2 * 148 * 4e-6, 1e-12);
}

TEST(CostModel, RingsLeaveHalfOfASmallDeviceToKernels) {
  Cluster cluster = *loadCluster("h100");
  auto slowdown = [&](int64_t multiprocessors, int level) {
    cluster.device.multiprocessors = multiprocessors;
    return CostModel(cluster, 2).ringSlowdown(level).compute;
  };
  EXPECT_NEAR(slowdown(132, 0), 132.0 / 116, 1e-12);
  EXPECT_NEAR(slowdown(132, 1), 132.0 / 124, 1e-12);
  EXPECT_NEAR(slowdown(24, 1), 24.0 / 16, 1e-12);
  for (int64_t multiprocessors : {1, 8, 15, 16, 17, 24, 32})
    EXPECT_NEAR(slowdown(multiprocessors, 0), 2, 1e-12) << multiprocessors;
  EXPECT_NEAR(slowdown(8, 1), 2, 1e-12);
}

TEST(CostModel, ProcessorsAddUpGradientsInAKernelOfItsOwn) {
  Cluster cluster = simple();
  CostModel fused(cluster, 1);
  cluster.sharedMemory = true;
  cluster.cores = 1;
  CostModel apart(cluster, 1);
  for (const CostModel *model : {&fused, &apart})
    for (double seconds : {model->gradientSumSeconds(1e6, 2), model->accumulationSeconds(1e6, true)})
      EXPECT_NEAR(seconds, model->streamSeconds(3e6), 1e-12);
  EXPECT_NEAR(fused.accumulationSeconds(1e6, false), fused.streamSeconds(1e6), 1e-12);
  EXPECT_NEAR(apart.accumulationSeconds(1e6, false), apart.streamSeconds(3e6), 1e-12);
}

TEST(CostModel, AStageWaitsForItsSlowestDevice) {
  Cluster cluster = clusterOf({"node: dgx-h100, nodes: 1", "node: p4d, nodes: 1"});
  CostModel fast(cluster, 16, {0, 8}), slow(cluster, 16, {8, 8}), both(cluster, 16, {0, 16});
  EXPECT_EQ(fast.device().name, "h100");
  EXPECT_EQ(slow.device().name, "a100-40");
  EXPECT_EQ(both.device().name, "a100-40");
  EXPECT_LT(slow.memoryPerRank(), fast.memoryPerRank());
  EXPECT_EQ(both.memoryPerRank(), slow.memoryPerRank());
  Mesh mesh{{{"tp", "tp", 8}}};
  EXPECT_LT(fast.collectiveSeconds(StepKind::AllReduce, {0}, 1e9, mesh),
            slow.collectiveSeconds(StepKind::AllReduce, {0}, 1e9, mesh));
}
