// dtc calibrate: measures this machine with the very primitives a run uses.
#include "../Commands.h"
#include "GpuCalibration.h"
#include "OwnCluster.h"
#include "dtc/Driver/Diagnostics.h"
#include "dtc/Driver/WriteText.h"

#include "dtc-cpu/LibraryCalls.h"
#include "dtc-rt/CPU/ThreadTeam.h"
#include "dtc-rt/Program/MappedFile.h"
#include "dtc-rt/Threads/ThreadCommunicator.h"
#include "dtc/Plan/Plan/Cluster.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>
#include <unistd.h>

extern "C" void omp_set_num_threads(int);

namespace dtc::driver {

/// What one thread does alone is timed by the time that it has a core for. What several do together
/// is timed by the clock on the wall.
enum class Timed { Core, Wall };

static double now(Timed timed) {
  timespec time;
  clock_gettime(timed == Timed::Core ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

/// Seconds of one call: the best of several batches of calls. What else runs on the machine only
/// adds to the time (Chen and Revels, Robust benchmarking in noisy environments, 2016). By the
/// clock on the wall that is all of what other programs run meanwhile, so that batches are short.
template <typename Call> static double secondsOf(Timed timed, Call call) {
  auto time = [&](int64_t count) {
    double start = now(timed);
    for (int64_t i = 0; i < count; ++i)
      call();
    return now(timed) - start;
  };
  const double batch = timed == Timed::Core ? 0.02 : 0.001;
  const int batches = timed == Timed::Core ? 5 : 100;
  time(1); // warm-up: pages, primitive caches
  double once = time(1);
  for (int i = 1; i < 5; ++i)
    once = std::min(once, time(1));
  const auto count = std::max<int64_t>(1, int64_t(batch / std::max(once, 1e-9)));
  double best = time(count);
  for (int i = 1; i < batches; ++i)
    best = std::min(best, time(count));
  return best / double(count);
}

namespace {

struct MatrixProduct {
  plan::DType type;
  int64_t batch, m, n, k;
};

/// Batch, m, n and k of the products that are measured.
// clang-format off
constexpr std::array<int64_t, 4> kProducts[] = {
    {1, 32, 32, 32},     {1, 64, 64, 64},       {1, 128, 128, 128},
    {1, 256, 256, 256},  {1, 512, 512, 512},    {1, 1024, 1024, 1024},
    {1, 2048, 384, 384}, {1, 256, 1536, 384},   {1, 384, 384, 2048},
    {1, 32, 512, 512},   {1, 8, 1024, 1024},    {1, 1024, 1024, 32},
    {32, 32, 32, 16},    {32, 256, 256, 64},    {32, 256, 64, 256}};
// clang-format on

/// Collects measurements into a cluster.
class Calibration {
public:
  Calibration() {
    cluster.name = "calibrated";
    cluster.sharedMemory = true;
    cluster.cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
    cluster.device.name = "cpu";
    cluster.device.memoryBytes = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGE_SIZE));
  }

  void run() {
    measureContractions();
    measureBandwidth();
    measureLaunches();
    measureCollectives();
  }
  const plan::Cluster &result() const { return cluster; }

private:
  /// On one core: a rank's rate is its cores times this.
  void measureContractions() {
    omp_set_num_threads(1);
    for (plan::DType type : {plan::DType::F32, plan::DType::BF16}) {
      if (!computes(type))
        continue;
      double best = 0;
      for (auto [batch, m, n, k] : kProducts) {
        double seconds = measureProduct({type, batch, m, n, k});
        cluster.contractions.push_back({type, batch, m, n, k, seconds});
        best = std::max(best, 2.0 * double(batch * m * n * k) / seconds);
      }
      setRate(type, best);
    }
    for (plan::DType half : {plan::DType::BF16, plan::DType::F16})
      if (!cluster.device.achieved.contains(half))
        multiplyAsF32(half);
  }

  /// Copies of the tensors are multiplied.
  void multiplyAsF32(plan::DType half) {
    for (const plan::MeasuredContraction &product : std::vector(cluster.contractions))
      if (product.type == plan::DType::F32) {
        cluster.contractions.push_back(product);
        cluster.contractions.back().type = half;
      }
    setRate(half, cluster.device.achieved.at(plan::DType::F32));
  }

  void setRate(plan::DType type, double rate) {
    cluster.device.achieved[type] = rate;
    cluster.device.peak[type] = rate;
  }

  /// Whether this processor has what oneDNN needs for the type.
  static bool computes(plan::DType type) {
    try {
      dnnl::engine engine(dnnl::engine::kind::cpu, 0);
      cpu::describe(callOf({type, 1, 32, 32, 32}), engine);
      return true;
    } catch (const dnnl::error &) {
      return false;
    }
  }

  static cpu::MatmulCall callOf(const MatrixProduct &product) {
    auto type = product.type == plan::DType::BF16 ? rt::fbs::DType::BF16 : rt::fbs::DType::F32;
    auto layout = [&](int64_t rows, int64_t columns) {
      return product.batch == 1 ? cpu::StridedTensor{type, {rows, columns}, {columns, 1}}
                                : cpu::StridedTensor{type,
                                                     {product.batch, rows, columns},
                                                     {rows * columns, columns, 1}};
    };
    return {layout(product.m, product.k), layout(product.k, product.n),
            layout(product.m, product.n)};
  }

  double measureProduct(const MatrixProduct &product) {
    dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    cpu::MatmulCall call = callOf(product);
    auto description = cpu::describe(call, engine);
    std::vector<dnnl::memory> memories;
    for (const auto &desc : {description.src_desc(), description.weights_desc(),
                             description.dst_desc(), description.scratchpad_desc()}) {
      memories.emplace_back(desc, engine);
      std::memset(memories.back().get_data_handle(), 0, desc.get_size());
    }
    dnnl::matmul matmul(description);
    return secondsOf(Timed::Core, [&] {
      matmul.execute(stream, {{DNNL_ARG_SRC, memories[0]},
                              {DNNL_ARG_WEIGHTS, memories[1]},
                              {DNNL_ARG_DST, memories[2]},
                              {DNNL_ARG_SCRATCHPAD, memories[3]}});
      stream.wait();
    });
  }

  /// One core reading one array and writing another, both beyond the caches.
  void measureBandwidth() {
    std::vector<float> from(size_t(32) << 20, 1.0f), to(from.size());
    double seconds = secondsOf(Timed::Core, [&] {
      for (size_t i = 0; i < from.size(); ++i)
        to[i] = from[i] * 1.5f;
      asm volatile("" : : "r"(to.data()) : "memory"); // the result counts as used
    });
    cluster.device.bandwidth = 2.0 * sizeof(float) * from.size() / seconds;
  }

  /// A call that has nothing to do, and the threads of a rank started for nothing:
  /// twice as many each time, and all.
  void measureLaunches() {
    cluster.device.launchSeconds = measureProduct({plan::DType::F32, 1, 1, 1, 1});
    for (int64_t threads = 2; threads / 2 < cluster.cores; threads *= 2)
      cluster.forks.push_back(measureFork(std::min(threads, cluster.cores)));
  }

  /// On a thread of its own, as ranks are: a team belongs to its first thread.
  static plan::MeasuredFork measureFork(int64_t threads) {
    plan::MeasuredFork fork{threads, 0};
    std::thread rank([&] {
      rt::ThreadTeam team(static_cast<int>(threads));
      fork.seconds = secondsOf(Timed::Wall, [&] { team.run(team.size(), [](int) {}); });
    });
    rank.join();
    return fork;
  }

  void measureCollectives() {
    using sharding::StepKind;
    for (int ranks : {2, 4})
      for (StepKind kind : {StepKind::AllReduce, StepKind::AllGather, StepKind::ReduceScatter})
        for (int64_t bytes :
             {int64_t(4) << 10, int64_t(64) << 10, int64_t(1) << 20, int64_t(16) << 20})
          cluster.collectives.push_back(
              {kind, ranks, bytes, measureCollective(kind, ranks, bytes)});
    // The line through the ends of the all-reduce table, for what lies outside it.
    const auto &small = cluster.collectives.front(), &large = cluster.collectives[3];
    cluster.levels = {{"memory", 0, double(large.bytes) / large.seconds, small.seconds}};
  }

  double measureCollective(sharding::StepKind kind, int ranks, int64_t bytes) {
    rt::ThreadWorld world(ranks, std::chrono::seconds(60));
    std::vector<double> seconds(ranks);
    auto rank = [&](int index) {
      auto communicator = world.communicator(index);
      std::vector<int> all(ranks);
      for (int i = 0; i < ranks; ++i)
        all[i] = i;
      rt::RankGroup group = communicator->group(all);
      int64_t count = bytes / int64_t(sizeof(float));
      std::vector<float> source(count, 1.0f), target(count);
      int64_t part = kind == sharding::StepKind::AllGather ? count / ranks : count;
      rt::Transfer transfer{reinterpret_cast<const char *>(source.data()),
                            reinterpret_cast<char *>(target.data()),
                            {part}};
      auto call = [&] {
        rt::Status status = rt::Status::ok();
        if (kind == sharding::StepKind::AllReduce)
          status =
              communicator->allReduce(group, rt::Reduction::Sum, rt::DType::F32, {&transfer, 1});
        else if (kind == sharding::StepKind::AllGather)
          status = communicator->allGather(group, rt::DType::F32, {&transfer, 1}, 0);
        else
          status = communicator->reduceScatter(group, rt::Reduction::Sum, rt::DType::F32,
                                               {&transfer, 1}, 0);
        return status.isOk();
      };
      // Every rank makes the same number of calls.
      constexpr int kCalls = 30;
      std::vector<double> samples;
      for (int i = 0; i < kCalls; ++i) {
        auto start = std::chrono::steady_clock::now();
        if (!call())
          return;
        samples.push_back(
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      }
      std::sort(samples.begin(), samples.end());
      seconds[index] = samples[samples.size() / 2];
    };
    std::vector<std::thread> threads;
    for (int index = 0; index < ranks; ++index)
      threads.emplace_back(rank, index);
    for (std::thread &thread : threads)
      thread.join();
    return *std::max_element(seconds.begin(), seconds.end());
  }

  plan::Cluster cluster;
};

} // namespace

plan::Cluster measureMachine() {
  Calibration calibration;
  calibration.run();
  return calibration.result();
}

static Failure calibrateGpus(const CalibrateOptions &options, const Answer &answer) {
  rt::Result<plan::Cluster> measured = measureGpus();
  if (!measured)
    return fail(measured.status().error());
  const plan::DeviceSpec &device = measured->device;
  if (Failure failure = writeText(options.output, plan::toYaml(*measured)))
    return failure;
  answer.out << device.name << ": ";
  for (auto [type, name] :
       {std::pair(plan::DType::F32, "f32"), {plan::DType::BF16, "bf16"}, {plan::DType::F16, "f16"}})
    answer.out << name << " " << device.achieved.at(type) / 1e12 << " TFLOP/s, ";
  if (device.achievedTF32 > 0)
    answer.out << "tf32 " << device.achievedTF32 / 1e12 << " TFLOP/s, ";
  answer.out << "memory " << device.bandwidth / 1e9 << " GB/s, a launch "
             << device.launchSeconds * 1e6 << " us, attention " << device.attention.forward / 1e12
             << " and backward " << device.attention.backward / 1e12 << " TFLOP/s; written to "
             << options.output << "\n";
  return std::nullopt;
}

Failure calibrate(const CalibrateOptions &options, const Answer &answer) {
  if (auto file = rt::OutputFile::create(options.output, 0); !file) // before it takes its time
    return fail(file.status().error());
  if (options.target == "cuda")
    return calibrateGpus(options, answer);
  const plan::Cluster cluster = measureMachine();
  if (Failure failure = writeText(options.output, plan::toYaml(cluster)))
    return failure;
  answer.out << "per core: ";
  for (auto [type, name] : {std::pair(plan::DType::F32, "f32"), {plan::DType::BF16, "bf16"}})
    if (auto rate = cluster.device.achieved.find(type); rate != cluster.device.achieved.end())
      answer.out << name << " " << rate->second / 1e9 << " GFLOP/s, ";
  answer.out << "memory " << cluster.device.bandwidth / 1e9 << " GB/s; written to "
             << options.output << "\n";
  return std::nullopt;
}

} // namespace dtc::driver
