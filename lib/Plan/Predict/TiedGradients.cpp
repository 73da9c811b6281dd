#include "TiedGradients.h"

#include <algorithm>

namespace dtc::plan {

namespace {

class TermFinder {
public:
  TermFinder(const RankExecution &execution, const Problem &problem)
      : execution(execution), problem(problem), writers(execution.buffers.size(), none) {
    for (size_t i = 0; i < execution.steps.size(); ++i)
      for (int buffer : execution.steps[i].writes)
        writers[buffer] = i;
  }
  static constexpr size_t none = ~size_t{0};
  size_t writerOf(int buffer) const { return writers[buffer]; }

  /// The first step that makes a term of what a step adds up, also of sums of sums; the step itself
  /// if it makes all.
  size_t firstTermOf(size_t step, int64_t bytes) const {
    const ExecutionStep &sum = execution.steps[step];
    if (sum.op < 0 || problem.ops[sum.op].kind != OpKind::GradientSum)
      return step;
    size_t first = step;
    for (int read : sum.reads)
      if (size_t term = writers[read]; term != none && term < step &&
                                       execution.steps[term].backward() &&
                                       execution.buffers[read].bytes == bytes)
        first = std::min(first, firstTermOf(term, bytes));
    return first;
  }

  /// The steps that make the last terms of stages, as far as these are known.
  void addLastTerms(size_t step, std::vector<size_t> &to) const {
    const ExecutionStep &sum = execution.steps[step];
    if (sum.op < 0 || problem.ops[sum.op].kind != OpKind::GradientSum)
      return;
    for (int read : sum.reads)
      if (const size_t term = writers[read]; term != none && term < step) {
        if (execution.buffers[read].until == read)
          to.push_back(term);
        addLastTerms(term, to);
      }
  }

private:
  const RankExecution &execution;
  const Problem &problem;
  std::vector<size_t> writers; ///< by buffer: the last step
};

} // namespace

void addTiedGradients(StoredLiveness &stored, const RankExecution &execution,
                      const Problem &problem, const std::vector<int> &unitOfStep,
                      const StorageLevels &levels, bool keepsToEnd) {
  const TermFinder finder(execution, problem);
  // The unit's other gradients are scattered behind it: it is summed up then.
  const std::vector<int64_t> others = stored.gradients;
  for (const auto &[parameter, buffer] : execution.gradientBuffers) {
    const size_t made = finder.writerOf(buffer);
    if (made == TermFinder::none || !problem.values[parameter].trainable ||
        !isScattered(levels, parameter))
      continue;
    const int64_t bytes = execution.buffers[buffer].bytes;
    std::vector<size_t> ends;
    finder.addLastTerms(made, ends);
    if (ends.empty())
      ends.push_back(finder.firstTermOf(made, bytes));
    for (size_t end : ends) {
      const int unit = unitOfStep[end];
      if (unit == unitOfStep[made])
        continue;
      stored.tied.resize(stored.scattered.size(), 0);
      stored.leaves.resize(stored.scattered.size(), 0);
      stored.leaves[end] += bytes;
      if (keepsToEnd || others[unit] == 0) {
        stored.gradients[unit] += bytes;
        stored.tiedGradients[unit] += bytes;
      }
      for (size_t step = end + 1; step < made; ++step)
        if (unitOfStep[step] == unit) {
          stored.scattered[step] += bytes;
          stored.tied[step] += bytes;
        }
    }
  }
}

} // namespace dtc::plan
