#include "Profile.h"

#include <algorithm>
#include <limits>

namespace dtc::plan {

PassSeconds &PassSeconds::operator+=(const PassSeconds &other) {
  forward += other.forward;
  recompute += other.recompute;
  inputGrad += other.inputGrad;
  weightGrad += other.weightGrad;
  return *this;
}

PassSeconds PassSeconds::operator-(const PassSeconds &other) const {
  return {forward - other.forward, recompute - other.recompute, inputGrad - other.inputGrad,
          weightGrad - other.weightGrad};
}

Profile::Profile(const Problem &problem, const ProblemFacts &facts, const Execution &execution,
                 const sharding::Mesh &mesh, std::vector<OpId> given)
    : cuts(std::move(given)) {
  addSeconds(execution);
  addMemory(execution);
  addTransfers(problem, facts, execution, mesh);
  argumentUnits.resize(problem.arguments);
  for (ValueId value = 0; value < problem.arguments; ++value)
    for (OpId reader : facts.consumers[value])
      if (!problem.ops[reader].backward)
        if (int unit = unitOf(std::min(reader, facts.lastForward));
            argumentUnits[value].empty() || argumentUnits[value].back() != unit)
          argumentUnits[value].push_back(unit);
}

int Profile::unitOf(OpId position) const {
  auto after = std::upper_bound(cuts.begin(), cuts.end(), position);
  return std::clamp(static_cast<int>(after - cuts.begin()) - 1, 0, units() - 1);
}

void Profile::addSeconds(const Execution &execution) {
  std::vector<PassSeconds> all(units()), exchanged(units()), launched(units());
  auto add = [](PassSeconds &to, const ExecutionStep &step, double seconds) {
    double PassSeconds::*pass = step.pass == StepPass::Forward     ? &PassSeconds::forward
                                : step.pass == StepPass::Recompute ? &PassSeconds::recompute
                                : step.pass == StepPass::InputGrad ? &PassSeconds::inputGrad
                                                                   : &PassSeconds::weightGrad;
    to.*pass += seconds;
  };
  for (const ExecutionStep &step : execution.steps) {
    int unit = unitOf(step.position);
    add(all[unit], step, step.seconds);
    add(launched[unit], step, step.hostSeconds);
    if (step.collective && *step.collective != sharding::StepKind::Slice)
      add(exchanged[unit], step, step.seconds);
  }
  auto sumUp = [&](std::vector<PassSeconds> &result, const std::vector<PassSeconds> &each) {
    result.assign(cuts.size(), {});
    for (int unit = 0; unit < units(); ++unit) {
      result[unit + 1] = result[unit];
      result[unit + 1] += each[unit];
    }
  };
  sumUp(sums, all);
  sumUp(collectives, exchanged);
  sumUp(hosts, launched);
}

//===-- memory ------------------------------------------------------------===//

namespace {

/// The units that write and read a buffer.
struct Use {
  int writer = -1;
  bool forwardWriter = false;
  std::vector<int> forward, backward; ///< readers, ascending and distinct
};

} // namespace

static void makeDistinct(std::vector<int> &list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

static std::vector<Use> usesOf(const Execution &execution, const Profile &profile) {
  std::vector<Use> uses(execution.buffers.size());
  for (const ExecutionStep &step : execution.steps) {
    int unit = profile.unitOf(step.position);
    for (int buffer : step.writes)
      if (uses[buffer].writer < 0) {
        uses[buffer].writer = unit;
        uses[buffer].forwardWriter = !step.backward();
      }
    for (int buffer : step.reads)
      (step.backward() ? uses[buffer].backward : uses[buffer].forward).push_back(unit);
  }
  for (size_t i = 0; i < uses.size(); ++i) {
    makeDistinct(uses[i].forward);
    makeDistinct(uses[i].backward);
    if (execution.buffers[i].persistent)
      uses[i].writer = -1;
  }
  return uses;
}

/// Adds a buffer of the forward pass to all stages [a, b) that neither make nor
/// read it, but begin while it is there in the execution of the whole model.
static void addBefore(const Use &use, int64_t bytes, int size, StageTable &outside) {
  std::vector<int> readers = use.forward;
  readers.insert(readers.end(), use.backward.begin(), use.backward.end());
  makeDistinct(readers);
  int from = use.writer + 1;
  for (int reader : readers) {
    outside.add(from, reader + 1, 0, reader + 1, bytes);
    from = std::max(from, reader + 1);
  }
  if (!use.backward.empty())
    outside.add(from, size, 0, size, bytes);
}

/// The same for a buffer of the backward pass, which comes from units after b.
static void addAfter(const Use &use, int64_t bytes, int size, StageTable &outside) {
  for (size_t i = 0; i < use.backward.size(); ++i) {
    int reader = use.backward[i];
    int next = i + 1 < use.backward.size() ? use.backward[i + 1] : size;
    outside.add(reader + 1, size, reader + 1, std::min(use.writer, next) + 1, bytes);
  }
}

void Profile::addMemory(const Execution &execution) {
  auto size = static_cast<int>(cuts.size());
  std::vector<Use> uses = usesOf(execution, *this);
  StageTable before(units()), after(units());
  saved = StageTable(units());
  for (size_t i = 0; i < uses.size(); ++i) {
    const Use &use = uses[i];
    if (use.writer < 0)
      continue;
    int64_t bytes = execution.buffers[i].bytes;
    if (use.forwardWriter) {
      saved.addToStagesWith(use.backward, bytes); // kept where it is read again
      addBefore(use, bytes, size, before);
    } else {
      addAfter(use, bytes, size, after);
    }
  }
  for (StageTable *table : {&saved, &before, &after})
    table->finish();
  std::vector<int64_t> forward(units(), 0), backward(units(), 0);
  std::vector<int64_t> live = liveBytes(execution);
  for (size_t i = 0; i < execution.steps.size(); ++i) {
    const ExecutionStep &step = execution.steps[i];
    int64_t &most = (step.backward() ? backward : forward)[unitOf(step.position)];
    most = std::max(most, live[i]);
  }
  peaks.assign(cuts.size() * cuts.size(), 0);
  for (int a = 0; a < units(); ++a) {
    int64_t mostForward = 0, mostBackward = 0;
    for (int b = a + 1; b <= units(); ++b) {
      mostForward = std::max(mostForward, forward[b - 1]);
      mostBackward = std::max(mostBackward, backward[b - 1]);
      peaks[index(a, b)] =
          std::max({mostForward - before(a, b), mostBackward - before(a, b) - after(a, b),
                    savedBytes(a, b)});
    }
  }
}

//===-- transfers ---------------------------------------------------------===//

void Profile::addTransfers(const Problem &problem, const ProblemFacts &facts,
                           const Execution &execution, const sharding::Mesh &mesh) {
  std::vector<int64_t> forward(cuts.size() + 1, 0), backward(cuts.size() + 1, 0);
  auto positionOf = [&](OpId op) {
    OpId position = problem.ops[op].forward;
    return unitOf(position >= 0 ? position : std::min(op, facts.lastForward));
  };
  // A gradient is summed up as soon as all its terms are there, and sent as one.
  auto values = static_cast<ValueId>(problem.values.size());
  std::vector<int> makers(values, units() - 1);
  for (auto value = static_cast<ValueId>(problem.arguments); value < values; ++value) {
    const Op &made = problem.ops[facts.producer[value]];
    makers[value] = positionOf(facts.producer[value]);
    if (made.kind != OpKind::GradientSum)
      continue;
    int complete = units() - 1;
    for (ValueId term : made.operands)
      complete = std::min(complete, makers[term]);
    makers[value] = std::max(makers[value], complete);
  }
  for (auto value = static_cast<ValueId>(problem.arguments); value < values; ++value) {
    OpId producer = facts.producer[value];
    if (facts.isStatic[producer])
      continue; // computed where it is needed
    if (facts.gradientOf[value] >= 0 && facts.gradientOf[value] < problem.arguments)
      continue; // stages that share a weight sum its gradients once a step: StageCosts
    int maker = makers[value];
    bool isForward = !problem.ops[producer].backward;
    int last = maker, first = maker;
    for (OpId reader : facts.consumers[value]) {
      bool isSum = problem.ops[reader].kind == OpKind::GradientSum;
      int unit = isSum ? makers[problem.ops[reader].results[0]] : positionOf(reader);
      if (isForward && !problem.ops[reader].backward)
        last = std::max(last, unit);
      if (!isForward && !facts.isResult[value])
        first = std::min(first, unit);
    }
    int64_t bytes = localBytes(problem.values[value], execution.layoutOf(value), mesh);
    if (last > maker) {
      forward[maker + 1] += bytes;
      forward[last + 1] -= bytes;
    }
    if (first < maker) {
      backward[first + 1] += bytes;
      backward[maker + 1] -= bytes;
    }
  }
  for (size_t i = 1; i < forward.size(); ++i) {
    forward[i] += forward[i - 1];
    backward[i] += backward[i - 1];
  }
  sentForward = std::move(forward);
  sentBackward = std::move(backward);
}

} // namespace dtc::plan
