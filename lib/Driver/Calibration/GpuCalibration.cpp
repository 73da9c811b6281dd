#include "GpuCalibration.h"

#include "dtc-rt/CUDA/CudaPlatform.h"
#include "dtc-rt/CUDA/GpuFacts.h"
#include "dtc-rt/Threads/ThreadCommunicator.h"
#include "dtc/Plan/Cost/CostModel.h"
#include "dtc/Plan/Cost/StreamShare.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <thread>

namespace dtc::driver {
namespace {

using namespace rt;
using Clock = std::chrono::steady_clock;

/// What one measurement may take at most. A slow device, as an emulated one, gets smaller work.
constexpr double kMostSeconds = 0.25;
constexpr uint64_t kScratch = uint64_t(32) << 20;
/// Of sizes that are tried in their order.
constexpr int64_t kSquares[] = {64, 256, 512, 1024, 2048, 4096, 8192};
constexpr uint64_t kCopies[] = {uint64_t(1) << 16, uint64_t(16) << 20, uint64_t(256) << 20,
                                uint64_t(1) << 30};
constexpr int64_t kSequences[] = {32, 256, 1024, 4096};
constexpr int64_t kMessages[] = {int64_t(4) << 10, int64_t(64) << 10, int64_t(1) << 20,
                                 int64_t(16) << 20, int64_t(64) << 20};
constexpr std::chrono::seconds kTimeLimit(120);

/// A rank's GPU with one queue and some memory, in which all that is measured works.
class Bench {
public:
  static Result<std::unique_ptr<Bench>> create(Platform &platform, Communicator &communicator,
                                               uint64_t bytes) {
    auto device = platform.createDevice(communicator, {});
    if (!device)
      return device.status();
    std::unique_ptr<Bench> bench(new Bench(std::move(*device)));
    const QueueSpec spec{"calibration", QueueKind::Compute};
    auto queues = bench->device->createQueues({&spec, 1});
    if (!queues)
      return queues.status();
    bench->queues = std::move(*queues);
    auto memory = bench->device->allocate(Space::Device, bytes);
    if (!memory)
      return memory.status();
    bench->memory = std::move(*memory);
    return bench;
  }

  /// Seconds of one operation whose addresses begin at these offsets. It is the best of three
  /// rounds of as many as take some 20 ms, or of `calls` where ranks have to make equally many.
  Result<double> secondsOf(const OperationSpec &spec, const std::vector<uint64_t> &offsets,
                           int64_t calls = 0) {
    auto operation = device->prepare(*queues.front(), spec, "calibration");
    if (!operation)
      return operation.status();
    std::vector<Address> addresses;
    for (uint64_t offset : offsets)
      addresses.push_back(memory->base() + offset);
    auto round = [&](int64_t count) -> Result<double> {
      const Clock::time_point start = Clock::now();
      for (int64_t i = 0; i < count; ++i)
        if (Status status = (*operation)->issue(addresses); !status.isOk())
          return status;
      if (Status status = queues.front()->synchronize(); !status.isOk())
        return status;
      return std::chrono::duration<double>(Clock::now() - start).count();
    };
    Result<double> once = round(1); // warms up
    if (once)
      once = round(1);
    if (!once)
      return once;
    const int64_t count =
        calls ? calls : std::clamp<int64_t>(int64_t(0.02 / std::max(*once, 1e-9)), 1, 2000);
    double best = *once;
    for (int i = 0; i < 3; ++i) {
      Result<double> seconds = round(count);
      if (!seconds)
        return seconds;
      best = std::min(best, *seconds / double(count));
    }
    return best;
  }

private:
  explicit Bench(std::unique_ptr<Device> device) : device(std::move(device)) {}

  std::unique_ptr<Device> device;
  std::vector<std::unique_ptr<Queue>> queues;
  std::unique_ptr<Memory> memory;
};

/// Runs a body on as many GPUs, each on a thread of its own; the first failure ends all.
Status onGpus(int count, uint64_t bytes, const std::function<Status(Bench &, int rank)> &body) {
  std::unique_ptr<Platform> platform = createCudaPlatform();
  ThreadWorld world(count, kTimeLimit);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      std::unique_ptr<Communicator> communicator = world.communicator(rank);
      Result<std::unique_ptr<Bench>> bench = Bench::create(*platform, *communicator, bytes);
      Status status = bench ? body(**bench, rank) : bench.status();
      if (!status.isOk())
        communicator->abort(status);
    });
  for (std::thread &thread : threads)
    thread.join();
  return world.abortReason();
}

StridedTensor dense(fbs::DType type, Dims shape) {
  Dims strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;)
    strides[dim - 1] = strides[dim] * shape[dim];
  return {type, std::move(shape), std::move(strides)};
}

uint64_t aligned(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

/// Calls measure(size), which says seconds, of one size after another while they don't take long.
/// `growth` says how much longer the next size takes at most.
template <typename Sizes, typename Measure>
Status whileFast(const Sizes &sizes, double growth, Measure &&measure) {
  double seconds = 0;
  for (auto size : sizes) {
    if (seconds * growth > kMostSeconds)
      break;
    Result<double> took = measure(size);
    if (!took)
      return took.status();
    seconds = *took;
  }
  return Status::ok();
}

/// Collects what one GPU does alone into a cluster.
class OneGpu {
public:
  OneGpu(Bench &bench, uint64_t bytes, plan::Cluster &into)
      : bench(bench), bytes(bytes), into(into) {}

  Status run() {
    for (Status (OneGpu::*measure)() :
         {&OneGpu::products, &OneGpu::bandwidth, &OneGpu::launches, &OneGpu::attention})
      if (Status status = (this->*measure)(); !status.isOk())
        return status;
    return Status::ok();
  }

private:
  Status products() {
    for (auto [type, element] : {std::pair(plan::DType::F32, fbs::DType::F32),
                                 std::pair(plan::DType::BF16, fbs::DType::BF16),
                                 std::pair(plan::DType::F16, fbs::DType::F16)}) {
      double best = 0;
      if (Status status = products(element, /*tf32=*/false, best); !status.isOk())
        return status;
      into.device.achieved[type] = best;
      if (!into.device.peak.contains(type))
        into.device.peak[type] = best;
    }
    return into.device.architecture == plan::Architecture::Volta // which has no TF32
               ? Status::ok()
               : products(fbs::DType::F32, /*tf32=*/true, into.device.achievedTF32);
  }

  /// The best rate of square ones.
  Status products(fbs::DType element, bool tf32, double &best) {
    best = 0;
    const uint64_t size = element == fbs::DType::F32 ? 4 : 2;
    return whileFast(kSquares, 8, [&](int64_t n) -> Result<double> {
      const uint64_t matrix = aligned(size * n * n);
      if (3 * matrix + kScratch > bytes)
        return kMostSeconds;
      StridedTensor square = dense(element, {n, n});
      MatmulSpec spec{{square, square, square}, kScratch};
      spec.call.tf32 = tf32;
      Result<double> seconds = bench.secondsOf(spec, {0, matrix, 2 * matrix, 3 * matrix});
      if (seconds)
        best = std::max(best, 2 * std::pow(double(n), 3) / *seconds);
      return seconds;
    });
  }

  /// A copy reads and writes.
  Status bandwidth() {
    double best = 0;
    Status status = whileFast(kCopies, 256, [&](uint64_t size) -> Result<double> {
      if (2 * size > bytes)
        return kMostSeconds;
      Result<double> seconds = bench.secondsOf(CopySpec{size}, {0, size});
      if (seconds)
        best = std::max(best, 2 * double(size) / *seconds);
      return seconds;
    });
    into.device.bandwidth = best / plan::kStreamShare;
    return status;
  }

  Status launches() {
    Result<double> seconds = bench.secondsOf(ConstantSpec{}, {0});
    if (seconds)
      into.device.launchSeconds = *seconds;
    return seconds ? Status::ok() : seconds.status();
  }

  /// Causal, 16 heads of 64 numbers, in bf16.
  Status attention() {
    constexpr int64_t kHeads = 16, kWidth = 64;
    for (bool isBackward : {false, true}) {
      double &rate = isBackward ? into.device.attention.backward : into.device.attention.forward;
      Status status = whileFast(kSequences, 64, [&](int64_t length) -> Result<double> {
        AttentionSpec spec;
        spec.call.kind = isBackward ? fbs::AttentionKind::Backward : fbs::AttentionKind::Forward;
        spec.call.scale = 0.125;
        spec.call.causal = true;
        const uint64_t step = aligned(2 * length * kHeads * kWidth);
        std::vector<uint64_t> offsets;
        for (int i = 0; i < (isBackward ? 9 : 5); ++i) {
          spec.call.tensors.push_back(i == 4
                                          ? dense(fbs::DType::F32, {1, kHeads, length})
                                          : dense(fbs::DType::BF16, {1, length, kHeads, kWidth}));
          offsets.push_back(i * step);
        }
        spec.scratchBytes = kScratch + 16 * step;
        offsets.push_back(offsets.size() * step);
        if (offsets.back() + spec.scratchBytes > bytes)
          return kMostSeconds;
        Result<double> seconds = bench.secondsOf(spec, offsets);
        plan::LocalWork work;
        work.batch = kHeads;
        work.m = work.n = length;
        work.k = kWidth;
        work.causal = true;
        work.backward = isBackward;
        if (seconds)
          rate = std::max(rate, plan::attentionRate(work, into.device.multiprocessors, *seconds));
        return seconds;
      });
      if (!status.isOk())
        return status;
    }
    return Status::ok();
  }

  Bench &bench;
  uint64_t bytes;
  plan::Cluster &into;
};

using sharding::StepKind;

fbs::CollectiveKind collectiveOf(StepKind kind) {
  switch (kind) {
  case StepKind::AllGather:
    return fbs::CollectiveKind::AllGather;
  case StepKind::ReduceScatter:
    return fbs::CollectiveKind::ReduceScatter;
  default:
    return fbs::CollectiveKind::AllReduce;
  }
}

/// Collectives of the first so many GPUs, in a table by kind and bytes.
Status measureCollectives(int ranks, uint64_t bytes, plan::Cluster &cluster) {
  constexpr int64_t kCalls = 5;
  std::vector<int> all;
  for (int rank = 0; rank < ranks; ++rank)
    all.push_back(rank);
  return onGpus(ranks, bytes, [&](Bench &bench, int rank) {
    for (StepKind kind : {StepKind::AllReduce, StepKind::AllGather, StepKind::ReduceScatter})
      for (int64_t size : kMessages) {
        const bool isSlow = double(size) > kMostSeconds / 10 * cluster.device.bandwidth;
        if (2 * uint64_t(size) > bytes || (isSlow && size > kMessages[0]))
          break;
        CollectiveSpec spec;
        spec.kind = collectiveOf(kind);
        spec.ranks = all;
        const int64_t count = size / int64_t(sizeof(float));
        spec.shapes = {{kind == StepKind::AllGather ? count / ranks : count}};
        spec.dim = kind == StepKind::AllReduce ? -1 : 0;
        Result<double> seconds = bench.secondsOf(spec, {0, uint64_t(size)}, kCalls);
        if (!seconds)
          return seconds.status();
        if (rank == 0)
          cluster.collectives.push_back({kind, ranks, size, *seconds});
      }
    return Status::ok();
  });
}

/// "h100" of "NVIDIA H100 80GB HBM3".
bool isNamed(const std::string &gpu, const std::string &device) {
  std::string low;
  for (char c : gpu)
    low += static_cast<char>(std::isalnum(static_cast<unsigned char>(c))
                                 ? std::tolower(static_cast<unsigned char>(c))
                                 : ' ');
  return (" " + low + " ").find(" " + device.substr(0, device.find('-')) + " ") !=
         std::string::npos;
}

plan::Architecture architectureOf(int major) {
  return major >= 10  ? plan::Architecture::Blackwell
         : major == 9 ? plan::Architecture::Hopper
         : major == 8 ? plan::Architecture::Ampere
                      : plan::Architecture::Volta;
}

/// The built-in cluster whose devices have the name and the nearest memory. Else it is one of
/// devices of which nothing is known but what the driver says, behind PCIe.
Result<plan::Cluster> knownCluster(const GpuFacts &facts) {
  std::string best;
  double least = HUGE_VAL;
  for (const std::string &device : plan::builtinDevices()) {
    if (!isNamed(facts.name, device))
      continue;
    auto cluster = plan::loadCluster(device);
    if (!cluster)
      return failed(cluster.error().message);
    double apart = std::abs(cluster->device.memoryBytes - double(facts.memoryBytes));
    if (apart < least)
      best = device;
    least = std::min(apart, least);
  }
  auto cluster = plan::loadCluster(best.empty() ? "l4" : best);
  if (!cluster)
    return failed(cluster.error().message);
  if (best.empty()) {
    cluster->hostMemoryBytes = 0;
    cluster->device = {};
    cluster->device.name = facts.name;
    cluster->device.architecture = architectureOf(facts.major);
  }
  return std::move(*cluster);
}

} // namespace

Result<plan::Cluster> measureGpus() {
  Result<GpuFacts> facts = findGpus();
  if (!facts)
    return facts.status();
  Result<plan::Cluster> known = knownCluster(*facts);
  if (!known)
    return known.status();
  plan::Cluster cluster = std::move(*known);
  cluster.name = "calibrated";
  cluster.device.memoryBytes = double(facts->memoryBytes);
  cluster.device.multiprocessors = facts->multiprocessors;
  const uint64_t bytes = std::min<uint64_t>(uint64_t(3) << 30, facts->freeBytes / 2);
  Status status =
      onGpus(1, bytes, [&](Bench &bench, int) { return OneGpu(bench, bytes, cluster).run(); });
  const int most = static_cast<int>(std::min<int64_t>(
      facts->count, cluster.devicesPerNode ? cluster.devicesPerNode : facts->count));
  for (int ranks = 2; status.isOk() && ranks <= most; ranks *= 2)
    status = measureCollectives(ranks, std::min<uint64_t>(bytes, uint64_t(256) << 20), cluster);
  if (!status.isOk())
    return status;
  return cluster;
}

} // namespace dtc::driver
