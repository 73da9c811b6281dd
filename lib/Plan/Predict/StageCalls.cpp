#include "dtc/Plan/Predict/StageCalls.h"

#include "Liveness.h"

#include <algorithm>

namespace dtc::plan {

StageCalls::StageCalls(const RankExecution &execution, const Problem &problem)
    : problem(problem), made(execution.buffers.size()),
      readBackward(execution.buffers.size(), false), readLate(execution.buffers.size(), false) {
  for (const ExecutionStep &step : execution.steps) {
    StageCall call = callOf(step);
    steps.push_back(call);
    for (int buffer : step.reads) {
      readBackward[buffer] = readBackward[buffer] || call != StageCall::Forward;
      readLate[buffer] = readLate[buffer] || call == StageCall::WeightGrad;
    }
    for (int buffer : step.writes)
      if (!made[buffer])
        made[buffer] = call;
  }
}

/// What is made of gradients of weights comes with them.
StageCall StageCalls::callOf(const ExecutionStep &step) const {
  if (!step.backward())
    return StageCall::Forward;
  bool isLate = step.pass == StepPass::WeightGrad ||
                std::any_of(step.reads.begin(), step.reads.end(),
                            [&](int buffer) { return made[buffer] == StageCall::WeightGrad; });
  return isLate ? StageCall::WeightGrad : StageCall::InputGrad;
}

bool StageCalls::isKeptBy(size_t buffer, StageCall call) const {
  switch (call) {
  case StageCall::Forward:
    return readBackward[buffer];
  case StageCall::Backward:
    return made[buffer] == StageCall::Forward;
  case StageCall::InputGrad:
    return made[buffer] != StageCall::InputGrad || readLate[buffer];
  case StageCall::WeightGrad:
    return made[buffer] != StageCall::WeightGrad;
  }
  return false;
}

bool StageCalls::readsTerms(const ExecutionStep &step) const {
  return step.op >= 0 && problem.ops[step.op].kind == OpKind::GradientSum &&
         callOf(step) == StageCall::WeightGrad;
}

bool StageCalls::accumulates(const ExecutionStep &step) const {
  if (step.collective || !readsTerms(step))
    return false;
  const std::vector<ValueId> &terms = problem.ops[step.op].operands;
  return std::any_of(terms.begin(), terms.end(), [&](ValueId term) {
    return problem.values[term].kind == ValueKind::Accumulator;
  });
}

namespace {

/// What a call's functions have in messages or in the places of gradients, of all that its steps
/// make, and so not as temporaries.
class TemporaryFinder {
public:
  TemporaryFinder(const RankExecution &execution, const Problem &problem, StageCall call,
                  const std::function<int(OpId)> &unitOf)
      : execution(execution), problem(problem), calls(execution, problem), call(call),
        maker(execution.buffers.size(), kNone), reach(execution.buffers.size(), -1) {
    for (const ExecutionStep &step : execution.steps)
      units.push_back(unitOf(step.position));
    for (size_t i = 0; i < execution.steps.size(); ++i)
      enter(i);
  }

  Temporaries run();

private:
  static constexpr size_t kNone = ~size_t{0};

  void enter(size_t i);
  void placeTerms(Liveness &liveness, std::vector<bool> &atHome) const;
  void spread(const Liveness::Life &life, Temporaries &to) const;
  bool isForward() const { return call == StageCall::Forward; }
  /// The one of two units that the call comes to later.
  int later(int a, int b) const { return isForward() ? std::max(a, b) : std::min(a, b); }
  /// Products and collectives write nothing but their results. Rows of experts are added up.
  bool addsNothing(size_t step) const {
    const ExecutionStep &of = execution.steps[step];
    return of.collective || (of.op >= 0 && problem.ops[of.op].kind == OpKind::Contraction &&
                             !problem.ops[of.op].isGroupedProduct());
  }

  const RankExecution &execution;
  const Problem &problem;
  StageCalls calls;
  StageCall call;
  std::vector<int> units;    ///< by step
  std::vector<size_t> maker; ///< by buffer: the first step that writes it
  std::vector<int> reach;    ///< by buffer: the unit in which the call uses it last
};

} // namespace

void TemporaryFinder::enter(size_t i) {
  const ExecutionStep &step = execution.steps[i];
  if (!calls.has(call, i))
    return;
  bool sums = calls.readsTerms(step);
  for (int buffer : step.reads) {
    if (!sums && maker[buffer] != kNone)
      reach[buffer] = later(reach[buffer], units[i]);
  }
  for (int buffer : step.writes)
    if (maker[buffer] == kNone) {
      maker[buffer] = i;
      reach[buffer] = units[i];
    }
}

/// A gradient that is added to what is there lies in that place, unless a product makes it. A term
/// whose stage isn't that of the sum has a place of its own.
void TemporaryFinder::placeTerms(Liveness &liveness, std::vector<bool> &atHome) const {
  std::vector<bool> accumulated(execution.buffers.size(), false);
  for (size_t i = execution.steps.size(); i-- > 0;) {
    const ExecutionStep &step = execution.steps[i];
    if (!calls.has(call, i) || !calls.readsTerms(step))
      continue;
    bool adds =
        calls.accumulates(step) || std::any_of(step.writes.begin(), step.writes.end(),
                                               [&](int buffer) { return accumulated[buffer]; });
    auto isHere = [&](int buffer) {
      return maker[buffer] != kNone && units[maker[buffer]] == units[i];
    };
    auto here = std::count_if(step.reads.begin(), step.reads.end(), isHere);
    for (int buffer : step.reads) {
      if (maker[buffer] == kNone || execution.buffers[buffer].persistent)
        continue;
      accumulated[buffer] = adds;
      bool isAlone = !isHere(buffer) || here == 1;
      if (step.collective) {
        // The stage that makes a term brings it to the sum's form, too.
        for (int brought : step.writes)
          atHome[brought] = atHome[brought] || !isHere(buffer);
        if (!isHere(buffer))
          liveness.endAt(buffer, maker[buffer]);
        continue;
      }
      if (adds ? isAlone && !addsNothing(maker[buffer]) : !isHere(buffer))
        atHome[buffer] = true;
      else if (!isHere(buffer))
        liveness.endAt(buffer, maker[buffer]);
    }
  }
}

/// What comes from the unit before in the call, or leaves for the one after it.
void TemporaryFinder::spread(const Liveness::Life &life, Temporaries &to) const {
  int first = units[maker[life.buffer]], last = reach[life.buffer];
  if (first == last)
    return;
  int64_t bytes = execution.buffers[life.buffer].bytes;
  for (size_t i = life.begin; i < life.end; ++i) {
    if (!calls.has(call, i))
      continue;
    bool comes = units[i] != first, leaves = units[i] != last;
    to.below[i] += (isForward() ? comes : leaves) ? bytes : 0;
    to.above[i] += (isForward() ? leaves : comes) ? bytes : 0;
    to.outside[i] += bytes;
  }
}

Temporaries TemporaryFinder::run() {
  std::vector<bool> elsewhere;
  for (size_t buffer = 0; buffer < execution.buffers.size(); ++buffer)
    elsewhere.push_back(!execution.buffers[buffer].persistent && calls.isKeptBy(buffer, call));
  Liveness liveness(execution, std::move(elsewhere));
  std::vector<bool> atHome(execution.buffers.size(), false);
  placeTerms(liveness, atHome);
  const size_t steps = execution.steps.size();
  const std::vector<int64_t> nothing(steps, 0);
  Temporaries result{std::vector<int64_t>(steps, -1), nothing, nothing, nothing, nothing};
  for (size_t i = 0; i < steps; ++i)
    if (calls.has(call, i))
      result.live[i] = liveness.advance();
    else
      liveness.skip();
  // What is written over until it leaves lies in the message from the start.
  const auto &over = liveness.getOverwritten();
  for (auto it = over.rbegin(); it != over.rend(); ++it)
    if (auto [from, to] = *it;
        maker[from] != kNone && maker[to] != kNone && units[maker[from]] == units[maker[to]])
      reach[from] = later(reach[from], reach[to]);
  for (const Liveness::Life &life : liveness.getLives())
    if (!atHome[life.buffer])
      spread(life, result);
    else
      for (size_t i = life.begin; i < life.end; ++i)
        result.atHome[i] += execution.buffers[life.buffer].bytes;
  return result;
}

Temporaries temporariesOf(const RankExecution &execution, const Problem &problem, StageCall call,
                          const std::function<int(OpId)> &unitOf) {
  return TemporaryFinder(execution, problem, call, unitOf).run();
}

} // namespace dtc::plan
