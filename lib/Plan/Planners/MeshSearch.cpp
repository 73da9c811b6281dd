// Which degrees: every mesh of dp x tp devices is solved and priced.
#include "dtc/Plan/Search.h"

#include <algorithm>
#include <cmath>

namespace dtc::plan {

namespace {

class MeshSearch {
public:
  MeshSearch(const Problem &problem, const Cluster &cluster, const SearchOptions &options)
      : problem(problem), facts(problem), cluster(cluster), options(options) {}
  Result<SearchResult> run();

private:
  struct Candidate {
    Solution solution;
    Prediction predicted;
  };

  std::string whyNot(const Degrees &degrees) const;
  std::vector<Degrees> meshes(const Spec &spec);
  Result<Candidate> solveAt(const Degrees &degrees, const Spec &spec,
                            double secondsPerByte) const;
  Result<Candidate> solve(const Degrees &degrees, const Spec &spec) const;
  std::string shortage() const;

  const Problem &problem;
  ProblemFacts facts;
  const Cluster &cluster;
  SearchOptions options;
  std::string refusal; ///< why the last mesh was not possible
  std::vector<Candidate> found;
};

} // namespace

/// Degrees and settings that no planner chooses and no phase carries out yet.
static std::string unsupported(const Spec &spec) {
  Plan plan;
  plan.degrees.pp = spec.pp.value_or(1);
  plan.degrees.cp = spec.cp.value_or(1);
  plan.degrees.ep = spec.ep.value_or(1);
  plan.degrees.zero = spec.zero.value_or(0);
  plan.degrees.zeroGroup = spec.zeroGroup.value_or(0);
  plan.degrees.chunks = spec.chunks.value_or(1);
  plan.degrees.recompute = spec.recompute.value_or(Recompute::None);
  plan.degrees.offload = spec.offload.value_or(Offload::None);
  std::vector<std::string> list = unimplemented(plan);
  return list.empty() ? "" : "plan: " + list.front();
}

static bool mayHoldBatch(const sharding::Factor &factor) {
  return factor.kind == sharding::FactorKind::Parallel ||
         factor.kind == sharding::FactorKind::Reduction;
}

/// Why the degrees don't suit the problem, or "".
std::string MeshSearch::whyNot(const Degrees &degrees) const {
  if (degrees.dp > 1) {
    if (problem.batch > 0 && problem.batch % degrees.dp != 0)
      return "dp doesn't divide the batch of " + std::to_string(problem.batch) + ": " +
             std::to_string(degrees.dp);
    bool splits = false;
    for (size_t id = 0; id < problem.ops.size(); ++id) {
      sharding::FactorId batch = facts.batchFactor[id];
      if (batch < 0 || !mayHoldBatch(problem.ops[id].rule.factors[batch]))
        continue;
      splits = true;
      if (int64_t size = problem.ops[id].rule.factors[batch].size; size % degrees.dp != 0)
        return "the batch of " + problem.ops[id].name + " (" + problem.ops[id].location +
               ") has size " + std::to_string(size) + ", not a multiple of dp: " +
               std::to_string(degrees.dp);
    }
    if (!splits)
      return "nothing carries a batch that could be split: dp=" + std::to_string(degrees.dp);
  }
  return "";
}

std::vector<Degrees> MeshSearch::meshes(const Spec &spec) {
  std::vector<Degrees> result;
  for (int64_t tp = 1; tp <= options.devices; ++tp) {
    Degrees degrees;
    degrees.tp = tp;
    degrees.dp = options.devices / tp;
    if (degrees.devices() != options.devices || (spec.tp && *spec.tp != tp) ||
        (spec.dp && *spec.dp != degrees.dp))
      continue;
    degrees.numMicrobatches = problem.numMicrobatches;
    degrees.microBatch = std::max<int64_t>(1, problem.batch / degrees.dp);
    if (spec.schedule)
      degrees.schedule = *spec.schedule;
    if (std::string reason = whyNot(degrees); !reason.empty()) {
      refusal = reason;
      continue;
    }
    if (spec.microBatch && *spec.microBatch != degrees.microBatch) {
      refusal = "with dp=" + std::to_string(degrees.dp) + " a microbatch has " +
                std::to_string(degrees.microBatch) + " samples a rank, not micro_batch=" +
                std::to_string(*spec.microBatch);
      continue;
    }
    result.push_back(degrees);
  }
  return result;
}

/// Whether the plan splits normalizations along the sequence.
static bool usesSequenceParallel(const Problem &problem, const ProblemFacts &facts,
                                 const Plan &plan) {
  sharding::AxisList tp = plan.mesh.ofDegree("tp");
  for (size_t id = 0; id < problem.ops.size(); ++id)
    if (problem.ops[id].kind == OpKind::Normalization)
      for (sharding::FactorId factor : facts.sequenceFactors[id])
        for (sharding::AxisId axis : plan.ops[id].factors[factor])
          if (std::find(tp.begin(), tp.end(), axis) != tp.end())
            return true;
  return false;
}

Result<MeshSearch::Candidate> MeshSearch::solveAt(const Degrees &degrees, const Spec &spec,
                                                  double secondsPerByte) const {
  auto solution = solveSharding(problem, facts, cluster, degrees, spec.sp, secondsPerByte);
  if (!solution)
    return solution.error();
  Candidate candidate{std::move(*solution), {}};
  candidate.solution.plan.degrees.sp =
      usesSequenceParallel(problem, facts, candidate.solution.plan);
  candidate.predicted = predict(problem, candidate.solution.plan, cluster, options.workspace);
  return candidate;
}

/// Solves for time. Where the result doesn't fit, memory gets a price, which
/// rises until it fits, and is then lowered as far as it still does.
Result<MeshSearch::Candidate> MeshSearch::solve(const Degrees &degrees, const Spec &spec) const {
  constexpr double least = 1e-18; // among equally fast plans the smaller one is better
  Result<Candidate> best = solveAt(degrees, spec, least);
  if (!best || best->predicted.fits())
    return best;
  double even = best->predicted.stepSeconds / double(best->predicted.memory.total());
  double low = least, high = 0;
  for (double price = 0.01 * even; price < 1e6 * even && high == 0; price *= 16) {
    Result<Candidate> next = solveAt(degrees, spec, price);
    if (!next)
      return next;
    if (next->predicted.memory.total() < best->predicted.memory.total())
      best = std::move(next);
    if (best->predicted.fits())
      high = price;
    else
      low = price;
  }
  for (int i = 0; i < 4 && high > 0; ++i) {
    double price = std::sqrt(std::max(low, high / 16) * high);
    Result<Candidate> next = solveAt(degrees, spec, price);
    if (!next)
      return next;
    bool fits = next->predicted.fits();
    if (fits && next->predicted.stepSeconds <= best->predicted.stepSeconds)
      best = std::move(next);
    (fits ? high : low) = price;
  }
  return best;
}

static std::string megabytes(double bytes) {
  return std::to_string(static_cast<int64_t>(bytes / 1e6 + 0.5)) + " MB";
}

/// What is short, for the candidate that comes closest.
std::string MeshSearch::shortage() const {
  const Candidate *closest = &found.front();
  for (const Candidate &candidate : found)
    if (candidate.predicted.memory.total() < closest->predicted.memory.total())
      closest = &candidate;
  const MemoryUse &memory = closest->predicted.memory;
  return "no plan fits: " + summary(closest->solution.plan.degrees) + " needs " +
         megabytes(double(memory.total())) + " a rank (parameters " +
         megabytes(double(memory.parameters)) + ", gradients " +
         megabytes(double(memory.gradients)) + ", optimizer " +
         megabytes(double(memory.optimizer)) + ", activations " +
         megabytes(double(memory.activations)) + "), there are " +
         megabytes(closest->predicted.memoryCapacity);
}

Result<SearchResult> MeshSearch::run() {
  if (std::string error = check(problem); !error.empty())
    return Error{"plan: " + error};
  if (std::string error = unsupported(options.spec); !error.empty())
    return Error{error, 2};
  Result<Spec> spec = fill(options.spec, options.devices);
  if (!spec)
    return spec.error();
  std::optional<Error> lastError;
  for (const Degrees &degrees : meshes(*spec)) {
    Result<Candidate> candidate = solve(degrees, *spec);
    if (candidate)
      found.push_back(std::move(*candidate));
    else
      lastError = candidate.error();
  }
  if (found.empty())
    return lastError ? *lastError
                     : Error{"no plan for " + std::to_string(options.devices) + " devices" +
                                 (refusal.empty() ? "" : ": " + refusal), 4};
  std::stable_sort(found.begin(), found.end(), [](const Candidate &a, const Candidate &b) {
    if (a.predicted.fits() != b.predicted.fits())
      return a.predicted.fits();
    return a.predicted.stepSeconds < b.predicted.stepSeconds;
  });
  SearchResult result;
  result.pinned = spec->dp && spec->tp;
  if (!found.front().predicted.fits() && !result.pinned)
    return Error{shortage(), 4};
  result.plan = std::move(found.front().solution.plan);
  result.predicted = std::move(found.front().predicted);
  result.optimalityGap = found.front().solution.gap;
  for (size_t i = 1; i < found.size(); ++i)
    result.alternatives.push_back(
        {found[i].solution.plan.degrees, std::move(found[i].predicted)});
  return result;
}

Result<SearchResult> search(const Problem &problem, const Cluster &cluster,
                            const SearchOptions &options) {
  return MeshSearch(problem, cluster, options).run();
}

} // namespace dtc::plan
