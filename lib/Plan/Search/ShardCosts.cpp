#include "dtc/Plan/Search/ShardCosts.h"

#include "dtc/Plan/Cost/NetworkModel.h"
#include "dtc/Plan/Predict/JoinedKernels.h"
#include "dtc/Plan/Predict/StageDevices.h"
#include "dtc/Plan/Search/Search.h"
#include "dtc/Plan/Solve/Parallel.h"

#include <algorithm>
#include <utility>

namespace dtc::plan {

std::vector<BlockRecompute> recomputeAll(const std::vector<Block> &blocks, Recompute kind) {
  std::vector<BlockRecompute> result;
  for (size_t i = 0; kind != Recompute::None && i < blocks.size(); ++i)
    result.push_back({static_cast<int64_t>(i), kind});
  return result;
}

int64_t weighedMicrobatches(const Problem &problem, const Degrees &degrees, int64_t devices) {
  return std::max<int64_t>(1, problem.globalBatch() * degrees.tp * degrees.cp /
                                  (degrees.microBatch * devices));
}

ShardCosts::ShardCosts(const Problem &problem, const ProblemFacts &facts, const CostModel &model,
                       const std::vector<Block> &blocks, Plan given, const Workspace *workspace,
                       std::optional<FoldedModel> folded)
    : problem(problem), facts(facts), model(model), blocks(blocks), workspace(workspace),
      plan(std::move(given)), execution(problem, facts, plan, model, workspace), folded(folded) {}

std::unique_ptr<ShardCosts> ShardCosts::withOtherRegather() const {
  Plan other = plan;
  other.degrees.regather = !plan.degrees.regather;
  return std::make_unique<ShardCosts>(problem, facts, model, blocks, std::move(other), workspace,
                                      folded);
}

std::unique_ptr<UnitCosts> ShardCosts::makeUnitCosts(Recompute recompute,
                                                 const std::vector<OpId> &cuts) const {
  std::optional<FoldedCuts> at;
  if (folded)
    at = foldCuts(*folded->folding, *folded->blocks, cuts);
  if (folded && !at)
    return nullptr;
  auto of = [&](const RankExecution &run) {
    return at ? UnitCosts::ofFolded(problem, facts, run, plan.mesh, *at, cuts, blocks)
              : std::make_unique<UnitCosts>(problem, facts, run, plan.mesh, cuts, blocks);
  };
  const Software &software = model.getCluster().software;
  RankExecution run = execution;
  if (recompute != Recompute::None)
    addRecomputation(run, problem, blocks, recomputeAll(blocks, recompute), software);
  joinKernels(run, problem, software);
  return of(run);
}

ShardCosts::Units &ShardCosts::unitsOf(const std::vector<OpId> &cuts) const {
  for (Units &known : units)
    if (known.cuts == cuts)
      return known;
  return units.emplace_back(Units{cuts, {}, nullptr});
}

const UnitCosts *ShardCosts::findUnitCosts(Recompute recompute,
                                           const std::vector<OpId> &cuts) const {
  auto [it, isNew] = unitsOf(cuts).allUnitCosts.try_emplace(recompute);
  if (isNew)
    it->second = makeUnitCosts(recompute, cuts);
  return it->second.get();
}

bool ShardCosts::fits(Recompute recompute, const std::vector<OpId> &cuts) const {
  return !folded || (findUnitCosts(Recompute::None, cuts) && findUnitCosts(recompute, cuts));
}

const Weights &ShardCosts::weights(const std::vector<OpId> &cuts) const {
  std::unique_ptr<Weights> &known = unitsOf(cuts).weights;
  if (!known)
    known = std::make_unique<Weights>(
        findWeights(problem, facts, plan, execution, unitCosts(Recompute::None, cuts),
                    model.getCluster().software));
  return *known;
}

namespace {

/// Asked by one thread at a time.
class SerialWorkspace : public Workspace {
public:
  explicit SerialWorkspace(const Workspace &whole) : whole(whole) {}
  int64_t bytes(OpId op, const Shapes &operands, const Shapes &results,
                const OpPlaces &places) const override {
    std::lock_guard lock(mutex);
    return whole.bytes(op, operands, results, places);
  }

private:
  const Workspace &whole;
  mutable std::mutex mutex;
};

/// Asks for the ops of a folded model.
class FoldedWorkspace : public Workspace {
public:
  FoldedWorkspace(const Folding &folding, const Workspace &whole)
      : folding(folding), whole(whole) {}
  int64_t bytes(OpId op, const Shapes &operands, const Shapes &results,
                const OpPlaces &places) const override {
    return whole.bytes(folding.wholeOps[op], operands, results, places);
  }

private:
  const Folding &folding;
  const Workspace &whole;
};

} // namespace

ShardLibrary::ShardLibrary(const Problem &problem, const Cluster &cluster,
                           const SearchOptions &options)
    : problem(problem), facts(problem), cluster(cluster), devices(options.devices),
      workspace(options.workspace ? std::make_unique<SerialWorkspace>(*options.workspace)
                                  : nullptr),
      model(cluster, devices), blocks(findBlocks(problem, facts)), solvers(cluster) {
  if (options.fold)
    folding = fold(problem, facts, blocks);
  if (folding)
    foldedFacts.emplace(folding->problem);
  if (folding && workspace)
    foldedWorkspace = std::make_unique<FoldedWorkspace>(*folding, *workspace);
}

ShardLibrary &ShardLibrary::on(DeviceRange range) {
  if (cluster.others.empty())
    return *this;
  std::lock_guard lock(mutex);
  ShardLibrary *&found = byRange[{range.first, range.count}];
  if (found)
    return *found;
  Cluster other = clusterOf(cluster, range);
  for (auto &[known, library] : elsewhere)
    if (*known == other)
      return *(found = library.get());
  SearchOptions options;
  options.devices = devices;
  options.workspace = workspace.get();
  options.fold = folding.has_value();
  auto own = std::make_unique<Cluster>(other);
  auto library = std::make_unique<ShardLibrary>(problem, *own, options);
  found = elsewhere.emplace_back(std::move(own), std::move(library)).second.get();
  return *found;
}

static bool keepsInside(const Problem &problem, const OpWork &work) {
  for (OpId op = 0; op < static_cast<OpId>(problem.ops.size()); ++op)
    if (problem.ops[op].kind == OpKind::Attention && work.savedBytes(op) > 0)
      return true;
  return false;
}

bool ShardLibrary::keepsInsideOps() const {
  if (!keepsAnyInside)
    keepsAnyInside = keepsInside(problem, OpWork(problem, facts, model));
  return *keepsAnyInside;
}

static Result<Problem> withSamples(const Problem &problem, const ProblemFacts &facts,
                                   int64_t samples) {
  if (problem.batch > 0 && problem.batch != samples)
    return rebatched(problem, facts, samples);
  return problem;
}

Result<Problem> ShardLibrary::problemOf(int64_t samples) const {
  return withSamples(problem, facts, samples);
}

ShardLibrary::Batch ShardLibrary::makeBatch(const Problem &of, const ProblemFacts &itsFacts,
                                            int64_t samples, int64_t contextRanks) const {
  Batch batch;
  Result<Problem> made = withSamples(of, itsFacts, samples);
  if (!made) {
    batch.error = made.error().message;
    return batch;
  }
  batch.problem = withSplitSequence(std::move(*made), contextRanks);
  batch.facts = std::make_unique<ProblemFacts>(batch.problem);
  return batch;
}

const ShardLibrary::Batch &ShardLibrary::batchOf(int64_t samples, int64_t contextRanks) {
  std::lock_guard lock(mutex);
  auto [it, isNew] = batches.try_emplace({samples, contextRanks});
  if (isNew)
    it->second = makeBatch(problem, facts, samples, contextRanks);
  return it->second;
}

const ShardLibrary::Batch &ShardLibrary::foldedBatchOf(int64_t samples, int64_t contextRanks) {
  std::lock_guard lock(mutex);
  auto [it, isNew] = foldedBatches.try_emplace({samples, contextRanks});
  if (isNew)
    it->second = makeBatch(folding->problem, *foldedFacts, samples, contextRanks);
  return it->second;
}

SolverStore::Task ShardLibrary::taskOf(const Batch &batch, const Folding *of) const {
  std::lock_guard lock(mutex);
  if (!batch.bundles)
    batch.bundles = std::make_shared<const OpBundles>(batch.problem, *batch.facts);
  return {batch.problem, *batch.facts, batch.bundles, of};
}

std::optional<Result<Solution>> ShardLibrary::solveFolded(int64_t samples,
                                                          const Degrees &degrees,
                                                          const SolverOptions &options) {
  if (!folding)
    return std::nullopt;
  const Batch &batch = foldedBatchOf(samples, degrees.cp);
  if (!batch.error.empty())
    return std::nullopt;
  return solvers.solve(taskOf(batch, &*folding), degrees, options);
}

Result<Solution> ShardLibrary::solveUnfolded(const Batch &batch, const Degrees &degrees,
                                             const SolverOptions &options) {
  return *solvers.solve(taskOf(batch, nullptr), degrees, options);
}

Result<Solution> ShardLibrary::solveWhole(const Degrees &degrees, const SolverOptions &options) {
  int64_t samples = degrees.microBatch * degrees.dataRanks();
  const Batch &whole = batchOf(samples, degrees.cp);
  if (!whole.error.empty())
    return Error{whole.error, ErrorCategory::NoFit};
  auto folded = solveFolded(samples, degrees, options);
  if (!folded)
    return solveUnfolded(whole, degrees, options);
  if (*folded)
    (**folded).plan = unfold(*folding, whole.problem, std::move((**folded).plan));
  return std::move(*folded);
}

/// Of one call of a data-parallel rank and those that share its experts.
static int64_t samplesOf(const Degrees &degrees) { return degrees.microBatch * degrees.ep; }

int64_t ShardLibrary::solves() const { return static_cast<int64_t>(solved.size()); }

/// What was found for the other value of Degrees::regather holds for this one.
void ShardLibrary::Solved::share(const Degrees &degrees) {
  Priced &asked = of(degrees);
  const Priced &other = degrees.regather ? kept : regathered;
  if (asked.folded || asked.whole)
    return;
  if (other.folded)
    asked.folded = other.folded->withOtherRegather();
  else if (other.whole)
    asked.whole = other.whole->withOtherRegather();
}

void ShardLibrary::solveOnce(Solved &entry, const Request &request) {
  const auto &[key, degrees, options] = request;
  if (std::exchange(entry.tried, true))
    return entry.share(degrees);
  std::optional<Result<Solution>> found = solveFolded(samplesOf(degrees), degrees, options);
  if (!found)
    return addWhole(entry, degrees, options);
  if (!*found) {
    entry.error = found->error().message;
    return;
  }
  const Batch &batch = foldedBatchOf(samplesOf(degrees), degrees.cp);
  entry.of(degrees).folded = std::make_unique<ShardCosts>(
      batch.problem, *batch.facts, model, folding->blocks, std::move((*found)->plan),
      foldedWorkspace.get(), FoldedModel{&*folding, &blocks});
}

void ShardLibrary::addWhole(Solved &entry, const Degrees &degrees, const SolverOptions &options) {
  const Batch &batch = batchOf(samplesOf(degrees), degrees.cp);
  if (!batch.error.empty()) {
    entry.error = batch.error;
    return;
  }
  Priced &asked = entry.of(degrees);
  Plan plan;
  if (asked.folded) {
    plan = unfold(*folding, batch.problem, asked.folded->getPlan());
  } else {
    auto found = solveUnfolded(batch, degrees, options);
    if (!found) {
      entry.error = found.error().message;
      return;
    }
    plan = std::move(found->plan);
  }
  asked.whole = std::make_unique<ShardCosts>(batch.problem, *batch.facts, model, blocks,
                                             std::move(plan), workspace.get());
}

ShardLibrary::Request ShardLibrary::requestOf(const Degrees &degrees,
                                              const ShardVariant &variant) const {
  const Strides strides = stridesOf(degrees);
  std::vector<int64_t> joined = ranksBelow(cluster, degrees, {Axis::TP, Axis::CP, Axis::EP});
  Degrees inside;
  inside.tp = degrees.tp;
  inside.tensorWeights = degrees.tensorWeights;
  inside.contextExchange = degrees.contextExchange;
  inside.regather = degrees.regather;
  inside.ep = degrees.ep;
  inside.cp = degrees.cp;
  inside.microBatch = degrees.microBatch;
  SolverOptions options{variant.sequenceParallel, variant.secondsPerByte, devices,
                        weighedMicrobatches(problem, degrees, devices)};
  if (strides != stridesOf(inside))
    options.strides = strides;
  return {{degrees.tp, degrees.tensorWeights, degrees.contextExchange, degrees.ep, degrees.cp,
           degrees.microBatch, joined, variant},
          inside,
          options};
}

/// Null where there is no sharding.
const ShardCosts *ShardLibrary::costsOf(Solved &entry, const Request &request,
                                        Recompute recompute, const std::vector<OpId> &cuts) {
  solveOnce(entry, request);
  Priced &asked = entry.of(request.inside);
  if (asked.folded && asked.folded->fits(recompute, cuts))
    return asked.folded.get();
  if (asked.folded && !asked.whole)
    addWhole(entry, request.inside, request.options);
  return asked.whole.get();
}

void ShardLibrary::solveAhead(const std::vector<Asked> &list, const ShardVariant &variant) {
  struct Job {
    Request request;
    Solved *entry;
    std::vector<const Asked *> asked;
  };
  std::vector<Job> jobs;
  for (const Asked &asked : list) {
    Request request = requestOf(asked.degrees, variant);
    Solved *entry = &solved[request.key];
    auto job = std::find_if(jobs.begin(), jobs.end(),
                            [&](const Job &known) { return known.entry == entry; });
    if (job == jobs.end())
      job = jobs.insert(job, {std::move(request), entry, {}});
    job->asked.push_back(&asked);
  }
  inParallel(jobs.size(), [&](size_t i) {
    for (const Asked *asked : jobs[i].asked) {
      Recompute recompute = asked->degrees.recompute;
      if (auto *costs = costsOf(*jobs[i].entry, jobs[i].request, recompute, *asked->cuts))
        costs->unitCosts(recompute, *asked->cuts);
    }
  });
}

const ShardCosts *ShardLibrary::get(const Degrees &degrees, const ShardVariant &variant,
                                    const std::vector<OpId> &cuts, std::string &error) {
  Request request = requestOf(degrees, variant);
  Solved &entry = solved[request.key];
  const ShardCosts *costs = costsOf(entry, request, degrees.recompute, cuts);
  if (!costs)
    error = entry.error;
  return costs;
}

const ShardCosts &ShardLibrary::priced(const ShardCosts &shared) {
  std::unique_ptr<ShardCosts> &own = fromWhole[&shared];
  if (!own)
    own = std::make_unique<ShardCosts>(shared, model);
  return *own;
}

const ShardCosts *ShardLibrary::getFor(ShardLibrary &devices, const Degrees &degrees,
                                       const ShardVariant &variant,
                                       const std::vector<OpId> &cuts, std::string &error) {
  const ShardCosts *shared = get(degrees, variant, cuts, error);
  if (!shared || &devices == this)
    return shared;
  if (const ShardCosts &own = devices.priced(*shared); own.fits(degrees.recompute, cuts))
    return &own;
  auto [key, inside, options] = requestOf(degrees, variant);
  Solved &entry = solved[key];
  Priced &asked = entry.of(inside);
  if (!asked.whole)
    addWhole(entry, inside, options);
  if (!asked.whole) {
    error = entry.error;
    return nullptr;
  }
  return &devices.priced(*asked.whole);
}

} // namespace dtc::plan
