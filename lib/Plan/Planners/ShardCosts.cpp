#include "ShardCosts.h"

#include "ShardingSolver.h"

#include "dtc/Plan/Search.h"

#include <algorithm>

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

int64_t ShardCosts::dataBytes() const {
  int64_t bytes = 0;
  for (ValueId value = 0; value < problem.arguments; ++value)
    if (ValueKind kind = problem.values[value].kind;
        kind == ValueKind::Input || kind == ValueKind::Target)
      bytes += localBytes(problem.values[value], plan.arguments.at(value), plan.mesh);
  return bytes;
}

ShardCosts::ShardCosts(const Problem &problem, const ProblemFacts &facts, const CostModel &model,
                       const std::vector<Block> &blocks, Plan given, const Workspace *workspace)
    : problem(problem), facts(facts), model(model), blocks(blocks), workspace(workspace),
      plan(std::move(given)), execution(problem, facts, plan, model, workspace),
      scalars(scalarSums(problem, facts, plan)) {}

const Profile &ShardCosts::profile(Recompute recompute, const std::vector<OpId> &cuts) const {
  std::unique_ptr<Profile> &known = profiles[{recompute, cuts}];
  if (known)
    return *known;
  if (recompute == Recompute::None)
    known = std::make_unique<Profile>(problem, facts, execution, plan.mesh, cuts);
  else {
    Execution again(problem, facts, plan, model, workspace);
    addRecomputation(again, problem, blocks, recomputeAll(blocks, recompute));
    known = std::make_unique<Profile>(problem, facts, again, plan.mesh, cuts);
  }
  return *known;
}

const Weights &ShardCosts::weights(const std::vector<OpId> &cuts) const {
  std::unique_ptr<Weights> &known = weightsOf[cuts];
  if (!known)
    known = std::make_unique<Weights>(
        findWeights(problem, facts, plan, execution, profile(Recompute::None, cuts),
                    model.getCluster().software));
  return *known;
}

ShardLibrary::ShardLibrary(const Problem &problem, const Cluster &cluster,
                           const SearchOptions &options)
    : problem(problem), facts(problem), cluster(cluster), devices(options.devices),
      workspace(options.workspace), model(cluster, devices), blocks(findBlocks(problem, facts)) {
  if (options.fold)
    folding = fold(problem, facts, blocks);
  if (folding)
    foldedFacts.emplace(folding->problem);
}

bool ShardLibrary::keepsInsideOps() const {
  OpWork work(problem, facts, model);
  for (OpId op = 0; op < static_cast<OpId>(problem.ops.size()); ++op)
    if (problem.ops[op].kind == OpKind::Attention && work.savedBytes(op) > 0)
      return true;
  return false;
}

ShardLibrary::Batch ShardLibrary::makeBatch(const Problem &of, const ProblemFacts &itsFacts,
                                            int64_t samples, bool splitsSequence) const {
  Batch batch;
  if (of.batch > 0 && of.batch != samples) {
    Result<Problem> other = rebatched(of, itsFacts, samples);
    if (!other) {
      batch.error = other.error().message;
      return batch;
    }
    batch.problem = std::move(*other);
  } else {
    batch.problem = of;
  }
  if (splitsSequence)
    batch.problem = withSplitQueries(std::move(batch.problem));
  batch.facts = std::make_unique<ProblemFacts>(batch.problem);
  return batch;
}

const ShardLibrary::Batch &ShardLibrary::batchOf(int64_t samples, bool splitsSequence) {
  auto [it, isNew] = batches.try_emplace({samples, splitsSequence});
  if (isNew)
    it->second = makeBatch(problem, facts, samples, splitsSequence);
  return it->second;
}

const ShardLibrary::Batch &ShardLibrary::foldedBatchOf(int64_t samples, bool splitsSequence) {
  auto [it, isNew] = foldedBatches.try_emplace({samples, splitsSequence});
  if (isNew)
    it->second = makeBatch(folding->problem, *foldedFacts, samples, splitsSequence);
  return it->second;
}

Result<Solution> ShardLibrary::solve(int64_t samples, const Degrees &degrees,
                                     const SolverOptions &options) {
  const Batch &whole = batchOf(samples, degrees.cp > 1);
  if (!whole.error.empty())
    return Error{whole.error, 4};
  if (folding) {
    const Batch &batch = foldedBatchOf(samples, degrees.cp > 1);
    auto found = ShardingSolver(batch.problem, *batch.facts, cluster, degrees, options)
                     .solveFolded(*folding);
    if (found && *found)
      (*found)->plan = unfold(*folding, whole.problem, std::move((*found)->plan));
    if (found)
      return std::move(*found);
  }
  return solveSharding(whole.problem, *whole.facts, cluster, degrees, options);
}

const ShardCosts *ShardLibrary::get(const Degrees &degrees, const ShardVariant &variant,
                                    std::string &error) {
  Key key{degrees.tp, degrees.cp, degrees.microBatch, variant};
  auto [it, isNew] = solved.try_emplace(key);
  if (!isNew) {
    if (!it->second)
      error = errors[key];
    return it->second.get();
  }
  Degrees inside;
  inside.tp = degrees.tp;
  inside.cp = degrees.cp;
  inside.microBatch = degrees.microBatch;
  SolverOptions options{variant.sequenceParallel, variant.secondsPerByte, devices,
                        weighedMicrobatches(problem, degrees, devices)};
  auto solution = solve(degrees.microBatch, inside, options);
  if (!solution) {
    errors[key] = error = solution.error().message;
    return nullptr;
  }
  const Batch &batch = batchOf(degrees.microBatch, degrees.cp > 1);
  it->second = std::make_unique<ShardCosts>(batch.problem, *batch.facts, model, blocks,
                                            std::move(solution->plan), workspace);
  return it->second.get();
}

} // namespace dtc::plan
