#include "dtc/Plan/Predict/JoinedKernels.h"

#include "PlacedPrograms.h"

#include <algorithm>
#include <limits>

namespace dtc::plan {

namespace {

class KernelJoiner {
public:
  KernelJoiner(RankExecution &execution, const Problem &problem)
      : steps(execution.steps), buffers(execution.buffers), problem(problem),
        maker(buffers.size(), kNone), readers(buffers.size()) {
    for (size_t i = 0; i < steps.size(); ++i) {
      for (int buffer : steps[i].writes)
        maker[buffer] = std::min(maker[buffer], i);
      for (int buffer : steps[i].reads)
        readers[buffer].push_back(i);
    }
  }
  void run() {
    for (size_t i = 0; i < steps.size(); ++i)
      if (steps[i].pass == StepPass::Recompute && canMake(steps[i]))
        forReaders(i, [&](size_t reader, int buffer) {
          if (maker[buffer] != kNone && canJoin(reader, i))
            join(reader, i);
        });
    for (size_t i = 0; i < steps.size(); ++i)
      if (isGradient(i))
        forReaders(i, [&](size_t reader, int buffer) {
          if (isGradient(i) && areSiblings(i, reader, buffer))
            joinSiblings(i, reader);
        });
    // What is no tensor is computed with what reads it.
    for (ExecutionStep &step : steps)
      if (step.pass == StepPass::InputGrad && isElementwise(step) && step.writes.empty())
        step.reads.clear();
  }

private:
  template <typename Visit> void forReaders(size_t at, Visit visit) {
    for (int buffer : std::vector<int>(steps[at].reads))
      for (size_t reader : readers[buffer])
        if (reader > at)
          visit(reader, buffer);
  }
  bool isElementwise(const ExecutionStep &step) const {
    return step.op >= 0 && !step.collective && step.inPlace &&
           problem.ops[step.op].kind == OpKind::Elementwise;
  }
  bool canMake(const ExecutionStep &step) const {
    return isElementwise(step) && !step.writes.empty();
  }
  bool isGradient(size_t at) const {
    return steps[at].pass == StepPass::InputGrad && canMake(steps[at]);
  }
  /// Whether all that a gradient reads is there as an earlier step runs.
  bool canJoin(size_t gradient, size_t at) const {
    return isGradient(gradient) && std::ranges::all_of(steps[gradient].reads, [&](int buffer) {
             return maker[buffer] == kNone || maker[buffer] <= at;
           });
  }
  bool areSiblings(size_t first, size_t second, int common) const {
    if (!isGradient(second))
      return false;
    auto isAsLarge = [&](int buffer) { return buffers[buffer].bytes == buffers[common].bytes; };
    auto readsOf = [&](int buffer) { return std::ranges::count(steps[second].reads, buffer) > 0; };
    return std::ranges::all_of(steps[first].writes, isAsLarge) &&
           std::ranges::all_of(steps[second].writes, isAsLarge) &&
           std::ranges::none_of(steps[first].writes, readsOf);
  }
  /// The first one waits for what the second one reads, unless its own readers don't.
  void joinSiblings(size_t first, size_t second) {
    auto waits = [&](int buffer) {
      const std::vector<size_t> &of = readers[buffer];
      return std::ranges::all_of(of, [&](size_t reader) { return reader > second; });
    };
    for (size_t step : {first, second})
      sortReads(steps[step]);
    if (canJoin(second, first))
      join(second, first);
    else if (std::ranges::all_of(steps[first].writes, waits))
      join(first, second);
  }
  /// Of what an op reads, what was made first comes first, and is written over first.
  void sortReads(ExecutionStep &step) const {
    std::ranges::stable_sort(step.reads, {}, [&](int buffer) {
      return maker[buffer] == kNone ? 0 : maker[buffer];
    });
  }
  /// Its seconds stay where they are.
  void join(size_t from, size_t to) {
    ExecutionStep &source = steps[from], &target = steps[to];
    for (int buffer : source.writes)
      maker[buffer] = to;
    for (int buffer : source.reads)
      std::ranges::replace(readers[buffer], from, to);
    target.reads.insert(target.reads.end(), source.reads.begin(), source.reads.end());
    target.writes.insert(target.writes.end(), source.writes.begin(), source.writes.end());
    source.reads.clear();
    source.writes.clear();
  }

  std::vector<ExecutionStep> &steps;
  const std::vector<Buffer> &buffers;
  const Problem &problem;
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();
  std::vector<size_t> maker;                ///< by buffer: the step
  std::vector<std::vector<size_t>> readers; ///< by buffer: steps
};

} // namespace

void joinKernels(RankExecution &execution, const Problem &problem, const Software &software) {
  if (hasPlaces(software))
    KernelJoiner(execution, problem).run();
}

} // namespace dtc::plan
