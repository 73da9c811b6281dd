#include "dtc/Plan/Search/ClusterSize.h"

#include "Candidates.h"

#include "dtc/Plan/Plan/Trains.h"
#include "dtc/Plan/Search/CompletePlan.h"
#include "dtc/Plan/Solve/Distinct.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace dtc::plan {

static constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// How dear memory is; see Planner::priced.
static constexpr double kPrices[] = {0, 10, 1000};
/// Beyond so many nodes their number is a power of two, as clusters are built.
static constexpr int64_t kNodesOneByOne = 64;
/// Large nodes are lent in parts of so many devices.
static constexpr int64_t kTray = 8;

//===-- keys and values ---------------------------------------------------===//

int64_t cacheBytes(const Problem &problem, const Plan &plan) {
  std::vector<int64_t> ofRank(plan.degrees.pp, 0);
  const schedule::Placement placement = placementOf(plan.degrees);
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    for (int64_t id = plan.stages[stage].firstOp; id <= plan.stages[stage].lastOp; ++id) {
      const Op &op = problem.ops[id];
      if (op.kind != OpKind::Attention || op.backward || op.operands.size() < 3)
        continue;
      for (size_t operand : {1, 2})
        ofRank[static_cast<size_t>(placement.rank(int64_t(stage)))] +=
            placedBytes(localBytes(problem.values[op.operands[operand]],
                                   operandSharding(op.rule, plan.ops[id], operand), plan.mesh));
    }
  return *std::max_element(ofRank.begin(), ofRank.end());
}

//===-- plans -------------------------------------------------------------===//

/// What people mean by tensor parallelism, and what holds least.
static void splitWeights(Degrees &degrees) {
  if (degrees.tp > 1)
    degrees.tensorWeights = TensorWeights::Split;
}

/// Shardings are solved once for each degree of tensor parallelism, whatever the
/// number of devices around it.
class ClusterSizer::Planner {
public:
  Planner(const Problem &given, const Cluster &cluster, const SizingOptions &options, bool trains)
      : cluster(cluster), options(options), trains(trains), node(nodeOf(cluster)),
        problem(weighed(given)), facts(problem), library(problem, cluster, onNode(node)),
        estimator(library, problem, facts) {}

  /// The fastest on so many devices among the plans that hold least; nothing where
  /// none fits.
  std::optional<SizedPlan> best(int64_t devices);
  /// The plan of these degrees, whatever it needs; nothing where they can't be.
  std::optional<SizedPlan> plan(const Degrees &degrees);
  bool selects() const { return library.keepsInsideOps(); }

private:
  static int64_t nodeOf(const Cluster &cluster) {
    constexpr int64_t usual = 8;
    return cluster.devicesPerNode > 0 ? cluster.devicesPerNode : usual;
  }
  static SearchOptions onNode(int64_t devices) {
    SearchOptions options;
    options.devices = devices;
    return options;
  }
  Problem weighed(Problem problem) const;
  std::vector<Degrees> candidates(int64_t devices);
  std::vector<Estimate> fitting(const std::vector<Degrees> &list);
  ShardVariant priced(const Degrees &degrees, double factor);
  std::optional<SizedPlan> completed(const Estimate &estimate);

  const Cluster &cluster;
  const SizingOptions &options;
  bool trains;
  int64_t node;
  Problem problem;
  ProblemFacts facts;
  ShardLibrary library;
  Estimator estimator;
  std::string refusal;
};

/// With a step's samples of one node, for which shardings are weighed.
Problem ClusterSizer::Planner::weighed(Problem problem) const {
  if (trains)
    problem.numMicrobatches = std::max<int64_t>(
        1, options.microbatches * options.samples * node / std::max<int64_t>(1, problem.batch));
  return problem;
}

std::vector<Degrees> ClusterSizer::Planner::candidates(int64_t devices) {
  SearchOptions asked;
  asked.devices = devices;
  asked.executable = false;
  asked.samplesPerRank = options.samples * (trains ? options.microbatches : 1);
  asked.spec.microBatch = options.samples;
  asked.spec.cp = asked.spec.ep = asked.spec.chunks = 1;
  asked.spec.schedule = kDefaultSchedule;
  if (!trains)
    asked.spec.dp = 1;
  auto layers = static_cast<int64_t>(library.getBlocks().size());
  Candidates found = findCandidates(problem, facts, asked.spec, asked, {layers, node});
  for (Degrees &degrees : found.list) {
    splitWeights(degrees);
    degrees.zero = trains && degrees.dp > 1 ? 3 : 0;
    if (trains && !library.getBlocks().empty())
      degrees.recompute = Recompute::Full;
  }
  return found.list;
}

/// Shardings that trade time for memory. What a step takes at least is worth holding 1 / `factor`
/// of the device's memory. 0: as fast as can be.
ShardVariant ClusterSizer::Planner::priced(const Degrees &degrees, double factor) {
  ShardVariant plain;
  if (factor == 0 || degrees.tp == 1)
    return plain;
  Degrees inside; // the same for all plans around it
  inside.tp = degrees.tp;
  inside.microBatch = degrees.microBatch;
  double call = estimator.lowerBound(inside, plain, refusal);
  double step = call * double(std::max<int64_t>(1, problem.numMicrobatches));
  return {std::nullopt, factor * step / library.getModel().memoryPerRank()};
}

/// Those that fit, fastest first, without many that are slower than the best.
std::vector<Estimate> ClusterSizer::Planner::fitting(const std::vector<Degrees> &list) {
  struct Way {
    double bound;
    Degrees degrees;
    ShardVariant variant;
  };
  std::vector<Way> ways;
  for (const Degrees &degrees : list)
    for (double factor : kPrices) {
      if (factor > 0 && degrees.tp == 1)
        break;
      ShardVariant variant = priced(degrees, factor);
      double bound = estimator.lowerBound(degrees, variant, refusal);
      if (bound < kInfinity)
        ways.push_back({bound / double(degrees.samples()), degrees, variant});
    }
  std::stable_sort(ways.begin(), ways.end(),
                   [](const Way &a, const Way &b) { return a.bound < b.bound; });
  std::vector<Estimate> result;
  double fastest = kInfinity;
  for (const auto &[bound, degrees, variant] : ways) {
    if (bound > fastest)
      break;
    Estimate estimate;
    EstimateOptions asked{fastest * double(degrees.samples())};
    if (estimator.estimate(degrees, variant, asked, estimate, refusal) !=
        Estimator::Outcome::Found)
      continue;
    fastest = std::min(fastest, estimate.perSample());
    result.push_back(std::move(estimate));
  }
  std::stable_sort(result.begin(), result.end(), [](const Estimate &a, const Estimate &b) {
    return a.perSample() < b.perSample();
  });
  return result;
}

std::optional<SizedPlan> ClusterSizer::Planner::completed(const Estimate &estimate) {
  auto whole = completePlan(problem, cluster, library, estimate);
  if (!whole)
    return std::nullopt;
  SizedPlan fit{whole->plan.degrees, std::move(whole->predicted), 0};
  if (trains)
    return fit;
  Result<Problem> planned = unfoldPlan(library, *whole);
  if (!planned)
    return std::nullopt;
  fit.cacheBytes = cacheBytes(*planned, whole->plan);
  return fit;
}

std::optional<SizedPlan> ClusterSizer::Planner::best(int64_t devices) {
  for (const Estimate &estimate : fitting(candidates(devices)))
    if (auto fit = completed(estimate); fit && fit->fits())
      return fit;
  return std::nullopt;
}

std::optional<SizedPlan> ClusterSizer::Planner::plan(const Degrees &degrees) {
  std::optional<Estimate> least;
  for (double factor : kPrices) {
    Estimate estimate;
    if ((factor > 0 && degrees.tp == 1) ||
        estimator.estimate(degrees, priced(degrees, factor), {kInfinity, true}, estimate,
                           refusal) != Estimator::Outcome::Found)
      continue;
    if (!least || estimate.memory < least->memory)
      least = std::move(estimate);
    if (least->fits())
      break;
  }
  return least ? completed(*least) : std::nullopt;
}

//===-- the search --------------------------------------------------------===//

ClusterSizer::ClusterSizer(const Problem &problem, const Cluster &cluster,
                           const SizingOptions &options)
    : problem(problem), cluster(cluster), options(options), trains(plan::trains(problem)) {
  if (int64_t all = cluster.devices(); all > 0)
    this->options.mostDevices = std::min(options.mostDevices, all);
  planner = std::make_unique<Planner>(problem, cluster, this->options, trains);
}

ClusterSizer::~ClusterSizer() = default;

/// Fewer can't hold what is kept from step to step, however it is split.
int64_t ClusterSizer::leastDevices() const {
  auto bytes = double(modelBytes(problem, ProblemFacts(problem), cluster.software).most());
  CostModel model(cluster, 1);
  return std::max<int64_t>(1, int64_t(std::ceil(bytes / model.availableBytes(0))));
}

std::vector<int64_t> ClusterSizer::counts(int64_t least) const {
  int64_t node = cluster.devicesPerNode;
  std::vector<int64_t> result;
  for (int64_t count = 1; count <= options.mostDevices; count *= 2)
    if (node == 0 || count <= node || (count % node == 0 && count / node > kNodesOneByOne))
      result.push_back(count);
  for (int64_t count = kTray; count < node; count += kTray)
    result.push_back(count);
  for (int64_t nodes = 1; node > 0 && nodes <= kNodesOneByOne; ++nodes)
    result.push_back(nodes * node);
  result.push_back(options.mostDevices);
  keepDistinct(result);
  std::erase_if(result, [&](int64_t count) {
    return count < least || count > options.mostDevices;
  });
  return result;
}

std::optional<SizedPlan> ClusterSizer::on(int64_t devices) { return planner->best(devices); }

std::optional<SizedPlan> ClusterSizer::smallest() {
  for (int64_t count : counts(leastDevices()))
    if (auto fit = on(count))
      return fit;
  return std::nullopt;
}

//===-- configurations ----------------------------------------------------===//

std::vector<SizedPlan> ClusterSizer::configurations(int64_t devices) {
  int64_t node = std::gcd(devices, cluster.devicesPerNode > 0 ? cluster.devicesPerNode : devices);
  // Between the nodes; in a single one instead of tensor parallelism.
  int64_t stages = devices > node ? devices / node : devices;
  std::vector<Degrees> meshes;
  for (auto [tp, pp] : {std::pair(int64_t(1), int64_t(1)), {node, int64_t(1)},
                        {devices > node ? node : 1, stages}}) {
    Degrees degrees;
    degrees.tp = tp;
    degrees.pp = pp;
    degrees.dp = devices / (tp * pp);
    splitWeights(degrees);
    degrees.microBatch = options.samples;
    degrees.numMicrobatches = trains ? options.microbatches : 1;
    bool known = std::find(meshes.begin(), meshes.end(), degrees) != meshes.end();
    if (!known && (trains || degrees.dp == 1))
      meshes.push_back(degrees);
  }
  std::vector<Recompute> recomputations = {Recompute::None};
  if (trains && planner->selects())
    recomputations.push_back(Recompute::Selective);
  if (trains)
    recomputations.push_back(Recompute::Full);
  std::vector<SizedPlan> result;
  for (Degrees degrees : meshes)
    for (int zero : {0, 1, 3}) {
      if (zero > 0 && degrees.dp == 1)
        break;
      for (Recompute recompute : recomputations) {
        degrees.zero = zero;
        degrees.recompute = recompute;
        if (auto fit = planner->plan(degrees))
          result.push_back(std::move(*fit));
      }
    }
  return result;
}

} // namespace dtc::plan
