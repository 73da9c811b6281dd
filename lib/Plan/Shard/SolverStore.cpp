#include "dtc/Plan/Shard/SolverStore.h"

#include <algorithm>

namespace dtc::plan {

int64_t SolverStore::networks() const {
  std::lock_guard lock(mutex);
  return built;
}

std::shared_ptr<SolverStore::Kept> SolverStore::keptFor(const Task &task, const Degrees &degrees,
                                                        const SolverOptions &options) {
  ShardingConditions conditions(task.problem, task.facts, degrees, options);
  std::lock_guard lock(mutex);
  auto known = std::find_if(kept.begin(), kept.end(), [&](const std::shared_ptr<Kept> &each) {
    return each->problem == &task.problem && each->conditions == conditions;
  });
  if (known != kept.end()) {
    kept.splice(kept.begin(), kept, known);
    return kept.front();
  }
  kept.push_front(std::make_shared<Kept>(&task.problem, std::move(conditions)));
  ++built;
  if (kept.size() > kMostKept)
    kept.pop_back();
  return kept.front();
}

std::optional<Result<Solution>> SolverStore::solve(const Task &task, const Degrees &degrees,
                                                   const SolverOptions &options) {
  const std::shared_ptr<Kept> of = keptFor(task, degrees, options);
  std::lock_guard lock(of->mutex);
  if (!of->solver)
    of->solver = std::make_unique<ShardingSolver>(task.problem, task.facts, cluster, degrees,
                                                  options, task.bundles, task.folding);
  std::optional<Result<Solution>> found;
  if (task.folding)
    found = of->solver->solveFolded(options.secondsPerByte);
  else
    found = of->solver->solve(options.secondsPerByte);
  if (found && *found) {
    // The solver may have been built for degrees that differ in what shardings don't depend on.
    Degrees &solved = (*found)->plan.degrees;
    const bool sp = solved.sp;
    solved = degrees;
    solved.sp = sp;
  }
  return found;
}

} // namespace dtc::plan
