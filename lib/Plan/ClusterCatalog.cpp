// Figures of data sheets, dense rates. `achieved` is the best rate measured on
// large matrix products where a measurement is published.
#include "ClusterCatalog.h"

#include <algorithm>
#include <thread>
#include <unistd.h>

namespace dtc::plan {

namespace {

struct DeviceRow {
  const char *name;
  double memoryGB, bandwidthGBs, fp32Tflops, halfTflops, achievedHalfTflops;
  double linkGBs; ///< to the other devices of a node, per direction
  Architecture architecture;
  int64_t multiprocessors;
};

struct NodeRow {
  const char *name, *device;
  int64_t devices;
  double networkGBs; ///< per device and direction
};

} // namespace

static constexpr DeviceRow deviceRows[] = {
    {"v100", 32, 900, 15.7, 125, 95, 150, Architecture::Volta, 80},
    {"a10g", 24, 600, 35, 70, 55, 16, Architecture::Ampere, 80},
    {"a100-40", 40, 1555, 19.5, 312, 271, 300, Architecture::Ampere, 108},
    {"a100-80", 80, 2039, 19.5, 312, 271, 300, Architecture::Ampere, 108},
    {"l40s", 48, 864, 91.6, 362, 270, 28, Architecture::Ada, 142},
    {"h100", 80, 3350, 67, 989.5, 794, 450, Architecture::Hopper, 132},
    {"h200", 141, 4800, 67, 989.5, 794, 450, Architecture::Hopper, 132},
    {"b200", 180, 8000, 80, 2250, 1745, 900, Architecture::Blackwell, 148},
};

static constexpr NodeRow nodeRows[] = {
    {"dgx-a100", "a100-80", 8, 25}, {"dgx-h100", "h100", 8, 50}, {"dgx-h200", "h200", 8, 50},
    {"dgx-b200", "b200", 8, 50},    {"p4d", "a100-40", 8, 6.25}, {"p5", "h100", 8, 50},
};

static DeviceSpec toDevice(const DeviceRow &row) {
  DeviceSpec device;
  device.name = row.name;
  device.memoryBytes = row.memoryGB * 1e9;
  device.bandwidth = row.bandwidthGBs * 1e9;
  device.peak = {{DType::F32, row.fp32Tflops * 1e12},
                 {DType::BF16, row.halfTflops * 1e12},
                 {DType::F16, row.halfTflops * 1e12}};
  device.achieved = {{DType::BF16, row.achievedHalfTflops * 1e12},
                     {DType::F16, row.achievedHalfTflops * 1e12}};
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
  cluster.device.launchSeconds = 1.5e-6;
  cluster.levels = {{"memory", 0, 8e9, 3.5e-6}};
  return cluster;
}

static Cluster gpuCluster(const std::string &name, const DeviceRow &device, int64_t perNode,
                          double networkGBs) {
  Cluster cluster;
  cluster.name = name;
  cluster.device = toDevice(device);
  cluster.devicesPerNode = perNode;
  cluster.levels = {{"intra_node", perNode, device.linkGBs * 1e9, 3.4e-6},
                    {"inter_node", 0, networkGBs * 1e9, 14e-6}};
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

std::optional<Cluster> builtinCluster(const std::string &name) {
  if (name == "cpu")
    return cpuCluster();
  for (const NodeRow &row : nodeRows)
    if (name == row.name)
      return gpuCluster(name, *findDevice(row.device), row.devices, row.networkGBs);
  if (const DeviceRow *device = findDevice(name))
    return gpuCluster(name, *device, 8, 25);
  return std::nullopt;
}

} // namespace dtc::plan
