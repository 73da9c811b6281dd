#include "dtc/Plan/Plan/Cluster.h"

#include <gtest/gtest.h>

using dtc::ErrorCategory;
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
  EXPECT_EQ(cluster->levels[0].achieved, loadCluster("dgx-a100")->levels[0].achieved);
  EXPECT_EQ(cluster->levels[0].rings.size(), 3u);
  EXPECT_NEAR(cluster->levels[1].latency, 10e-6, 1e-12);
}

/// Left out, it is a built-in node's, or not known.
TEST(Cluster, ReadsTheMemoryOfHosts) {
  auto hostOf = [](const std::string &text) {
    auto cluster = clusterFromYaml(text, "c.yaml");
    EXPECT_TRUE(cluster) << cluster.error().message;
    return cluster ? cluster->hostMemoryBytes : -1;
  };
  const std::string own = "device: h100\ndevices_per_node: 8\nintra_node: {bandwidth_gbs: 450}\n";
  EXPECT_EQ(hostOf(own), 0);
  EXPECT_EQ(hostOf(own + "host_memory_gb: 512\n"), 512e9);
  EXPECT_EQ(hostOf("node: p4d\n"), 1152.0 * (1 << 30));
  EXPECT_EQ(hostOf("node: p4d\nhost_memory_gb: 500\n"), 500e9);
  auto groups = clusterFromYaml("groups:\n - {node: dgx-h100, nodes: 2}\n"
                                " - {node: dgx-a100, nodes: 1, host_memory_gb: 1000}\n"
                                " - {node: a800-node, nodes: 1}\n"
                                "inter_node: {bandwidth_gbs: 25}\n",
                                "c.yaml");
  ASSERT_TRUE(groups) << groups.error().message;
  auto again = clusterFromYaml(toYaml(*groups), "again");
  ASSERT_TRUE(again) << again.error().message;
  for (const Cluster &cluster : {*groups, *again}) {
    EXPECT_EQ(cluster.hostMemoryBytes, 2048.0 * (1 << 30));
    EXPECT_EQ(cluster.others.at(0).hostMemoryBytes, 1000e9);
    EXPECT_EQ(cluster.others.at(1).hostMemoryBytes, 0);
  }
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
  forks: [{threads: 4, seconds: 3e-6}]
software: {flash_attention: true, fused_norm: false}
)",
                                 "c.yaml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_TRUE(cluster->sharedMemory);
  EXPECT_EQ(cluster->contractions.at(0).seconds, 1e-5);
  EXPECT_EQ(cluster->collectives.at(0).bytes, 1024);
  EXPECT_EQ(cluster->forks.at(0), (MeasuredFork{4, 3e-6}));
  EXPECT_EQ(cluster->software.flashAttention, 3);
  EXPECT_FALSE(cluster->software.fusedNorm);
}

TEST(Cluster, StartsFromBuiltInNodesAndDevices) {
  auto cluster = clusterFromYaml(R"(
node: dgx-h100
device: {base: h100, name: h100-quiet, bandwidth_gbs: 2400, achieved_tflops: {bf16: 600, tf32: 300},
         attention_tflops: {forward: 400, backward: 300}}
inter_node: {bandwidth_gbs: 12.5, latency_us: 20, achieved: 0.8, alone_gbs: 25}
software: {flash_attention: 2}
)",
                                 "c.yaml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  Cluster dgx = *loadCluster("dgx-h100");
  EXPECT_EQ(cluster->device.name, "h100-quiet");
  EXPECT_EQ(cluster->device.memoryBytes, dgx.device.memoryBytes);
  EXPECT_EQ(cluster->device.bandwidth, 2400e9);
  EXPECT_EQ(cluster->device.achieved.size(), 1u);
  EXPECT_EQ(cluster->device.achievedTF32, 300e12);
  EXPECT_EQ(cluster->device.attention, (AttentionRates{400e12, 300e12}));
  EXPECT_EQ(clusterFromYaml(toYaml(*cluster), "again.yaml")->device, cluster->device);
  EXPECT_EQ(cluster->device.multiprocessors, 132);
  ASSERT_EQ(cluster->levels.size(), 2u) << "one network of its own";
  EXPECT_EQ(cluster->levels[0], dgx.levels[0]);
  EXPECT_EQ(cluster->levels[1].alone, 25e9);
  EXPECT_EQ(cluster->software.flashAttention, 2);
}

TEST(Cluster, ReadsLevelsOfLinks) {
  auto cluster = clusterFromYaml(R"(
device: a100-80
devices_per_node: 4
links:
  - {name: nvlink, size: 4, bandwidth_gbs: 300, latency_us: 3, ring_gbs: {2: 205, 3: 220}}
  - {name: leaf, size: 64, bandwidth_gbs: 25, latency_us: 14}
  - {name: spine, bandwidth_gbs: 12.5, latency_us: 16, achieved: 0.9}
)",
                                 "c.yaml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  ASSERT_EQ(cluster->levels.size(), 3u);
  EXPECT_EQ(cluster->levels[0].rings.at(3), 220e9);
  EXPECT_EQ(cluster->levelBetween(0, 3), 0);
  EXPECT_EQ(cluster->levelBetween(3, 4), 1);
  EXPECT_EQ(cluster->levelBetween(63, 64), 2);
  auto again = clusterFromYaml(toYaml(*cluster), "again");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->levels, cluster->levels);
}

static const char *const mixed = R"(
name: mixed
groups:
  - {node: dgx-h100, nodes: 2}
  - {device: a100-40, nodes: 3, devices_per_node: 4, intra_node: {bandwidth_gbs: 300}}
  - {device: v100, nodes: 1, devices_per_node: 2, intra_node: {bandwidth_gbs: 22}}
inter_node: {bandwidth_gbs: 25, latency_us: 14}
)";

TEST(Cluster, MixesDeviceTypes) {
  auto cluster = clusterFromYaml(mixed, "c.yaml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_EQ(cluster->devices(), 2 * 8 + 3 * 4 + 2);
  EXPECT_EQ(cluster->deviceAt(15).name, "h100");
  EXPECT_EQ(cluster->deviceAt(16).name, "a100-40");
  EXPECT_EQ(cluster->deviceAt(27).name, "a100-40");
  EXPECT_EQ(cluster->deviceAt(29).name, "v100");
  ASSERT_EQ(cluster->levelsAt(20).size(), 2u);
  EXPECT_EQ(cluster->levelsAt(20)[0].size, 4);
  EXPECT_EQ(cluster->levelsAt(20)[1], cluster->levels[1]);
  EXPECT_EQ(cluster->levelBetween(0, 7), 0);
  EXPECT_EQ(cluster->levelBetween(7, 8), 1);
  EXPECT_EQ(cluster->levelBetween(16, 19), 0);
  EXPECT_EQ(cluster->levelBetween(19, 20), 1);
  EXPECT_EQ(cluster->levelBetween(27, 28), 1);
  EXPECT_EQ(cluster->levelBetween(28, 29), 0);
  auto again = clusterFromYaml(toYaml(*cluster), "again");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(toYaml(*again), toYaml(*cluster));
  EXPECT_EQ(again->others.size(), 2u);
  EXPECT_EQ(again->levels, cluster->levels);
}

TEST(Cluster, EveryBuiltInSurvivesWritingAndReading) {
  for (const std::string &name : builtinClusters()) {
    Cluster cluster = *loadCluster(name);
    cluster.contractions = {{DType::BF16, 2, 128, 256, 64, 1.25e-5}};
    cluster.collectives = {{dtc::sharding::StepKind::ReduceScatter, 4, 4096, 3e-6}};
    cluster.software.compiled = cluster.software.fusedLoss = false;
    cluster.software.fusedRotary = false;
    cluster.software.waitsForKernels = cluster.software.waitsForBatches = true;
    cluster.software.evenStages = cluster.software.scattersSends = true;
    cluster.software.softmaxMultiple = 4;
    cluster.software.lossMetrics = 2;
    cluster.software.overlapsSends = cluster.software.asyncInputGradients = true;
    cluster.software.overlapsProducts = true;
    cluster.software.dropout = cluster.software.gathersAgain = true;
    cluster.software.halfGradients = cluster.software.keepsHalfGradients = true;
    cluster.software.cachingAllocator = cluster.software.flattens = true;
    cluster.software.updatesFirst = cluster.software.ownersBroadcast = true;
    cluster.software.updatesOnHost = true;
    cluster.software.reducesHalfSums = cluster.software.castsGradients = true;
    cluster.software.normTemporaries = 1;
    cluster.software.updateTemporaries = 2;
    cluster.software.gathersWeights = cluster.software.lazyLoading = false;
    cluster.software.bucketElements = 500;
    auto again = clusterFromYaml(toYaml(cluster), name);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(toYaml(*again), toYaml(cluster)) << name;
    EXPECT_DOUBLE_EQ(again->hostMemoryBytes, cluster.hostMemoryBytes) << name;
    EXPECT_EQ(again->contractions, cluster.contractions) << name;
    EXPECT_EQ(again->software, cluster.software) << name;
  }
}

static void expectRefused(const std::string &text, const std::string &message,
                          ErrorCategory category = ErrorCategory::InputRefused) {
  auto cluster = clusterFromYaml(text, "c.yaml");
  ASSERT_FALSE(cluster) << text;
  EXPECT_EQ(cluster.error().message, message);
  EXPECT_EQ(cluster.error().category, category) << text;
}

TEST(Cluster, ErrorsNameFileLineAndKey) {
  const std::string links = "intra_node: {bandwidth_gbs: 1}\n";
  expectRefused(links + "devise: h100\n", "c.yaml:1: the cluster lacks the key: device");
  expectRefused("device: h10\n" + links, "c.yaml:1: unknown device: h10 (did you mean h100?)");
  expectRefused("device: h100\n" + links + "devices_pernode: 8\n",
                "c.yaml:3: unknown key in the cluster: devices_pernode (did you mean "
                "devices_per_node?)",
                ErrorCategory::Usage);
  expectRefused("device: h100\nintra_node: {bandwidth_gbs: fast}\n",
                "c.yaml:2: wrong value for bandwidth_gbs: fast");
  expectRefused("device: h100\nintra_node: {bandwidth_gbs: -1}\n",
                "c.yaml:2: bandwidth_gbs is too small: -1");
  expectRefused("device: h100\nintra_node: 3\n", "c.yaml:2: intra_node must be a map");
  expectRefused("- 1\n- 2\n", "c.yaml:1: the cluster must be a map");
  expectRefused("device: h100\n" + links + "measured: {forks: {threads: 2, seconds: 1}}\n",
                "c.yaml:3: forks must be a list");
  expectRefused("groups: 2\n", "c.yaml:1: groups must be a list");
  expectRefused("device: h100\n" + links + "device: a100-80\n",
                "c.yaml:3: the cluster has a key twice: device");
  expectRefused("device: h100\n" + links + "---\ndevice: h100\n" + links,
                "c.yaml: expected one YAML document, found a second one");
  expectRefused("device: h100\n" + links + "software: {flash_attention: 4}\n",
                "c.yaml:3: flash_attention is too large: 4");
  EXPECT_EQ(clusterFromYaml("device: [", "c.yaml").error().category, ErrorCategory::InputRefused);
  EXPECT_EQ(clusterFromYaml("", "c.yaml").error().category, ErrorCategory::InputRefused);
}

TEST(Cluster, RefusesWhatCannotBe) {
  const std::string head = "device: h100\ndevices_per_node: 8\n";
  expectRefused(head + "intra_node: {bandwidth_gbs: 450, acheived: 0.8}\n",
                "c.yaml:3: unknown key in intra_node: acheived (did you mean achieved?)",
                ErrorCategory::Usage);
  expectRefused(head + "intra_node: {bandwidth_gbs: 450, achieved: 80}\n",
                "c.yaml:3: achieved is a share of the bandwidth, at most 1: 80");
  expectRefused(head +
                    "links:\n - {size: 8, bandwidth_gbs: 450}\n - {size: 12, bandwidth_gbs: 50}\n",
                "c.yaml:4: a level of links must join several of the one below: link");
  expectRefused(head + "intra_node: {bandwidth_gbs: 450, ring_gbs: {x: 3}}\n",
                "c.yaml:3: ring_gbs is by number of ranks: x");
  expectRefused("node: dgx-h10\n", "c.yaml:1: unknown node: dgx-h10 (did you mean dgx-h100?)");
  expectRefused("device: h100\nintra_node: {bandwidth_gbs: 450}\ninter_node: {bandwidth_gbs: 50}\n",
                "c.yaml:3: inter_node needs the key: devices_per_node");
  expectRefused("device: {memory_gb: 4, bandwidth_gbs: 10, peak_tflops: {fp32: 1}, "
                "architecture: hoper}\nintra_node: {bandwidth_gbs: 1}\n",
                "c.yaml:1: unknown architecture: hoper");
  expectRefused("device: {memory_gb: 4, bandwidth_gbs: 10, peak_tflops: {fp32: 1}, "
                "architecture: hopper}\nintra_node: {bandwidth_gbs: 1}\n",
                "c.yaml:1: architecture and multiprocessors are given together or not at all");
  expectRefused("groups:\n - {node: p4d}\ninter_node: {bandwidth_gbs: 1}\n",
                "c.yaml:2: groups lacks the key: nodes");
  const std::string group = "groups:\n - {device: h100, nodes: 2, devices_per_node: 8, ";
  const std::string outer = "inter_node: {bandwidth_gbs: 1}\n";
  expectRefused(group + "intra_node: {bandwidth_gbs: 1}, inter_node: {bandwidth_gbs: 1}}\n" + outer,
                "c.yaml:2: inter_node belongs to the cluster, not to one of its groups");
  expectRefused(group + "links: [{size: 8, bandwidth_gbs: 2}, {name: far, bandwidth_gbs: 1}]}\n" +
                    outer,
                "c.yaml:2: a group's links join the devices of a node: far");
  expectRefused(head + "intra_node: {bandwidth_gbs: 450, ring_gbs: 5}\n",
                "c.yaml:3: ring_gbs must be a map");
  expectRefused("groups: []\ninter_node: {bandwidth_gbs: 1}\n", "c.yaml:1: groups is empty");
}

/// Sums and products of what a file says fit into their types.
TEST(Cluster, RefusesNumbersThatAreTooLarge) {
  const std::string head = "device: h100\nintra_node: {bandwidth_gbs: 1}\n";
  for (std::string key : {"norm_temporaries", "update_temporaries"}) {
    EXPECT_TRUE(clusterFromYaml(head + "software: {" + key + ": 100}\n", "c.yaml"));
    for (std::string many : {"101", "9223372036854775807"})
      expectRefused(head + "software: {" + key + ": " + many + "}\n",
                    "c.yaml:3: " + key + " is too large: " + many);
  }
  const std::string links = "\nintra_node: {bandwidth_gbs: 1}\n";
  for (std::string memory : {"2e9", "1e300", ".inf"})
    expectRefused("device: {base: h100, memory_gb: " + memory + "}" + links,
                  "c.yaml:1: memory_gb is too large: " + memory);
  expectRefused("device: {base: h100, memory_gb: .nan}" + links,
                "c.yaml:1: memory_gb is too small: .nan");
  for (std::string memory : {"0", "-1"})
    expectRefused(head + "host_memory_gb: " + memory + "\n",
                  "c.yaml:3: host_memory_gb is too small: " + memory);
  expectRefused(head + "host_memory_gb: 2e9\n", "c.yaml:3: host_memory_gb is too large: 2e9");
  expectRefused("groups:\n - {node: p4d, nodes: 1}\nhost_memory_gb: 9\n"
                "inter_node: {bandwidth_gbs: 1}\n",
                "c.yaml:3: unknown key in the cluster: host_memory_gb", ErrorCategory::Usage);
  expectRefused("device: {base: h100, multiprocessors: 16777217}" + links,
                "c.yaml:1: multiprocessors is too large: 16777217");
  for (std::string bandwidth : {"1e300", ".inf"})
    expectRefused("device: h100\nintra_node: {bandwidth_gbs: " + bandwidth + "}\n",
                  "c.yaml:2: bandwidth_gbs is too large: " + bandwidth);
  expectRefused("groups:\n - {node: dgx-h100, nodes: 1048576}\n - {node: p4d, nodes: 1}\n"
                "inter_node: {bandwidth_gbs: 1}\n",
                "c.yaml:2: groups have more than 1048576 devices: 8388616");
}

TEST(Cluster, UnknownNamesAreUsageErrors) {
  EXPECT_EQ(loadCluster("dgx-h10").error().message,
            "unknown cluster: dgx-h10 (did you mean dgx-h100?)");
  EXPECT_EQ(loadCluster("dgx-h10").error().category, ErrorCategory::Usage);
  EXPECT_EQ(loadCluster(std::string(1000, 'c')).error().category, ErrorCategory::Usage);
  EXPECT_EQ(loadCluster("./no/such/file.yaml").error().category, ErrorCategory::InputRefused);
}
