// Collectives between GPUs against published measurements, and what no network
// can do.
#include "dtc/Plan/Cost/CostModel.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace dtc::plan;
using dtc::sharding::Mesh;
using dtc::sharding::StepKind;

static CostModel modelOf(const std::string &name, int64_t ranks) {
  return CostModel(*loadCluster(name), ranks);
}

/// All ranks of a mesh with one axis.
static double seconds(const CostModel &model, StepKind kind, int64_t ranks, double bytes) {
  Mesh mesh{{{"dp", "dp", ranks}}};
  return model.collectiveSeconds(kind, {0}, bytes, mesh);
}

/// As nccl-tests defines it: what passes each rank's link in a second.
static double busGBs(const CostModel &model, StepKind kind, int64_t ranks, double bytes) {
  double rounds = kind == StepKind::AllReduce ? 2 : 1;
  return rounds * double(ranks - 1) / double(ranks) * bytes /
         seconds(model, kind, ranks, bytes) / 1e9;
}

constexpr double kMiB = 1 << 20, kGiB = 1 << 30;

namespace {

struct Measured {
  double mib, microseconds;
};

} // namespace

/// Mean and largest error of all-reduces, as shares.
static std::pair<double, double> errors(const CostModel &model, int64_t ranks,
                                        const std::vector<Measured> &points) {
  double sum = 0, worst = 0;
  for (const Measured &point : points) {
    double error = std::abs(seconds(model, StepKind::AllReduce, ranks, point.mib * kMiB) /
                                (point.microseconds * 1e-6) -
                            1);
    sum += error;
    worst = std::max(worst, error);
  }
  return {sum / double(points.size()), worst};
}

// NVIDIA/dgxc-benchmarking nccl/README.md, nccl-tests out of place.
TEST(NetworkModel, AllReduceOfADgxH100) {
  auto [mean, worst] = errors(
      modelOf("dgx-h100", 8), 8,
      {{0.5, 20.66}, {1, 27.37}, {2, 42.21}, {4, 54.19}, {8, 83.04}, {16, 123.8}, {32, 199.3},
       {64, 324.7}, {128, 586.4}, {256, 1112.5}, {512, 2151}, {1024, 4029.4}, {4096, 15749}});
  EXPECT_LT(mean, 0.05);
  EXPECT_LT(worst, 0.25) << "at 4 MiB, between two protocols";
}

// VIA-Research/vTrain trace/a100 and trace/v100 (nccl-tests).
TEST(NetworkModel, AllReduceOfA100AndV100Nodes) {
  CostModel a100 = modelOf("p4d", 8), v100 = modelOf("dgx-1", 8);
  auto expect = [](std::pair<double, double> errors, double mean, double worst) {
    EXPECT_LT(errors.first, mean);
    EXPECT_LT(errors.second, worst);
  };
  expect(errors(a100, 2, {{16, 131.9}, {64, 404.7}, {256, 1455.8}, {1024, 5442.8}}), 0.07, 0.15);
  expect(errors(a100, 4, {{16, 179.6}, {64, 543.8}, {256, 1929}, {1024, 7259.4}}), 0.07, 0.15);
  expect(errors(a100, 8, {{16, 232.4}, {64, 579.9}, {256, 2162.3}, {1024, 8193}}), 0.07, 0.15);
  expect(errors(v100, 2, {{16, 764.1}, {64, 2998.9}, {256, 11915}, {1024, 47610}}), 0.07, 0.15);
  expect(errors(v100, 5, {{16, 759.4}, {64, 2953.3}, {256, 11647}, {1024, 46223}}), 0.07, 0.15);
  expect(errors(v100, 8, {{16, 273.8}, {64, 911.3}, {256, 3527.4}, {1024, 13969}}), 0.07, 0.15);
}

// stas00/ml-engineering network/README.md, SHARP section: bus bandwidth of 8 GiB
// by number of GPUs.
TEST(NetworkModel, TheSwitchReducesFromFiveGpusOn) {
  CostModel h200 = modelOf("dgx-h200", 8), b200 = modelOf("p6-b200", 8);
  auto bus = [](const CostModel &model, int64_t ranks) {
    return busGBs(model, StepKind::AllReduce, ranks, 8 * kGiB);
  };
  EXPECT_NEAR(bus(h200, 4), 363, 0.04 * 363);
  EXPECT_NEAR(bus(h200, 5), 414, 0.04 * 414);
  EXPECT_NEAR(bus(h200, 6), 436, 0.04 * 436);
  EXPECT_NEAR(bus(h200, 8), 473, 0.04 * 473);
  EXPECT_NEAR(bus(b200, 4), 673, 0.04 * 673);
  EXPECT_NEAR(bus(b200, 6), 778, 0.04 * 778);
  EXPECT_NEAR(bus(b200, 8), 838, 0.04 * 838);
}

// NVIDIA GTC 2024 S62129, and NVIDIA/nccl-tests #212 for all-gathers.
TEST(NetworkModel, LargeMessagesReachTheirBandwidth) {
  auto bus = [](const char *cluster, int64_t ranks) {
    return busGBs(modelOf(cluster, ranks), StepKind::AllReduce, ranks, 16 * kGiB);
  };
  EXPECT_NEAR(bus("dgx-2", 16), 122, 0.05 * 122);
  EXPECT_NEAR(bus("dgx-a100", 8), 232, 0.05 * 232);
  EXPECT_NEAR(bus("g5", 8), 24, 0.05 * 24);
  EXPECT_NEAR(bus("dgx-a100", 64), 192, 0.05 * 192);
  EXPECT_NEAR(bus("dgx-h100", 64), 380, 0.05 * 380);
  EXPECT_NEAR(busGBs(modelOf("dgx-h100", 8), StepKind::AllGather, 8, 4 * kGiB), 370, 0.05 * 370);
}

// stas00/ml-engineering network/benchmarks: 4 nodes of 8 H100 and 100 GB/s each.
TEST(NetworkModel, AllReduceOfFourNodes) {
  auto [mean, worst] = errors(modelOf("a3-high", 32), 32,
                              {{1, 118.6}, {4, 201.6}, {64, 1531}, {256, 5715}, {1024, 22098},
                               {8192, 181298}});
  EXPECT_LT(mean, 0.07);
  EXPECT_LT(worst, 0.15);
}

TEST(NetworkModel, TimeGrowsWithSizeAndRanks) {
  for (const char *name : {"dgx-a100", "p4d", "dgx-h100", "g5", "gb200-nvl72"}) {
    CostModel model = modelOf(name, 1024);
    for (StepKind kind : {StepKind::AllReduce, StepKind::AllGather, StepKind::ReduceScatter,
                          StepKind::AllToAll, StepKind::Permute})
      for (int64_t ranks : {2, 4, 8, 16, 64, 256, 1024}) {
        double before = 0;
        for (double bytes = 1; bytes < 1e11; bytes *= 3) {
          double now = seconds(model, kind, ranks, bytes);
          EXPECT_GT(now, before) << name << " " << int(kind) << " " << ranks << " " << bytes;
          before = now;
        }
      }
    // A switch that reduces is the faster the more ranks it has.
    if (model.getCluster().devicesPerNode > 8)
      continue;
    for (int64_t ranks : {16, 32, 64, 128, 256, 512})
      for (StepKind kind : {StepKind::AllGather, StepKind::ReduceScatter, StepKind::AllReduce})
        for (double bytes : {1e3, 1e6, 1e9})
          EXPECT_LE(seconds(model, kind, ranks, bytes),
                    seconds(model, kind, 2 * ranks, bytes) * (1 + 1e-9))
              << name << " " << int(kind) << " " << ranks << " " << bytes;
  }
}

TEST(NetworkModel, NothingIsFasterThanItsLinks) {
  for (const char *name : {"dgx-1", "p4d", "dgx-h100", "dgx-b200", "g5", "gb200-nvl72"}) {
    Cluster cluster = *loadCluster(name);
    CostModel model(cluster, 512);
    double inside = cluster.levels[0].bandwidth, outside = cluster.levels[1].bandwidth;
    auto perNode = double(cluster.devicesPerNode);
    for (double bytes = 1e3; bytes < 1e11; bytes *= 7) {
      for (int64_t ranks : {2, 4, 8})
        EXPECT_GT(seconds(model, StepKind::AllReduce, ranks, bytes), bytes / inside);
      for (int64_t nodes : {2, 4, 7}) {
        // Every node has to send what the others haven't got.
        int64_t ranks = nodes * cluster.devicesPerNode;
        double part = double(nodes - 1) / double(nodes);
        double least = part * bytes / (perNode * outside);
        EXPECT_GT(seconds(model, StepKind::AllGather, ranks, bytes), least) << name;
        EXPECT_GT(seconds(model, StepKind::AllReduce, ranks, bytes), least) << name;
        EXPECT_GT(seconds(model, StepKind::AllToAll, ranks, bytes), part * bytes / perNode / outside);
      }
    }
  }
}

TEST(NetworkModel, AllReduceIsNoSlowerThanItsHalves) {
  CostModel model = modelOf("dgx-h100", 64);
  for (int64_t ranks : {2, 8, 64})
    for (double bytes : {1e4, 1e6, 1e8, 1e10})
      EXPECT_LE(seconds(model, StepKind::AllReduce, ranks, bytes),
                seconds(model, StepKind::ReduceScatter, ranks, bytes) +
                    seconds(model, StepKind::AllGather, ranks, bytes));
}

TEST(NetworkModel, FindsWhereGroupsLie) {
  CostModel model = modelOf("dgx-h100", 1024);
  auto shape = [&](const Mesh &mesh, const dtc::sharding::AxisList &axes) {
    return model.groupShape(axes, mesh);
  };
  Mesh mesh{{{"dp", "dp", 32}, {"tp", "tp", 8}}};
  EXPECT_EQ(shape(mesh, {1}), (GroupShape{8, 0, {8, 8, 8, 8}}));
  EXPECT_EQ(shape(mesh, {0}), (GroupShape{32, 1, {1, 32, 32, 32}}));
  EXPECT_EQ(shape(mesh, {0, 1}), (GroupShape{256, 1, {8, 256, 256, 256}}));
  Mesh wide{{{"dp", "dp", 512}, {"tp", "tp", 2}}};
  EXPECT_EQ(shape(wide, {0}), (GroupShape{512, 2, {4, 128, 512, 512}}));
  Mesh parted{{{"dp", "dp", 4}, {"tp.0", "tp", 2}, {"cp", "cp", 2}, {"tp.1", "tp", 4}}};
  EXPECT_EQ(shape(parted, {1, 3}), (GroupShape{8, 1, {4, 8, 8, 8}}));
  // Threes don't fill nodes of eight: some group lies in two.
  Mesh odd{{{"dp", "dp", 8}, {"tp", "tp", 3}}};
  EXPECT_EQ(modelOf("dgx-h100", 24).groupShape({1}, odd).level, 1);
  // Also where the mesh is of one pipeline stage, with others beside it.
  Mesh stage{{{"tp", "tp", 3}}};
  EXPECT_EQ(modelOf("dgx-h100", 24).groupShape({0}, stage).level, 1);
  EXPECT_EQ(modelOf("dgx-h100", 3).groupShape({0}, stage).level, 0);
}

TEST(NetworkModel, GroupsShareTheNetwork) {
  CostModel model = modelOf("dgx-h100", 64);
  Mesh mesh{{{"dp", "dp", 8}, {"tp", "tp", 8}}};
  double bytes = 1e10;
  // Eight groups with one rank a node each have an eighth of what one group of
  // all ranks has.
  double one = model.collectiveSeconds(StepKind::AllGather, {0, 1}, bytes, mesh);
  double eight = model.collectiveSeconds(StepKind::AllGather, {0}, bytes, mesh);
  EXPECT_GT(eight, 6 * one);
  EXPECT_LT(eight, 9 * one);
}

/// What a layer of 7 billion parameters takes to be gathered. It hides behind 16,000 tokens' work
/// of 7 ms among 128 GPUs, not among 2,048 (Fernandez et al. 2024).
TEST(NetworkModel, RingsThroughManyNodesAreSlowToStart) {
  auto gather = [](int64_t ranks) {
    return modelOf("dgx-h100", ranks).collectiveSeconds(StepKind::AllGather, {0}, 404e6,
                                                        Mesh{{{"dp", "dp", ranks}}});
  };
  EXPECT_LT(gather(128), 3e-3);
  EXPECT_GT(gather(2048), 7e-3);
  EXPECT_GT(gather(16384), 1.3 * gather(8192));
}

TEST(NetworkModel, PointToPointByLevel) {
  CostModel model = modelOf("p4d", 64);
  EXPECT_EQ(model.levelBetween(0, 7), 0);
  EXPECT_EQ(model.levelBetween(7, 8), 1);
  EXPECT_EQ(model.p2pSeconds(1e6, 3, 3), 0);
  double near = model.p2pSeconds(1e9, 0, 1), far = model.p2pSeconds(1e9, 0, 8);
  EXPECT_NEAR(far, 1e9 / (6.25e9 * 0.95), 0.01 * far) << "all devices share four cards";
  EXPECT_LT(near * 20, far);
  // One sender has a card of 12.5 GB/s for itself.
  EXPECT_NEAR(model.p2pLink(1, 1).bandwidth, 12.5e9 * 0.95, 1e6);
  EXPECT_NEAR(model.p2pLink(1, 4).bandwidth, 12.5e9 * 0.95, 1e6);
  EXPECT_NEAR(model.p2pLink(1, 8).bandwidth, 6.25e9 * 0.95, 1e6);
}

TEST(NetworkModel, OverlapSlowsBothDown) {
  CostModel model = modelOf("dgx-a100", 16);
  for (int level : {0, 1}) {
    EXPECT_GT(model.overlapSlowdown(level).compute, 1);
    EXPECT_LT(model.overlapSlowdown(level).compute, 1.3);
    EXPECT_GT(model.overlapSlowdown(level).communication, 1);
  }
  EXPECT_GT(model.overlapSlowdown(0).compute, model.overlapSlowdown(1).compute);
  Cluster serial = model.getCluster();
  serial.software.overlapCommunication = false;
  EXPECT_EQ(CostModel(serial, 16).overlapSlowdown(0).compute, 1);
}
