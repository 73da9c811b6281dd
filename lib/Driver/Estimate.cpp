// dtc estimate: how many devices a model needs to be trained, adapted or run.
#include "Commands.h"

#include "Phases.h"
#include "Planning/PlanAnswers.h"

#include "dtc/Driver/FlagWords.h"
#include "dtc/Report/Estimate.h"
#include "dtc/Report/Json.h"

#include <algorithm>
#include <ostream>

namespace dtc::driver {

using report::DeviceNeed;
using report::JobNeed;

namespace {

/// Microbatches for which graphs are built; a plan's own calls are cut from them.
constexpr int64_t kCalls = 16;

/// A job and how the graph is built for it.
struct Job {
  std::string name, assumptions;
  std::function<void(Options &)> adjust;
  bool hasFrozenWeights = false;
};

} // namespace

/// "bf16": of weights.
static std::string weightsOf(training::Precision precision) {
  using training::Precision;
  if (precision == Precision::TF32)
    return "fp32";
  return precision == Precision::BF16True ? "bf16" : wordOf(kPrecisions, precision);
}

static std::string optimizerOf(const EstimateOptions &options) {
  const training::Precision precision = options.base.train.precision;
  if (precision == training::Precision::F32 || precision == training::Precision::TF32)
    return "Adam, all of it in fp32: 16 bytes a parameter";
  if (precision == training::Precision::BF16True)
    return "Adam, all of it in bf16: 8 bytes a parameter";
  const std::string half = weightsOf(precision);
  return "Adam with " + half + " parameters, fp32 masters and moments, " +
         (options.narrowGradients ? half + " gradients: 16 bytes a parameter (18 in dtc's own "
                                           "programs, whose gradients are fp32: --gradients fp32)"
                                  : "fp32 gradients: 18 bytes a parameter");
}

static std::string samplesOf(int64_t count) {
  return count == 1 ? "one sample" : std::to_string(count) + " samples";
}

/// "bf16", or "int4 (...) in products but the last, and bf16 elsewhere": of weights that don't
/// train.
static std::string frozenWeightsOf(const EstimateOptions &options) {
  const std::string type = weightsOf(options.base.train.precision);
  if (options.quantization == plan::Quantization::None)
    return type;
  return std::string(plan::describe(options.quantization)) + " in products but the last, and " +
         type + " elsewhere";
}

static std::vector<Job> jobsOf(const EstimateOptions &options) {
  const std::string weights = frozenWeightsOf(options);
  const std::string step = "microbatches of " + samplesOf(options.microBatch) +
                           " a data-parallel rank, everything recomputed";
  std::vector<Job> jobs;
  jobs.push_back({"training in full", optimizerOf(options) + "; " + step, [](Options &) {}});
  if (options.loraRank > 0)
    jobs.push_back(
        {"training adapters (LoRA)",
         "adapters of rank " + std::to_string(options.loraRank) +
             " beside every product with a weight, the model frozen in " + weights + "; " + step,
         [rank = options.loraRank](Options &run) { run.train.adapters.rank = rank; }, true});
  jobs.push_back({"inference",
                  "weights in " + weights + "; " + samplesOf(options.microBatch) +
                      " of the graph's shape at a time, and the keys and values of " +
                      (options.microBatch == 1 ? "its" : "their") + " tokens kept",
                  [](Options &run) {
                    run.loss = "none";
                    run.train.loss = training::LossKind::None;
                  },
                  true});
  return jobs;
}

namespace {

/// What is asked about, by what it is called.
struct Asked {
  std::string name;
  plan::Cluster cluster;
  /// All of a cluster whose types of devices come before it: asked where none of them do.
  bool isMixed = false;
};

} // namespace

/// The devices of each type of a cluster with several, as clusters of their own.
static std::vector<plan::Cluster> typesOf(const plan::Cluster &cluster) {
  plan::Cluster first = cluster;
  first.others.clear();
  std::vector<plan::Cluster> types = {first};
  int64_t next = cluster.devicesPerNode * cluster.nodes;
  for (const plan::NodeGroup &group : cluster.others) {
    plan::Cluster own = first;
    own.device = group.device;
    own.levels = cluster.levelsAt(next);
    own.devicesPerNode = group.devicesPerNode;
    own.nodes = group.nodes;
    next += group.devices();
    auto known = std::find_if(types.begin(), types.end(), [&](plan::Cluster other) {
      other.nodes = own.nodes;
      return other == own;
    });
    if (known != types.end())
      known->nodes += own.nodes;
    else
      types.push_back(std::move(own));
  }
  return types;
}

static plan::Result<std::vector<Asked>> clustersOf(const EstimateOptions &options) {
  std::vector<Asked> result;
  std::vector<std::string> names = {options.base.cluster};
  if (options.base.cluster.empty())
    names = options.memories.empty() ? plan::builtinDevices()
                                     : std::vector<std::string>{"dgx-h100"};
  for (const std::string &name : names) {
    auto cluster = plan::loadCluster(name);
    if (!cluster)
      return cluster.error();
    if (options.memories.empty()) {
      std::string all;
      for (plan::Cluster &type : typesOf(*cluster)) {
        all += (all.empty() ? "" : " + ") + type.device.name;
        result.push_back({type.device.name, std::move(type)});
      }
      if (!cluster->others.empty())
        result.push_back({all, *cluster, true});
    }
    for (const auto &[text, bytes] : options.memories) {
      plan::Cluster other = *cluster;
      other.device.memoryBytes = bytes;
      for (plan::NodeGroup &group : other.others)
        group.device.memoryBytes = bytes;
      result.push_back({text, std::move(other)});
    }
  }
  return result;
}

static bool areTooFew(const plan::Cluster &cluster, int64_t given) {
  return cluster.devices() > 0 && given > cluster.devices();
}

/// `given`: number of devices; 0: as few as will do.
static DeviceNeed needOf(plan::ClusterSizer &finder, const std::string &name,
                         const plan::Cluster &cluster, int64_t given) {
  DeviceNeed need{name, cluster.device.memoryBytes, std::nullopt, ""};
  for (const plan::NodeGroup &group : cluster.others)
    need.memoryBytes = std::min(need.memoryBytes, group.device.memoryBytes);
  if (areTooFew(cluster, given)) {
    need.reason = "there are " + std::to_string(cluster.devices());
    return need;
  }
  need.fit = given ? finder.on(given) : finder.smallest();
  if (!need.fit)
    need.reason = given ? "no plan fits on " + std::to_string(given)
                        : "more than " + std::to_string(finder.mostDevices()) + " are needed";
  return need;
}

static int64_t quantizedElements(const plan::Problem &problem) {
  int64_t elements = 0;
  for (const plan::Value &value : problem.values)
    elements += value.storedBits > 0 ? value.elements() : 0;
  return elements;
}

static JobNeed needOf(const Job &job, const plan::Problem &problem,
                      const std::vector<Asked> &clusters, const EstimateOptions &options) {
  const int64_t given = options.gpus;
  // One table of all ways is enough: of what --gpus means, or of the first that are so many.
  const Asked *configured = nullptr;
  for (const Asked &asked : clusters)
    if (!areTooFew(asked.cluster, given) &&
        (!configured || (asked.name == "h100" && configured->name != "h100")))
      configured = &asked;
  JobNeed need{job.name, job.assumptions, quantizedElements(problem), {}, "", {}};
  if (std::optional<std::string> slots = costOfSlots(problem))
    need.assumptions += "; " + *slots;
  for (const Asked &asked : clusters) {
    const auto &[name, cluster, isMixed] = asked;
    if (isMixed && std::any_of(need.devices.begin(), need.devices.end(),
                               [](const DeviceNeed &device) { return device.fit.has_value(); }))
      continue;
    plan::ClusterSizer finder(problem, cluster, {options.microBatch});
    DeviceNeed device = needOf(finder, name, cluster, given);
    int64_t count = device.fit ? device.fit->degrees.devices() : given;
    if (&asked == configured && count > 0) {
      need.configuredOn = name;
      need.configurations = finder.configurations(count);
    }
    need.devices.push_back(std::move(device));
  }
  return need;
}

/// The graph of one device: nothing is planned here.
static Outcome<Imported> importOnce(Environment &env, const Options &options, int64_t samples) {
  auto file = openModel(env, options);
  if (!file)
    return file.category();
  auto model = (*file)->import(import::Samples{samples, samples});
  if (failed(model))
    return ErrorCategory::InputRefused;
  return Imported{std::move(*model), {samples, 1}};
}

/// `isForOwnProgram`: dtc's would run on the devices, with its slots of experts.
static Outcome<plan::Problem> problemOf(const Environment &env, const Job &job,
                                        const EstimateOptions &options, bool isForOwnProgram,
                                        Imported &imported) {
  Options run = options.base;
  job.adjust(run);
  Imported copy{{imported.module().clone(),
                 {},
                 imported.model.nodes,
                 imported.model.fileBatch,
                 imported.model.batchDims},
                imported.batch};
  auto trained = buildTraining(run, std::move(copy), slotsFor(run, isForOwnProgram, {}));
  if (!trained)
    return trained.category();
  auto problem = extractProblem(env, run, *trained);
  if (problem && options.narrowGradients && problem->optimizer.masterBytes > 0)
    problem->optimizer.gradientBytes = 2;
  const bool quantizes = options.quantization != plan::Quantization::None && job.hasFrozenWeights;
  if (problem && quantizes && plan::quantizeFrozen(*problem, options.quantization) == 0)
    return fail(
        {problem->model +
             ": has no weight to quantize, none that products alone read but for the last one's",
         ErrorCategory::InputRefused});
  return problem;
}

Failure estimate(const EstimateOptions &options, const Answer &answer) {
  auto clusters = clustersOf(options);
  if (!clusters)
    return fail(clusters.error());
  Environment env(options.base);
  auto imported = importOnce(env, options.base, kCalls * options.microBatch);
  if (!imported)
    return imported.category();
  // All of them are of one file, or built in.
  const bool isForOwnProgram = clusters->front().cluster.software == plan::Software();
  report::Estimate result;
  for (const Job &job : jobsOf(options)) {
    auto problem = problemOf(env, job, options, isForOwnProgram, *imported);
    if (!problem)
      return problem.category();
    if (result.jobs.empty())
      result = {problem->model,     problem->parameterElements(),
                problem->fileNodes, problem->tokensPerSample,
                options.gpus,       {}};
    result.jobs.push_back(needOf(job, *problem, *clusters, options));
  }
  if (options.json)
    answer.out << report::estimateJson(result).dump(2) << "\n";
  else
    answer.out << report::estimateText(result);
  return std::nullopt;
}

} // namespace dtc::driver
