// Built-in devices and nodes, a row each.
//
// Sources, named in the last column of the tables:
//   sheet   NVIDIA's data sheets and architecture papers (dense rates)
//   mle     stas00/ml-engineering: accelerator, network and benchmark pages; its
//           MAMF, the best rate of a bf16 product over a search of shapes
//   gtc     NVIDIA GTC 2024 S62129, bus bandwidths of large all-reduces
//   vtrain  VIA-Research/vTrain, tables of nccl-tests
//   cloud   the provider's page of the instance
#include "ClusterCatalog.h"

#include <algorithm>
#include <thread>
#include <unistd.h>

namespace dtc::plan {

namespace {

struct DeviceRow {
  const char *name;
  Architecture architecture;
  int64_t multiprocessors;
  double memoryGiB; ///< as the driver reports it: what a program may ask for
  double bandwidthGBs;
  double fp32Tflops, halfTflops;
  double achievedTflops; ///< of large bf16 products, fp16 on V100; 0: not published
};

/// How the devices of a node are joined.
struct Wiring {
  double bandwidthGBs, latencyUs; ///< per device and direction; a hop with NCCL's Simple
  double achieved, inSwitch;      ///< shares of it, as in LinkLevel
  std::map<int64_t, double> ringGBs;
};

enum class Fabric : uint8_t { Ethernet, Rdma, Rails };

struct NodeRow {
  const char *name, *device;
  int64_t devices;
  const char *wiring;
  double cardGBs; ///< of one network card, per direction
  int64_t cards;
  Fabric fabric;
  int64_t leafNodes; ///< below one leaf switch of a rail; 0: nothing is known
  double hostGiB;    ///< of the host's memory; 0: nothing is known
};

} // namespace

using enum Architecture;
using enum Fabric;

// Memory: total_memory of the CUDA runtime, as PyTorch prints it.
// Achieved: mle's MAMF. The 500 W variant of the H100 runs at (500/700)^(1/3) of
// the clock, by the cube law of dynamic power.
static constexpr DeviceRow deviceRows[] = {
    // name       architecture SMs   GiB    GB/s  fp32  half    achieved
    {"v100-16",   Volta,        80,  15.78,  900, 15.7, 125,    0},    // sheet
    {"v100",      Volta,        80,  31.75,  900, 15.7, 125,    0},    // sheet
    {"a10g",      Ampere,       80,  22.06,  600, 35,   70,     0},    // sheet, cloud
    {"a100-40",   Ampere,      108,  39.39, 1555, 19.5, 312,    271.2}, // sheet, mle
    {"a100-80",   Ampere,      108,  79.15, 2039, 19.5, 312,    271.2}, // sheet, mle
    {"a800",      Ampere,      108,  79.15, 2039, 19.5, 312,    271.2}, // an A100, half its links
    {"l4",        Ada,          58,  22.03,  300, 30.3, 121,    0},    // sheet
    {"l40s",      Ada,         142,  44.40,  864, 91.6, 362,    0},    // sheet, mle
    {"h100",      Hopper,      132,  79.10, 3350, 67,   989.5,  794.5}, // sheet, mle
    {"h100-96",   Hopper,      132,  95.00, 2400, 67,   989.5,  710},  // torchtitan's 500 W variant
    {"h200",      Hopper,      132, 139.80, 4800, 67,   989.5,  794.5}, // sheet, mle
    {"b200",      Blackwell,   148, 178.35, 8000, 80,   2250,   1745}, // sheet, mle
    {"b300",      Blackwell,   160, 267.60, 8000, 80,   2250,   1769}, // sheet, mle
    {"gb200",     Blackwell,   152, 184.30, 8000, 80,   2500,   1822}, // sheet, mle
    {"gb300",     Blackwell,   160, 276.50, 8000, 80,   2500,   0},    // sheet
};

/// NVLink latencies are NCCL's tuning constants. A hybrid cube mesh has as many rings as the chosen
/// devices leave (vtrain, 2 to 8 of 8 V100). An A100 reaches less with few neighbours (vtrain).
/// In-switch reductions: 473 of 450 GB/s bus bandwidth on 8 H200 and 838 of 900 on 8 B200 (mle), of
/// which 9/14 passes a link.
static const std::pair<const char *, Wiring> wirings[] = {
    {"nvlink2-mesh",
     {150, 3.4, 0.9, 0,
      {{2, 22.6}, {3, 45.2}, {4, 85.8}, {5, 37.1}, {6, 45.9}, {7, 87.5}, {8, 136}}}},
    {"nvlink2", {150, 3.4, 0.82, 0, {}}},                                    // gtc: 122
    {"nvlink3", {300, 3.4, 0.79, 0, {{2, 205}, {3, 220}, {4, 230}}}},        // gtc: 232; vtrain
    {"nvlink3-half", {200, 3.4, 0.79, 0, {}}},                               // sheet
    {"nvlink4", {450, 3.4, 0.82, 0.69, {}}},                                 // gtc: 370; mle
    {"nvlink5", {900, 3.4, 0.755, 0.6, {}}},                                 // mle: 680
    {"pcie4", {32, 5.7, 0.75, 0, {}}},                                       // gtc: 24
};

// gtc: 192 of 200 GB/s in a DGX A100 pod, 380 of 400 with H100; 10 of 12.5 over TCP.
// Host: GiB, by NVIDIA's data sheets (what a DGX comes with; Blackwell's can have 4096) and the
// providers' pages. An NVL72 rack has 18 hosts, each of 4 GPUs: it isn't one.
static constexpr NodeRow nodeRows[] = {
    // name        device     GPUs  wiring     GB/s  cards  fabric  leaf  host
    {"dgx-1",       "v100",     8, "nvlink2-mesh", 12.5, 4, Rdma,      0,  512}, // sheet
    {"dgx-2",       "v100",    16, "nvlink2",  12.5,   8, Rdma,      0, 1536}, // sheet
    {"dgx-a100",    "a100-80",  8, "nvlink3",  25,     8, Rails,    20, 2048}, // sheet: units of 20
    {"dgx-h100",    "h100",     8, "nvlink4",  50,     8, Rails,    32, 2048}, // sheet: units of 32
    {"dgx-h200",    "h200",     8, "nvlink4",  50,     8, Rails,    32, 2048}, // sheet
    {"dgx-b200",    "b200",     8, "nvlink5",  50,     8, Rails,    32, 2048}, // sheet
    {"dgx-b300",    "b300",     8, "nvlink5",  100,    8, Rails,    64, 2048}, // mle
    {"gb200-nvl72", "gb200",   72, "nvlink5",  50,    72, Rdma,      0,    0}, // sheet
    {"gb300-nvl72", "gb300",   72, "nvlink5",  100,   72, Rdma,      0,    0}, // sheet
    {"p3dn",        "v100",     8, "nvlink2-mesh", 12.5, 1, Rdma,      0,  768}, // cloud: AWS
    {"p3",          "v100-16",  8, "nvlink2-mesh", 3.125, 1, Ethernet,  0,  488}, // cloud: 16xlarge
    {"p4d",         "a100-40",  8, "nvlink3",  12.5,   4, Rdma,      0, 1152}, // mle: AWS
    {"p4de",        "a100-80",  8, "nvlink3",  12.5,   4, Rdma,      0, 1152}, // mle: AWS
    {"p5",          "h100",     8, "nvlink4",  12.5,  32, Rdma,      0, 2048}, // mle: AWS
    {"p5e",         "h200",     8, "nvlink4",  12.5,  32, Rdma,      0, 2048}, // mle: AWS
    {"p5en",        "h200",     8, "nvlink4",  25,    16, Rdma,      0, 2048}, // mle: AWS
    {"p6-b200",     "b200",     8, "nvlink5",  50,     8, Rdma,      0, 2048}, // mle: AWS
    {"g5",          "a10g",     8, "pcie4",    12.5,   1, Ethernet,  0,  768}, // cloud: 48xlarge
    {"g6",          "l4",       8, "pcie4",    12.5,   1, Ethernet,  0,  768}, // cloud: 48xlarge
    {"g6e",         "l40s",     8, "pcie4",    12.5,   4, Ethernet,  0, 1536}, // cloud: 48xlarge
    {"a3-high",     "h100",     8, "nvlink4",  25,     4, Rdma,      0, 1872}, // mle: Google Cloud
    {"a3-mega",     "h100",     8, "nvlink4",  25,     8, Rails,     0, 1872}, // mle: Google Cloud
    {"a3-ultra",    "h200",     8, "nvlink4",  50,     8, Rails,     0, 2952}, // cloud: Google
    {"nd-a100-v4",  "a100-80",  8, "nvlink3",  25,     8, Rails,     0, 1900}, // cloud: Azure
    {"nd-h100-v5",  "h100",     8, "nvlink4",  50,     8, Rails,     0, 1900}, // cloud: Azure
    {"a800-node",   "a800",     8, "nvlink3-half", 25, 8, Rdma,      0,    0}, // sheet
    {"grand-teton", "h100-96",  8, "nvlink4",  50,     8, Rdma,      0,    0}, // torchtitan
};

/// Microseconds of a hop through network cards (NCCL's tuning constants), and
/// through two more switches.
static constexpr double kNetworkUs = 14, kEthernetUs = 30, kSpineUs = 15;

static DeviceSpec toDevice(const DeviceRow &row) {
  DeviceSpec device;
  device.name = row.name;
  device.memoryBytes = row.memoryGiB * 1024 * 1024 * 1024;
  device.bandwidth = row.bandwidthGBs * 1e9;
  // Volta has no bf16 units: a plan in bf16 holds for a run in fp16.
  device.peak = {{DType::F32, row.fp32Tflops * 1e12},
                 {DType::BF16, row.halfTflops * 1e12},
                 {DType::F16, row.halfTflops * 1e12}};
  if (row.achievedTflops > 0)
    device.achieved = {{DType::BF16, row.achievedTflops * 1e12},
                       {DType::F16, row.achievedTflops * 1e12}};
  device.launchSeconds = 4e-6;
  device.architecture = row.architecture;
  device.multiprocessors = row.multiprocessors;
  return device;
}

static const DeviceRow *findDevice(const std::string &name) {
  for (const DeviceRow &row : deviceRows)
    if (name == row.name)
      return &row;
  return nullptr;
}

std::optional<DeviceSpec> builtinDevice(const std::string &name) {
  const DeviceRow *row = findDevice(name);
  return row ? std::optional(toDevice(*row)) : std::nullopt;
}

std::vector<std::string> builtinDevices() {
  std::vector<std::string> names;
  for (const DeviceRow &row : deviceRows)
    names.push_back(row.name);
  return names;
}

/// This machine: ranks share its cores and memory. Rates are of one core of a
/// current server; `dtc calibrate` replaces them by measured ones.
static Cluster cpuCluster() {
  Cluster cluster;
  cluster.name = "cpu";
  cluster.sharedMemory = true;
  cluster.cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  cluster.device.name = "cpu";
  cluster.device.memoryBytes = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGE_SIZE));
  cluster.device.bandwidth = 30e9;
  cluster.device.peak = {{DType::F32, 280e9}, {DType::F64, 140e9}, {DType::BF16, 560e9},
                         {DType::F16, 280e9}};
  cluster.device.achieved = {{DType::F32, 200e9}, {DType::F64, 90e9}, {DType::BF16, 400e9},
                             {DType::F16, 100e9}};
  cluster.device.launchSeconds = 0.3e-6;
  cluster.forks = {{2, 3e-6}, {32, 12e-6}};
  cluster.levels = {{"memory", 0, 8e9, 3.5e-6}};
  return cluster;
}

static LinkLevel insideNode(const NodeRow &row) {
  const Wiring &wiring =
      std::find_if(std::begin(wirings), std::end(wirings),
                   [&](const auto &w) { return std::string_view(row.wiring) == w.first; })
          ->second;
  LinkLevel level{row.wiring, row.devices, wiring.bandwidthGBs * 1e9, wiring.latencyUs * 1e-6};
  level.achieved = wiring.achieved;
  level.inSwitch = wiring.inSwitch;
  for (auto [ranks, bandwidth] : wiring.ringGBs)
    level.rings[ranks] = bandwidth * 1e9;
  return level;
}

/// Devices share their node's cards.
static LinkLevel network(const NodeRow &row) {
  double total = row.cardGBs * double(row.cards) * 1e9;
  bool ethernet = row.fabric == Ethernet;
  LinkLevel level{row.fabric == Rails ? "rails" : "network", 0,
                  total / double(row.devices), (ethernet ? kEthernetUs : kNetworkUs) * 1e-6};
  level.achieved = ethernet ? 0.8 : 0.95;
  if (row.cards < row.devices)
    level.alone = row.cardGBs * 1e9;
  return level;
}

static Cluster nodeCluster(const std::string &name, const NodeRow &row) {
  Cluster cluster;
  cluster.name = name;
  cluster.device = toDevice(*findDevice(row.device));
  cluster.devicesPerNode = row.devices;
  cluster.hostMemoryBytes = row.hostGiB * 1024 * 1024 * 1024;
  cluster.levels = {insideNode(row), network(row)};
  if (row.leafNodes > 0) {
    LinkLevel spine = cluster.levels.back();
    spine.name = "spine";
    spine.latency = kSpineUs * 1e-6;
    cluster.levels.back().size = row.leafNodes * row.devices;
    cluster.levels.push_back(spine);
  }
  return cluster;
}

std::vector<std::string> builtinClusters() {
  std::vector<std::string> names = {"cpu"};
  for (const NodeRow &row : nodeRows)
    names.push_back(row.name);
  for (const DeviceRow &row : deviceRows)
    names.push_back(row.name);
  return names;
}

/// A device's name stands for the first node that has it.
std::optional<Cluster> builtinCluster(const std::string &name) {
  if (name == "cpu")
    return cpuCluster();
  for (const NodeRow &row : nodeRows)
    if (name == row.name || name == row.device)
      return nodeCluster(name, row);
  return std::nullopt;
}

} // namespace dtc::plan
