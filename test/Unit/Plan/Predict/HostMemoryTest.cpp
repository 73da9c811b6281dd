// Offloaded states against the memory of hosts.
#include "Planner.h"
#include "Transformer.h"

#include "dtc/Plan/Predict/HostMemory.h"

#include <cstdio>

using dtc::ErrorCategory;
using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

Cluster withHosts(const char *node, double bytes) {
  Cluster on = cluster(node);
  on.hostMemoryBytes = bytes;
  return on;
}

const char *const kPinned = "dp=8,tp=1,pp=1,cp=1,ep=1,zero=0,recompute=full,micro_batch=1,"
                            "offload=optimizer";

} // namespace

TEST(HostMemory, RanksOfANodeShareIt) {
  Degrees degrees = {.dp = 8, .pp = 2};
  const std::vector<double> bytes = {200, 230};
  Cluster on = withHosts("dgx-h100", 1700);
  EXPECT_EQ(fullestHost(on, degrees, bytes), (HostUse{1, 8, 1840, 1700, 0}));
  EXPECT_EQ(fullestHost(on, degrees, bytes).shortBytes(), 140);
  degrees.order = *orderFromName("pp-tp-cp-ep-dp");
  EXPECT_EQ(fullestHost(on, degrees, bytes), (HostUse{0, 8, 1720, 1700, 0}));
  // A node that isn't full, and one that is all there is.
  degrees = {.dp = 6, .pp = 2};
  EXPECT_EQ(fullestHost(on, degrees, bytes), (HostUse{0, 8, 6 * 200 + 2 * 230, 1700, 0}));
  on.devicesPerNode = 0;
  EXPECT_EQ(fullestHost(on, degrees, bytes), (HostUse{0, 12, 6 * 430, 1700, 0}));
}

TEST(HostMemory, NodesOfSeveralTypesHaveTheirOwn) {
  Cluster on = clusterOf(
      {"node: dgx-h100, nodes: 2", "node: dgx-a100, nodes: 2", "node: a800-node, nodes: 1"});
  ASSERT_EQ(on.others.size(), 2u);
  on.hostMemoryBytes = 2000;
  on.others[0].hostMemoryBytes = 1000;
  Degrees degrees = {.dp = 8, .pp = 5};
  const std::vector<double> bytes = {150, 200, 140, 130, 900};
  // What isn't known isn't checked.
  EXPECT_EQ(fullestHost(on, degrees, bytes), (HostUse{2, 8, 1120, 1000, 1}));
  // Stages with as many devices as suit them.
  degrees = {.dp = 8, .pp = 3};
  degrees.groups = {{1, 16, 1, false, 1}, {2, 8, 1, false, 2}};
  EXPECT_EQ(fullestHost(on, degrees, {100, 100, 150}),
            (HostUse{3, 8, 1200, 1000, 0}));
}

/// Each rank has the states of its stages, split as ZeRO has them.
TEST(HostMemory, OfEstimatesIsThatOfPredictions) {
  Problem problem = transformer({8, 1024, 16, 512, 64, 8192});
  Cluster on = cluster("dgx-h100");
  Planner planner(problem, on, 16);
  double parameters = double(problem.parameterElements());
  for (auto [pp, zero] : {std::pair<int64_t, int>{1, 0}, {1, 1}, {2, 0}, {4, 3}}) {
    Degrees degrees = {.dp = 16 / pp, .pp = pp, .zero = zero};
    degrees.numMicrobatches = 64 / degrees.dp;
    Estimate estimate;
    auto kept = planner.carriedOut(degrees, estimate);
    ASSERT_TRUE(kept);
    EXPECT_EQ(kept->predicted.host, HostUse{}) << summary(degrees);
    degrees.offload = Offload::Optimizer;
    auto whole = planner.carriedOut(degrees, estimate);
    ASSERT_TRUE(whole);
    const HostUse &host = whole->predicted.host;
    EXPECT_EQ(estimate.host, host) << summary(degrees);
    EXPECT_EQ(host.ranks, 8);
    EXPECT_EQ(host.capacity, on.hostMemoryBytes);
    // Two moments and the fp32 copy of all parameters, by each data-parallel rank or once.
    double copies = zero > 0 ? 1.0 : double(degrees.dp);
    double all = 12 * parameters * copies / 2; // in one of two nodes
    EXPECT_NEAR(host.bytes, all, (pp == 1 ? 1e-6 : 0.5) * all) << summary(degrees);
    EXPECT_GE(host.bytes, (1 - 1e-6) * all) << summary(degrees);
  }
}

TEST(HostMemory, StatesAreOffloadedWhereTheyFit) {
  Problem problem = transformer(gpt7b(512));
  SearchResult known = best(problem, 8, "auto", cluster("g5"));
  ASSERT_EQ(known.plan.degrees.offload, Offload::Optimizer);
  EXPECT_GT(known.predicted.host.bytes, 0);
  SearchResult exact = best(problem, 8, "auto", withHosts("g5", known.predicted.host.bytes));
  EXPECT_EQ(exact.plan, known.plan);
  // States that are split among all ranks take the least.
  SearchResult less = best(problem, 8, "auto", withHosts("g5", 0.1 * known.predicted.host.bytes));
  EXPECT_EQ(less.plan.degrees.offload, Offload::None) << summary(less.plan.degrees);
  EXPECT_TRUE(less.predicted.fits());
  EXPECT_GT(less.predicted.stepSeconds, known.predicted.stepSeconds);
  SearchResult unknown = best(problem, 8, "auto", withHosts("g5", 0));
  EXPECT_EQ(unknown.plan.degrees.offload, Offload::Optimizer);
  EXPECT_EQ(unknown.predicted.host.unknown, 1);
}

/// Each of eight ranks has its own copy of all states.
TEST(HostMemory, RefusalsSayWhatHostsLack) {
  Problem problem = transformer(gpt7b(64));
  double parameters = double(problem.parameterElements());
  const double needed = 8 * 12 * parameters;
  Cluster on = withHosts("dgx-h100", 500e9);
  auto pinned = found(problem, 8, kPinned, on);
  ASSERT_TRUE(pinned) << pinned.error().message;
  EXPECT_NEAR(pinned->predicted.host.bytes, needed, 1e-6 * needed);
  EXPECT_EQ(pinned->predicted.shortBytes(), 0);
  EXPECT_FALSE(pinned->predicted.fits());
  EXPECT_TRUE(found(problem, 8, kPinned, withHosts("dgx-h100", needed * 1.001))->predicted.fits());
  auto refused = found(problem, 8, "dp=8,zero=0,offload=optimizer", on);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().category, ErrorCategory::NoFit);
  const std::string message = refusalText(refused);
  auto size = [](double bytes) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.1f GiB", bytes / (1024.0 * 1024 * 1024));
    return std::string(text);
  };
  EXPECT_NE(message.find(" needs " + size(needed) + " of host memory in node 0 for the "
                         "optimizer states of 8 ranks, there are " + size(500e9) + ": " +
                         size(needed - 500e9) + " short; with zero="),
            std::string::npos)
      << message;
  // What is named does help.
  EXPECT_TRUE(found(problem, 8, "dp=8,zero=1,offload=optimizer", on)->predicted.fits());
}

/// Where neither hosts nor devices suffice, what comes closest is told of.
TEST(HostMemory, WhatComesClosestMayKeepItsStates) {
  Problem problem = transformer(gpt13b(16));
  Cluster on = withHosts("dgx-h100", 1e9);
  auto refused = found(problem, 2, "auto", on);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refusalText(refused).find("host memory"), std::string::npos) << refusalText(refused);
  EXPECT_NE(refusalText(refused).find("offload=none"), std::string::npos) << refusalText(refused);
}
