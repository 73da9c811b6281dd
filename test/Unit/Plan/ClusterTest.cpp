#include "dtc/Plan/Cluster.h"

#include <gtest/gtest.h>

using namespace dtc::plan;

TEST(Cluster, ReadsTheSmallestFile) {
  auto cluster = clusterFromYaml("device: a100-80\n"
                                 "devices_per_node: 8\n"
                                 "intra_node: {bandwidth_gbs: 300, latency_us: 5}\n"
                                 "inter_node: {bandwidth_gbs: 25, latency_us: 10}\n",
                                 "c.yaml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_NEAR(cluster->device.memoryBytes, 85e9, 0.1e9) << "80 GiB less what the driver keeps";
  ASSERT_EQ(cluster->levels.size(), 2u);
  EXPECT_EQ(cluster->levels[0].size, 8);
  EXPECT_EQ(cluster->levels[0].bandwidth, 300e9);
  EXPECT_NEAR(cluster->levels[1].latency, 10e-6, 1e-12);
}

TEST(Cluster, ReadsOwnDevicesAndTables) {
  auto cluster = clusterFromYaml(R"(
name: mine
device: {name: d, memory_gb: 4, bandwidth_gbs: 10, launch_us: 2, peak_tflops: {fp32: 0.2}}
shared_memory: true
cores: 4
links: [{bandwidth_gbs: 5, latency_us: 3}]
measured:
  contractions: [{type: fp32, m: 64, n: 64, k: 64, seconds: 1e-5}]
  collectives: [{kind: all_reduce, ranks: 2, bytes: 1024, seconds: 2e-5}]
software: {flash_attention: true, fused_norm: false}
)",
                                 "c.yaml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_TRUE(cluster->sharedMemory);
  EXPECT_EQ(cluster->contractions.at(0).seconds, 1e-5);
  EXPECT_EQ(cluster->collectives.at(0).bytes, 1024);
  EXPECT_EQ(cluster->software.flashAttention, 3);
  EXPECT_FALSE(cluster->software.fusedNorm);
}

TEST(Cluster, EveryBuiltInSurvivesWritingAndReading) {
  for (const std::string &name : builtinClusters()) {
    Cluster cluster = *loadCluster(name);
    cluster.contractions = {{DType::BF16, 2, 128, 256, 64, 1.25e-5}};
    cluster.collectives = {{dtc::sharding::StepKind::ReduceScatter, 4, 4096, 3e-6}};
    cluster.software.compiled = false;
    auto again = clusterFromYaml(toYaml(cluster), name);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(toYaml(*again), toYaml(cluster)) << name;
    EXPECT_EQ(again->contractions, cluster.contractions) << name;
    EXPECT_EQ(again->software, cluster.software) << name;
  }
}

static void expectRefused(const std::string &text, const std::string &message, int exitCode) {
  auto cluster = clusterFromYaml(text, "c.yaml");
  ASSERT_FALSE(cluster) << text;
  EXPECT_EQ(cluster.error().message, message);
  EXPECT_EQ(cluster.error().exitCode, exitCode) << text;
}

TEST(Cluster, ErrorsNameFileLineAndKey) {
  const std::string links = "intra_node: {bandwidth_gbs: 1}\n";
  expectRefused(links + "devise: h100\n",
                "c.yaml:1: the cluster lacks the key: device", 3);
  expectRefused("device: h10\n" + links, "c.yaml:1: unknown device: h10 (did you mean h100?)", 3);
  expectRefused("device: h100\n" + links + "devices_pernode: 8\n",
                "c.yaml:3: unknown key in the cluster: devices_pernode (did you mean "
                "devices_per_node?)", 2);
  expectRefused("device: h100\nintra_node: {bandwidth_gbs: fast}\n",
                "c.yaml:2: wrong value for bandwidth_gbs: fast", 3);
  expectRefused("device: h100\nintra_node: {bandwidth_gbs: -1}\n",
                "c.yaml:2: bandwidth_gbs is too small: -1", 3);
  expectRefused("device: h100\nintra_node: 3\n", "c.yaml:2: intra_node must be a map", 3);
  expectRefused("- 1\n- 2\n", "c.yaml:1: the cluster must be a map", 3);
  EXPECT_EQ(clusterFromYaml("device: [", "c.yaml").error().exitCode, 3);
  EXPECT_EQ(clusterFromYaml("", "c.yaml").error().exitCode, 3);
}

TEST(Cluster, UnknownNamesAreUsageErrors) {
  EXPECT_EQ(loadCluster("dgx-h10").error().message,
            "unknown cluster: dgx-h10 (did you mean dgx-h100?)");
  EXPECT_EQ(loadCluster("dgx-h10").error().exitCode, 2);
  EXPECT_EQ(loadCluster("./no/such/file.yaml").error().exitCode, 3);
}
