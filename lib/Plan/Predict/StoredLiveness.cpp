#include "dtc/Plan/Predict/StoredLiveness.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace dtc::plan {

namespace {

class StoredFinder {
public:
  StoredFinder(const RankExecution &execution, const Problem &problem, int units,
               const std::vector<int> &unitOfStep, const StorageLevels &levels)
      : execution(execution), problem(problem), units(units), unitOfStep(unitOfStep),
        levels(levels), readers(execution.buffers.size()), writers(execution.buffers.size(), none),
        isTerm(execution.buffers.size(), false) {
    for (std::vector<size_t> &steps : first)
      steps.assign(units, none);
    for (size_t i = 0, leaving = execution.firstLeaving(); i < leaving; ++i) {
      size_t &begin = first[execution.steps[i].backward()][unitOfStep[i]];
      begin = std::min(begin, i);
    }
    std::vector<bool> isParameter(execution.buffers.size(), false);
    for (ValueId value = 0; value < problem.arguments; ++value)
      if (problem.values[value].trainable)
        isParameter[execution.bufferOf(value)] = true;
    for (size_t i = 0; i < execution.steps.size(); ++i) {
      for (int buffer : execution.steps[i].reads)
        if (isParameter[buffer])
          readers[buffer].push_back(i);
      for (int buffer : execution.steps[i].writes)
        writers[buffer] = i;
      if (isSum(i))
        for (int buffer : execution.steps[i].reads)
          isTerm[buffer] = true;
    }
  }

  StoredLiveness run(bool isJoined) {
    joined = isJoined;
    found = nothingStored(execution.steps.size(), units);
    for (ValueId value = 0; value < problem.arguments; ++value)
      if (problem.values[value].trainable && isGathered(levels, value))
        for (bool backward : {false, true})
          addParameter(execution.bufferOf(value), backward);
    addAgain();
    for (const auto &[parameter, buffer] : execution.gradientBuffers)
      if (problem.values[parameter].trainable && isScattered(levels, parameter))
        addGradient(buffer);
    for (std::vector<int64_t> *list :
         {&found.gathered, &found.again, &found.scattered, &found.underWay})
      std::partial_sum(list->begin(), list->end(), list->begin());
    return std::move(found);
  }

private:
  static constexpr size_t none = ~size_t{0};

  /// To the steps [begin, end), once what is added before a step is summed up.
  static void add(std::vector<int64_t> &to, size_t begin, size_t end, int64_t bytes) {
    if (begin >= end)
      return;
    to[begin] += bytes;
    to[end] -= bytes;
  }

  void addParameter(int buffer, bool backward) {
    lastReads.clear();
    for (size_t i : readers[buffer])
      if (execution.steps[i].backward() == backward)
        noteRead(unitOfStep[i], i);
    if (lastReads.empty())
      return;
    if (backward)
      noteOwnRead(readers[buffer]);
    int64_t bytes = execution.buffers[buffer].bytes;
    std::vector<int64_t> &gathers = backward ? found.backward : found.forward;
    if (joined && lastReads.size() > 1) {
      // In the order of the pass.
      auto [least, most] = std::minmax_element(lastReads.begin(), lastReads.end());
      int begins = backward ? most->first : least->first;
      size_t last = backward ? least->second : most->second;
      gathers[begins] += bytes;
      add(found.gathered, first[backward][begins], last + 1, bytes);
      return;
    }
    for (auto [unit, read] : lastReads) {
      gathers[unit] += bytes;
      add(found.gathered, first[backward][unit], read + 1, bytes);
    }
    if (lastReads.size() > 1)
      shared.push_back({backward, bytes, lastReads});
  }

  /// The next unit of a pass that gathers anything, or one out of range.
  int nextGathering(int unit, bool backward) const {
    const std::vector<int64_t> &gathers = backward ? found.backward : found.forward;
    for (int next = unit;;) {
      next += backward ? -1 : 1;
      if (next < 0 || next >= units || gathers[next] > 0)
        return next;
    }
  }

  void addAgain() {
    for (const SharedParameter &each : shared)
      for (auto [unit, read] : each.lastReads)
        if (const int next = nextGathering(unit, each.backward);
            std::ranges::any_of(each.lastReads, [&](auto &of) { return of.first == next; }))
          add(found.again, first[each.backward][unit], read + 1, each.bytes);
    shared.clear();
  }

  /// A parameter belongs to the unit of its stage that reads it first.
  void noteOwnRead(const std::vector<size_t> &reads) {
    for (size_t i : reads)
      if (int unit = unitOfStep[i];
          execution.steps[i].backward() && (!joined || unit == unitOfStep[reads.front()]))
        found.gathersNext[unit] = std::min(found.gathersNext[unit], i);
  }

  void noteRead(int unit, size_t step) {
    auto known = std::find_if(lastReads.begin(), lastReads.end(),
                              [&](const auto &read) { return read.first == unit; });
    if (known == lastReads.end())
      lastReads.emplace_back(unit, step);
    else
      known->second = step;
  }

  /// One past a unit's steps in the backward pass, in which units before it come later.
  size_t endOfUnit(size_t step, int unit) const {
    size_t end = step;
    for (; step < unitOfStep.size() && unitOfStep[step] >= unit; ++step)
      if (unitOfStep[step] == unit)
        end = step + 1;
    return end;
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
    }
    add(found.scattered, begin, endOfUnit(made, unit), bytes);
    addUnderWay(made, endOfUnit(made, unit));
  }

  /// What a gradient is made of is summed up over further ranks by a collective of its own. That
  /// is waited for where the block scatters, or with one that is started later
  /// (StartCollectives.cpp). Until then it holds what it reads, unless it sums that up in place.
  void addUnderWay(size_t made, size_t end) {
    std::vector<size_t> sums = {made};
    for (int read : isSum(made) ? execution.steps[made].reads : std::vector<int>())
      if (writers[read] != none)
        sums.push_back(writers[read]);
    for (size_t sum : sums) {
      const ExecutionStep &step = execution.steps[sum];
      if (!exchanges(step) || step.inPlace || !step.backward())
        continue;
      size_t until = sum + 1;
      while (until < end && !isWaitedFor(until))
        ++until;
      for (int read : step.reads)
        if (!execution.buffers[read].persistent)
          add(found.underWay, sum + 1, until, execution.buffers[read].bytes);
    }
  }

  static bool exchanges(const ExecutionStep &step) {
    return step.collective && *step.collective != sharding::StepKind::Slice;
  }
  /// Whether a step exchanges what the backward pass goes on with.
  bool isWaitedFor(size_t i) const {
    const ExecutionStep &step = execution.steps[i];
    return exchanges(step) && std::ranges::none_of(step.writes, [&](int buffer) {
             return execution.buffers[buffer].persistent || isTerm[buffer];
           });
  }

  const RankExecution &execution;
  const Problem &problem;
  int units;
  bool joined = false;
  const std::vector<int> &unitOfStep;
  const StorageLevels &levels;
  std::vector<std::vector<size_t>> readers; ///< by buffer of a parameter: steps
  std::vector<size_t> writers;              ///< by buffer: the last step
  std::vector<bool> isTerm;                 ///< by buffer: of a sum of gradients
  std::vector<size_t> first[2];             ///< step of each unit, by pass
  using LastReads = std::vector<std::pair<int, size_t>>; ///< of a parameter in a pass, by unit
  LastReads lastReads;
  /// What several units gather in a pass.
  struct SharedParameter {
    bool backward = false;
    int64_t bytes = 0;
    LastReads lastReads;
  };
  std::vector<SharedParameter> shared;
  StoredLiveness found;
};

} // namespace

StoredLiveness nothingStored(size_t steps, int units) {
  const std::vector<int64_t> byStep(steps + 1, 0), byUnit(units, 0);
  return {.gathered = byStep,
          .scattered = byStep,
          .tied = {},
          .tiedGradients = byUnit,
          .leaves = {},
          .again = byStep,
          .underWay = byStep,
          .forward = byUnit,
          .backward = byUnit,
          .gradients = byUnit,
          .gathersNext = std::vector<size_t>(units, ~size_t{0})};
}

StoredInStages storedLiveness(const RankExecution &execution, const Problem &problem, int units,
                              const std::vector<int> &unitOfStep, const StorageLevels &levels) {
  StoredFinder finder(execution, problem, units, unitOfStep, levels);
  return {finder.run(/*isJoined=*/false), finder.run(/*isJoined=*/true)};
}

} // namespace dtc::plan
