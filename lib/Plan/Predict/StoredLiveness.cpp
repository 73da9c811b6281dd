#include "dtc/Plan/Predict/StoredLiveness.h"

#include <algorithm>
#include <map>
#include <optional>

namespace dtc::plan {

namespace {

class StoredFinder {
public:
  StoredFinder(const RankExecution &execution, const Problem &problem, int units,
               const std::function<int(OpId)> &unitOf, bool joined)
      : execution(execution), problem(problem), joined(joined) {
    for (std::vector<size_t> &steps : first)
      steps.assign(units, none);
    size_t leaving = execution.firstLeaving();
    for (size_t i = 0; i < execution.steps.size(); ++i) {
      unitOfStep.push_back(unitOf(execution.steps[i].position));
      bool backward = execution.steps[i].backward();
      if (i >= leaving)
        continue;
      size_t &begin = first[backward][unitOfStep[i]];
      begin = std::min(begin, i);
    }
    readers.resize(execution.buffers.size());
    writers.assign(execution.buffers.size(), none);
    for (size_t i = 0; i < execution.steps.size(); ++i) {
      for (int buffer : execution.steps[i].reads)
        readers[buffer].push_back(i);
      for (int buffer : execution.steps[i].writes)
        writers[buffer] = i;
    }
    found.gathered.assign(execution.steps.size(), 0);
    found.scattered.assign(execution.steps.size(), 0);
    for (std::vector<int64_t> *list : {&found.forward, &found.backward, &found.gradients})
      list->assign(units, 0);
  }

  StoredLiveness run() {
    for (ValueId value = 0; value < problem.arguments; ++value)
      if (problem.values[value].trainable)
        for (bool backward : {false, true})
          addParameter(execution.bufferOf(value), backward);
    for (const auto &[parameter, buffer] : execution.gradientBuffers)
      if (problem.values[parameter].trainable)
        addGradient(buffer);
    return std::move(found);
  }

private:
  static constexpr size_t none = ~size_t{0};

  static void add(std::vector<int64_t> &to, size_t begin, size_t end, int64_t bytes) {
    for (size_t i = begin; i < end; ++i)
      to[i] += bytes;
  }

  void addParameter(int buffer, bool backward) {
    std::map<int, size_t> lastReads; // by unit
    for (size_t i : readers[buffer])
      if (execution.steps[i].backward() == backward)
        lastReads[unitOfStep[i]] = i;
    if (lastReads.empty())
      return;
    int64_t bytes = execution.buffers[buffer].bytes;
    std::vector<int64_t> &gathers = backward ? found.backward : found.forward;
    if (joined && lastReads.size() > 1) {
      // In the order of the pass.
      int begins = backward ? lastReads.rbegin()->first : lastReads.begin()->first;
      int ends = backward ? lastReads.begin()->first : lastReads.rbegin()->first;
      gathers[begins] += bytes;
      add(found.gathered, first[backward][begins], lastReads[ends] + 1, bytes);
      return;
    }
    for (auto [unit, read] : lastReads) {
      gathers[unit] += bytes;
      add(found.gathered, first[backward][unit], read + 1, bytes);
    }
  }

  /// One past a unit's steps in the backward pass, in which units before it come later.
  size_t endOfUnit(size_t step, int unit) const {
    while (step < unitOfStep.size() && unitOfStep[step] >= unit)
      ++step;
    return step;
  }

  /// The step that makes the last term of what a step adds up; the step itself if it makes all.
  size_t lastTermOf(size_t sum) const {
    std::optional<size_t> last;
    for (int read : execution.steps[sum].reads)
      if (size_t term = writers[read];
          term != none && term < sum && execution.steps[term].backward() &&
          execution.buffers[read].bytes == execution.buffers[execution.steps[sum].writes[0]].bytes)
        last = std::max(last.value_or(0), term);
    return isSum(sum) ? last.value_or(sum) : sum;
  }
  bool isSum(size_t step) const {
    OpId op = execution.steps[step].op;
    return op >= 0 && problem.ops[op].kind == OpKind::GradientSum;
  }

  /// From where its last term is there as a whole. One that lies in the gradient's place, so
  /// that the execution doesn't count it, is there from its own beginning.
  void addGradient(int buffer) {
    size_t made = writers[buffer];
    if (made == none)
      return;
    int unit = unitOfStep[lastTermOf(made)];
    int64_t bytes = execution.buffers[buffer].bytes;
    found.gradients[unit] += bytes;
    size_t begin = made;
    for (int read : execution.steps[made].reads) {
      if (execution.buffers[read].bytes != bytes || !isSum(made))
        continue;
      size_t term = writers[read];
      if (term == none || !execution.steps[term].backward())
        continue;
      bool isPlaced = execution.buffers[read].persistent;
      if (isPlaced && (joined || unitOfStep[term] == unit))
        begin = std::min(begin, term);
      else if (!isPlaced && begin == made)
        begin = made + 1; // until then the term is counted
    }
    add(found.scattered, begin, endOfUnit(made, unit), bytes);
  }

  const RankExecution &execution;
  const Problem &problem;
  bool joined;
  std::vector<int> unitOfStep;
  std::vector<std::vector<size_t>> readers; ///< by buffer: steps
  std::vector<size_t> writers;              ///< by buffer: the last step
  std::vector<size_t> first[2];             ///< step of each unit, by pass
  StoredLiveness found;
};

} // namespace

StoredLiveness storedLiveness(const RankExecution &execution, const Problem &problem, int units,
                              const std::function<int(OpId)> &unitOf, bool joined) {
  return StoredFinder(execution, problem, units, unitOf, joined).run();
}

} // namespace dtc::plan
