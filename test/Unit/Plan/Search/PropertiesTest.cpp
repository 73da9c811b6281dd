// What must hold for every prediction, whatever the constants. A faster cluster is not slower, one
// twice as fast in everything takes half the time, and each way of saving memory saves it.
#include "Planner.h"
#include "RandomProblem.h"
#include "Transformer.h"

#include <cmath>

using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

struct Planned {
  std::string name;
  Problem problem;
  Plan plan;
};

/// Plans of all sorts of problems on eight devices.
std::vector<Planned> plans(const Cluster &on) {
  std::vector<std::pair<std::string, Problem>> problems = {
      {"gpt", load("gpt")}, {"llama_kv2", load("llama_kv2")},
      {"transformer", transformer({4, 512, 8, 256, 32, 4096})}};
  for (unsigned seed = 0; seed < 6; ++seed)
    problems.emplace_back("random " + std::to_string(seed), randomProblem(seed, {3, 2, true}));
  std::vector<Planned> result;
  for (auto &[name, problem] : problems)
    for (const char *spec : {"dp=1,tp=8,pp=1", "dp=4,tp=2,pp=1,zero=1", "dp=4,tp=1,pp=2,zero=3",
                             "dp=2,tp=2,pp=2,recompute=full,zero=0",
                             "dp=1,tp=4,pp=2,schedule=zb"}) {
      SearchOptions options;
      options.devices = 8;
      options.executable = false;
      options.spec = *parseSpec(std::string("cp=1,ep=1,") + spec);
      if (auto found = search(problem, on, options))
        result.push_back({name + " " + spec, found->problem, found->plan});
    }
  EXPECT_GT(result.size(), 25u);
  return result;
}

/// Two nodes of four.
Cluster twoNodes(const Cluster &from) {
  Cluster on = from;
  on.devicesPerNode = 4;
  on.levels = {{"node", 4, 100e9, 3e-6}, {"network", 0, 10e9, 12e-6}};
  return on;
}

Cluster withoutArchitecture(Cluster on) {
  on.device.architecture = Architecture::None;
  on.device.multiprocessors = 0;
  for (auto &[type, rate] : on.device.peak)
    on.device.achieved[type] = 0.7 * rate;
  return on;
}

double seconds(const Planned &planned, const Cluster &on) {
  return predict(planned.problem, planned.plan, on).stepSeconds;
}

} // namespace

TEST(Properties, AFasterClusterIsNeverSlower) {
  const Cluster gpu = twoNodes(cluster("dgx-h100"));
  using Change = void (*)(Cluster &);
  const std::string launches = "launches";
  const std::pair<const char *, Change> changes[] = {
      {"bandwidth in the node", [](Cluster &c) { c.levels[0].bandwidth *= 1.5; }},
      {"bandwidth of the network", [](Cluster &c) { c.levels[1].bandwidth *= 1.5; }},
      {"latency in the node", [](Cluster &c) { c.levels[0].latency /= 2; }},
      {"latency of the network", [](Cluster &c) { c.levels[1].latency /= 2; }},
      {"memory bandwidth", [](Cluster &c) { c.device.bandwidth *= 1.5; }},
      {launches.c_str(), [](Cluster &c) { c.device.launchSeconds /= 2; }},
      {"rates", [](Cluster &c) {
         for (auto *rates : {&c.device.peak, &c.device.achieved})
           for (auto &[type, rate] : *rates)
             rate *= 1.5;
       }}};
  for (const Cluster &on : {gpu, withoutArchitecture(gpu)}) {
    std::vector<Planned> all = plans(on);
    for (auto [name, change] : changes) {
      Cluster faster = on;
      change(faster);
      int better = 0;
      for (const Planned &planned : all) {
        double before = seconds(planned, on), after = seconds(planned, faster);
        EXPECT_LE(after, before * (1 + 1e-9)) << name << ": " << planned.name;
        better += after < before * (1 - 1e-6);
      }
      // dtc's own kernels for GPUs follow each other in a graph, whatever a launch takes the host.
      bool matters = on.device.architecture == Architecture::None || name != launches;
      EXPECT_EQ(better > 0, matters) << name;
    }
  }
}

TEST(Properties, TwiceAsFastInEverythingTakesHalfTheTime) {
  const Cluster on = withoutArchitecture(twoNodes(cluster("dgx-h100")));
  Cluster twice = on;
  twice.device.bandwidth *= 2;
  twice.device.launchSeconds /= 2;
  for (auto *rates : {&twice.device.peak, &twice.device.achieved})
    for (auto &[type, rate] : *rates)
      rate *= 2;
  for (LinkLevel &level : twice.levels) {
    level.bandwidth *= 2;
    level.latency /= 2;
  }
  for (const Planned &planned : plans(on)) {
    if (planned.plan.degrees.offload != Offload::None)
      continue; // over links that aren't the cluster's
    Prediction before = predict(planned.problem, planned.plan, on),
               after = predict(planned.problem, planned.plan, twice);
    EXPECT_NEAR(after.stepSeconds, before.stepSeconds / 2, 1e-9 * before.stepSeconds)
        << planned.name;
    EXPECT_NEAR(after.bubbleFraction, before.bubbleFraction, 1e-9) << planned.name;
    EXPECT_EQ(after.memory, before.memory) << planned.name;
  }
}

/// The same degrees but for one, with what is kept and what is needed meanwhile.
TEST(Properties, EachWayOfSavingMemorySavesIt) {
  const Cluster on = cluster("dgx-h100");
  auto memoryOf = [&](const Problem &problem, int64_t devices, const std::string &spec) {
    SearchOptions options;
    options.devices = devices;
    options.executable = false;
    options.spec = *parseSpec("cp=1,ep=1," + spec);
    auto found = search(problem, on, options);
    EXPECT_TRUE(found) << spec << ": " << found.error().message;
    return found ? found->predicted.memory : MemoryUse{};
  };
  for (const TransformerSize &size : {TransformerSize{4, 1024, 16, 512, 32, 8192},
                                      TransformerSize{6, 512, 8, 1024, 64, 32768}}) {
    Problem problem = transformer(size);
    auto dp = [](int64_t ranks, const std::string &rest) {
      return "dp=" + std::to_string(ranks) + ",pp=1," + rest;
    };
    int64_t last = INT64_MAX;
    for (int64_t tp : {1, 2, 4, 8}) { // as many samples a rank
      int64_t now = memoryOf(problem, tp, dp(1, "zero=0,recompute=none,micro_batch=4,tp=" +
                                                std::to_string(tp))).allocated();
      EXPECT_LT(now, last) << "tp=" << tp;
      last = now;
    }
    last = 0;
    for (int64_t micro : {1, 2, 4, 8}) {
      int64_t now = memoryOf(problem, 4, dp(4, "tp=1,zero=0,recompute=none,micro_batch=" +
                                               std::to_string(micro))).activations;
      EXPECT_GT(now, last) << "micro_batch=" << micro;
      last = now;
    }
    for (const char *recompute : {"none", "full"}) {
      last = INT64_MAX;
      for (int zero : {0, 1, 2, 3}) {
        MemoryUse use = memoryOf(problem, 8, dp(8, "tp=1,micro_batch=2,recompute=" +
                                                   std::string(recompute) + ",zero=" +
                                                   std::to_string(zero)));
        int64_t now = use.parameters + use.gradients + use.optimizer;
        EXPECT_LT(now, last) << "zero=" << zero;
        last = now;
      }
    }
    std::string rest = dp(4, "tp=1,zero=0,micro_batch=4,recompute=");
    EXPECT_LT(memoryOf(problem, 4, rest + "full").activations,
              memoryOf(problem, 4, rest + "none").activations);
  }
}

/// Of the free choice: it may miss a little (ExhaustiveSearchTest.cpp).
TEST(Properties, MoreMemoryAndFasterLinksHelpTheFreeChoice) {
  Problem problem = transformer({4, 512, 8, 256, 16, 4096});
  Cluster on = withoutArchitecture(twoNodes(cluster("dgx-h100")));
  SearchOptions options;
  options.devices = 8;
  options.executable = false;
  auto best = [&] {
    auto found = search(problem, on, options);
    return found ? found->predicted.stepSeconds : HUGE_VAL;
  };
  double last = HUGE_VAL, first = 0;
  for (double bytes : {60e6, 100e6, 200e6, 400e6, 80e9}) {
    on.device.memoryBytes = bytes;
    double now = best();
    EXPECT_LE(now, last * 1.04) << bytes;
    last = std::min(last, now);
    first = std::max(first, now);
  }
  EXPECT_GT(first, last * 1.01) << "memory must matter";
  first = last;
  for (int i = 0; i < 3; ++i) {
    for (LinkLevel &level : on.levels)
      level.bandwidth *= 4;
    double now = best();
    EXPECT_LE(now, last * 1.01);
    last = now;
  }
  EXPECT_LT(last, first * 0.99) << "links must matter";
}

/// Both what computation waits for (tensor parallelism) and what runs beside it (ZeRO-3 over the
/// network) may take long. There these two run at once as well.
TEST(Properties, StagesTakeNoLongerThanTheStep) {
  Problem problem = transformer({4, 4096, 32, 2048, 2, 8192});
  Prediction predicted =
      best(problem, 16, "dp=2,tp=8,pp=1,sp=off,zero=3,recompute=none,micro_batch=1", cluster("p4d"))
          .predicted;
  ASSERT_EQ(predicted.stages.size(), 1u);
  const StagePrediction &stage = predicted.stages[0];
  double seconds = stage.forwardSeconds + stage.backwardSeconds;
  EXPECT_LE(seconds, predicted.stepSeconds);
  EXPECT_GT(seconds, 0.5 * predicted.stepSeconds) << "one microbatch";
}
