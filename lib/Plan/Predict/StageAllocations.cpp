#include "StageAllocations.h"

#include <algorithm>

namespace dtc::plan {

using Action = AllocationEvent::Action;

AllocationSequence::AllocationSequence(const Problem &problem, const RankExecution &execution,
                                       const FoldedCuts &at)
    : execution(execution), at(at), writer(execution.buffers.size(), -1),
      turn(writer.size(), -1), firstReader(writer.size(), -1), lastReader(writer.size(), -1),
      sumOfTerm(writer.size(), 0), made(at.cuts.size()) {
  for (const Value &value : problem.values)
    if (value.trainable && problem.optimizer.gradientBytes > 0)
      share = std::min(share, double(byteSize(value.type)) /
                                  double(problem.optimizer.gradientBytes));
  findTerms(problem);
  findWriters();
  aligned = findAligned();
  if (!aligned)
    return;
  addPlaces(false);
  addPlaces(true);
}

int AllocationSequence::unitOf(int step) const {
  const std::vector<OpId> &cuts = at.cuts;
  auto after = std::upper_bound(cuts.begin(), cuts.end(), execution.steps[step].position);
  return std::clamp(static_cast<int>(after - cuts.begin()) - 1, 0,
                    static_cast<int>(cuts.size()) - 2);
}

void AllocationSequence::findTerms(const Problem &problem) {
  for (const ExecutionStep &step : execution.steps) {
    sums.push_back(step.op >= 0 && problem.ops[step.op].kind == OpKind::GradientSum);
    for (int written : step.writes)
      for (int read : step.reads)
        if (sums.back())
          sumOfTerm[read] = execution.buffers[written].bytes;
  }
}

void AllocationSequence::findWriters() {
  for (int step = 0; step < static_cast<int>(execution.steps.size()); ++step) {
    int unit = unitOf(step);
    for (int buffer : execution.steps[step].writes)
      if (writer[buffer] < 0 && !execution.buffers[buffer].persistent) {
        writer[buffer] = unit;
        turn[buffer] = static_cast<int>(made[unit].size());
        made[unit].push_back(buffer);
      }
    if (sums[step])
      continue;
    for (int buffer : execution.steps[step].reads) {
      bool isFirst = firstReader[buffer] < 0;
      firstReader[buffer] = isFirst ? unit : std::min(firstReader[buffer], unit);
      lastReader[buffer] = std::max(lastReader[buffer], unit);
    }
  }
}

/// The repeated block and those beside it, which stand in for its neighbours.
bool AllocationSequence::findAligned() const {
  const FoldedUnits &fold = at.units;
  auto alike = [&](int a, int b) {
    return execution.buffers[a].bytes == execution.buffers[b].bytes;
  };
  if (fold.copies == 1)
    return true;
  for (int unit = fold.first - fold.count; unit < fold.first + fold.count; ++unit)
    if (const std::vector<int> &here = made[unit], &next = made[unit + fold.count];
        !std::equal(here.begin(), here.end(), next.begin(), next.end(), alike))
      return false;
  return true;
}

/// All copies of the repeated block come where it comes.
void AllocationSequence::addPlaces(bool backward) {
  const FoldedUnits &fold = at.units;
  std::vector<std::pair<int, int>> repeated; // step and unit
  std::vector<std::pair<int, int>> all;
  for (int step = 0; step < static_cast<int>(execution.steps.size()); ++step) {
    if (execution.steps[step].backward() != backward)
      continue;
    int unit = unitOf(step);
    if (!fold.repeats(unit))
      all.emplace_back(step, unit);
    else if (repeated.emplace_back(step, unit); repeated.size() == 1)
      all.emplace_back(step, unit); // where they begin
  }
  for (auto [step, unit] : all) {
    if (!fold.repeats(unit)) {
      places.push_back({step, 0, fold.at(unit)});
      continue;
    }
    for (int i = 0; i < fold.copies; ++i) {
      int copy = backward ? fold.copies - 1 - i : i;
      for (auto [own, in] : repeated)
        places.push_back({own, copy, fold.at(in, copy)});
    }
  }
}

/// The buffer of the whole model that a step of this unit means, as buffer * copies +
/// copy; -1: none that is allocated.
int AllocationSequence::bufferOf(int buffer, int unit, int copy) const {
  const FoldedUnits &fold = at.units;
  int from = writer[buffer];
  if (from < 0)
    return -1;
  if (fold.copies == 1)
    return buffer;
  int end = fold.first + fold.count;
  auto isBefore = [&](int u) { return u < fold.first && u >= fold.first - fold.count; };
  auto isAfter = [&](int u) { return u >= end && u < end + fold.count; };
  if (fold.repeats(from)) {
    if (!fold.repeats(unit))
      copy = unit < fold.first ? 0 : fold.copies - 1;
    return buffer * fold.copies + copy;
  }
  if (fold.repeats(unit) && isBefore(from) && copy > 0)
    return made[from + fold.count][turn[buffer]] * fold.copies + copy - 1;
  if (fold.repeats(unit) && isAfter(from) && copy + 1 < fold.copies)
    return made[from - fold.count][turn[buffer]] * fold.copies + copy + 1;
  return buffer * fold.copies;
}

/// Whether units other than [a, b) read it.
bool AllocationSequence::leaves(int buffer, int copy, int a, int b) const {
  const FoldedUnits &fold = at.units;
  if (firstReader[buffer] < 0)
    return false;
  int from = writer[buffer], first, last;
  if (fold.repeats(from)) {
    int here = fold.at(from, copy);
    first = here + firstReader[buffer] - from;
    last = here + lastReader[buffer] - from;
  } else {
    first = fold.at(firstReader[buffer]);
    last = fold.at(lastReader[buffer], fold.repeats(lastReader[buffer]) ? fold.copies - 1 : 0);
  }
  return first < a || last >= b;
}

//===-- stages ------------------------------------------------------------===//

/// One stage's buffers while its steps are read off.
class AllocationSequence::Stage {
public:
  Stage(const AllocationSequence &model, int a, int b, bool split);
  StageAllocations run();

private:
  /// When a buffer is used; numbers of steps.
  struct Use {
    int last = 0;
    bool there = false;   ///< allocated
    bool gone = false;
    int as = -1;          ///< the buffer whose place it took
    int64_t sum = 0;      ///< of a term that no sum here reads: the bytes of its sum
  };
  int find(int buffer, const Place &place) const; ///< -1: not used here
  int indexOf(int buffer, const Place &place);
  void findUses();
  void arrive(size_t list);
  void run(const Place &place, int now);
  void write(const ExecutionStep &step, const Place &place, int buffer, int now);
  void keepGradient(const ExecutionStep &step, const Place &place, int64_t bytes, int now);
  /// Of a gradient whose sum takes `bytes`.
  void limit(size_t gradient, int64_t bytes) {
    auto own = static_cast<int64_t>(double(bytes) * model.share);
    result.bytes[root(gradient)] = std::min(result.bytes[root(gradient)], own);
  }
  int root(int index) const {
    while (uses[index].as >= 0)
      index = uses[index].as;
    return index;
  }
  void add(Action action, int index) { events->push_back({action, root(index)}); }
  bool diesAt(int index, int now) const { return !uses[index].gone && uses[index].last == now; }

  const AllocationSequence &model;
  std::vector<std::vector<Place>> lists; ///< by kind of call
  std::vector<std::vector<int>> arriving; ///< by kind of call
  std::vector<int> index; ///< by buffer of the whole model, -1: not used here
  std::vector<Use> uses;
  StageAllocations result;
  std::vector<AllocationEvent> *events = nullptr;
};

AllocationSequence::Stage::Stage(const AllocationSequence &model, int a, int b, bool split)
    : model(model), lists(3), arriving(3),
      index(model.writer.size() * std::max(1, model.at.units.copies), -1) {
  for (const Place &place : model.places) {
    if (place.unit < a || place.unit >= b)
      continue;
    StepPass pass = model.execution.steps[place.step].pass;
    bool later = split && pass == StepPass::WeightGrad;
    lists[pass == StepPass::Forward ? 0 : later ? 2 : 1].push_back(place);
  }
  findUses();
  // What others read stays until it is sent, at the end of its call.
  int end = 0;
  for (const std::vector<Place> &list : lists) {
    end += static_cast<int>(list.size());
    for (const Place &place : list)
      for (int buffer : model.execution.steps[place.step].writes)
        if (int i = indexOf(buffer, place); i >= 0 && model.leaves(buffer, place.copy, a, b))
          uses[i].last = std::max(uses[i].last, end - 1);
  }
}

int AllocationSequence::Stage::find(int buffer, const Place &place) const {
  int whole = model.bufferOf(buffer, model.unitOf(place.step), place.copy);
  return whole < 0 ? -1 : index[whole];
}

int AllocationSequence::Stage::indexOf(int buffer, const Place &place) {
  int whole = model.bufferOf(buffer, model.unitOf(place.step), place.copy);
  if (whole < 0)
    return -1;
  if (index[whole] < 0) {
    index[whole] = static_cast<int>(uses.size());
    uses.push_back({.sum = model.sumOfTerm[buffer]});
    result.bytes.push_back(model.execution.buffers[buffer].bytes);
  }
  return index[whole];
}

void AllocationSequence::Stage::findUses() {
  int now = 0;
  for (size_t list = 0; list < lists.size(); ++list)
    for (const Place &place : lists[list]) {
      const ExecutionStep &step = model.execution.steps[place.step];
      for (int buffer : step.reads) {
        size_t known = uses.size();
        bool isSum = model.sums[place.step];
        if (int i = isSum ? find(buffer, place) : indexOf(buffer, place); i >= 0) {
          uses[i].last = now;
          uses[i].sum = isSum ? 0 : uses[i].sum;
          if (uses.size() > known)
            arriving[list].push_back(i);
        }
      }
      for (int buffer : step.writes)
        if (int i = indexOf(buffer, place); i >= 0)
          uses[i].last = now;
      ++now;
    }
}

/// The gradient that a step leaves: the term that it adds to the sum, or what it made.
void AllocationSequence::Stage::keepGradient(const ExecutionStep &step, const Place &place,
                                             int64_t bytes, int now) {
  const std::vector<Buffer> &buffers = model.execution.buffers;
  auto isSum = [&](int read) { return buffers[read].persistent && buffers[read].bytes == bytes; };
  bool accumulates = step.inPlace && std::any_of(step.reads.begin(), step.reads.end(), isSum);
  for (int buffer : step.reads)
    if (int i = accumulates ? find(buffer, place) : -1; i >= 0 && diesAt(i, now)) {
      uses[i].gone = true;
      add(Action::Gradient, i);
      limit(i, bytes);
      return;
    }
  if (accumulates)
    return;
  uses.push_back({now, true, true, -1});
  result.bytes.push_back(bytes);
  limit(result.bytes.size() - 1, bytes);
  auto made = static_cast<int>(uses.size()) - 1;
  add(Action::Allocate, made);
  add(Action::Gradient, made);
}

void AllocationSequence::Stage::write(const ExecutionStep &step, const Place &place, int buffer,
                                      int now) {
  const Buffer &made = model.execution.buffers[buffer];
  if (made.persistent) {
    if (step.backward())
      keepGradient(step, place, made.bytes, now);
    return;
  }
  int i = indexOf(buffer, place);
  if (i < 0 || uses[i].there)
    return;
  uses[i].there = true;
  for (int read : step.reads)
    if (int old = step.inPlace ? find(read, place) : -1;
        old >= 0 && old != i && diesAt(old, now) && result.bytes[old] == result.bytes[i]) {
      uses[old].gone = true;
      uses[i].as = old;
      return;
    }
  add(Action::Allocate, i);
}

void AllocationSequence::Stage::run(const Place &place, int now) {
  const ExecutionStep &step = model.execution.steps[place.step];
  for (int buffer : step.writes)
    write(step, place, buffer, now);
}

StageAllocations AllocationSequence::Stage::run() {
  std::vector<AllocationEvent> *targets[] = {&result.forward, &result.inputGrad,
                                             &result.weightGrad};
  std::vector<std::vector<int>> dying;
  size_t steps = lists[0].size() + lists[1].size() + lists[2].size();
  dying.resize(steps);
  for (size_t i = 0; i < uses.size(); ++i)
    dying[uses[i].last].push_back(static_cast<int>(i));
  int now = 0;
  for (size_t list = 0; list < lists.size(); ++list) {
    events = targets[list];
    for (int i : arriving[list]) {
      uses[i].there = true;
      add(Action::Allocate, i);
    }
    for (const Place &place : lists[list]) {
      run(place, now);
      StepPass pass = model.execution.steps[place.step].pass;
      bool isForward = pass == StepPass::Forward || pass == StepPass::Recompute;
      for (int i : dying[now])
        if (uses[i].there && !uses[i].gone) {
          uses[i].gone = true;
          if (uses[i].sum > 0)
            limit(i, uses[i].sum);
          add(uses[i].sum > 0 ? Action::Gradient : isForward ? Action::Release : Action::Free, i);
        }
      ++now;
    }
  }
  return std::move(result);
}

StageAllocations AllocationSequence::stage(int a, int b, bool split) const {
  return Stage(*this, a, b, split).run();
}

} // namespace dtc::plan
