#include "dtc/Plan/Predict/StageCalls.h"

#include "Liveness.h"

#include "dtc/Sharding/TermsOfGradients.h"

#include <algorithm>
#include <span>

namespace dtc::plan {

StageCalls::StageCalls(const RankExecution &execution, const Problem &problem)
    : execution(execution), problem(problem), made(execution.buffers.size()),
      readBackward(execution.buffers.size(), false), readLate(execution.buffers.size(), false) {
  steps.reserve(execution.steps.size());
  sums.reserve(execution.steps.size());
  for (const ExecutionStep &step : execution.steps) {
    StageCall call = callOf(step);
    steps.push_back(call);
    sums.push_back(step.op >= 0 && problem.ops[step.op].kind == OpKind::GradientSum);
    for (int buffer : step.reads)
      readBackward[buffer] = readBackward[buffer] || call != StageCall::Forward;
    for (int buffer : step.writes)
      if (!made[buffer])
        made[buffer] = call;
  }
  delayUnneeded();
}

/// What is made of gradients of weights comes with them.
StageCall StageCalls::callOf(const ExecutionStep &step) const {
  if (!step.backward())
    return StageCall::Forward;
  bool isLate = (step.pass == StepPass::WeightGrad && (!step.collective || step.writes.empty())) ||
                std::any_of(step.reads.begin(), step.reads.end(),
                            [&](int buffer) { return made[buffer] == StageCall::WeightGrad; });
  return isLate ? StageCall::WeightGrad : StageCall::InputGrad;
}

/// Sums and collectives come with gradients of data only if these are made of them
/// (Stages/PassesOfOps.cpp).
void StageCalls::delayUnneeded() {
  std::vector<bool> needed(execution.buffers.size(), false), isRead = needed;
  for (size_t i = execution.steps.size(); i-- > 0;) {
    const ExecutionStep &step = execution.steps[i];
    auto any = [&](const std::vector<bool> &of) {
      return std::any_of(step.writes.begin(), step.writes.end(),
                         [&](int buffer) { return of[buffer]; });
    };
    bool isLeft = step.pass == StepPass::WeightGrad || any(isRead);
    if ((step.collective || sums[i]) && steps[i] == StageCall::InputGrad && isLeft &&
        !any(needed)) {
      steps[i] = StageCall::WeightGrad;
      sums[i] = false;
    }
    for (int buffer : step.writes)
      made[buffer] = steps[i];
    std::vector<bool> &reader = steps[i] == StageCall::WeightGrad ? readLate : needed;
    for (int buffer : step.reads) {
      isRead[buffer] = true;
      reader[buffer] = true;
    }
  }
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

bool StageCalls::writesResultsAlone(size_t step) const {
  const ExecutionStep &of = execution.steps[step];
  return of.collective || (of.op >= 0 && problem.ops[of.op].kind == OpKind::Contraction &&
                           !problem.ops[of.op].isGroupedProduct());
}

bool StageCalls::isRoundedLate(size_t step) const {
  const OpId id = execution.steps[step].op;
  if (id < 0 || execution.steps[step].collective || problem.ops[id].kind != OpKind::Lookup)
    return false;
  const DType type = problem.values[problem.ops[id].results[0]].type;
  return problem.ops[id].backward == BackwardKind::WeightGrad &&
         (type == DType::BF16 || type == DType::F16);
}

bool StageCalls::accumulates(size_t step) const {
  if (execution.steps[step].collective || !readsTerms(step))
    return false;
  const std::vector<ValueId> &terms = problem.ops[execution.steps[step].op].operands;
  return std::any_of(terms.begin(), terms.end(), [&](ValueId term) {
    return problem.values[term].kind == ValueKind::Accumulator;
  });
}

namespace {

/// What a call's functions have in messages or in the places of gradients, of all that its steps
/// make, and so not as temporaries.
class TemporaryFinder {
public:
  TemporaryFinder(const RankExecution &execution, const StageCalls &calls, StageCall call,
                  const std::vector<int> &units, const std::vector<bool> &scattered)
      : execution(execution), calls(calls), call(call), units(units), scattered(scattered),
        maker(execution.buffers.size(), kNone), reach(execution.buffers.size(), -1) {
    for (size_t i = 0; i < execution.steps.size(); ++i)
      if (calls.has(call, i))
        enter(i);
  }

  Temporaries run();

private:
  static constexpr size_t kNone = ~size_t{0};

  void enter(size_t i);
  std::vector<bool> elsewhere() const;
  void placeTerms(Liveness &liveness, std::vector<bool> &atHome);
  template <typename IsHere>
  void addInPlace(const ExecutionStep &step, IsHere isHere, std::vector<bool> &atHome) const;
  template <typename IsHere>
  bool startsSum(int buffer, const ExecutionStep &step, IsHere isHere) const;
  bool isLastTerm(int buffer, const ExecutionStep &step) const {
    return std::ranges::all_of(step.reads, [&](int other) {
      return maker[other] == kNone || maker[other] <= maker[buffer];
    });
  }
  bool areSummedInTurn(const ExecutionStep &step) const;
  /// Whether no other term is added up with that buffer.
  bool isOnlyOne(int until, const ExecutionStep &step) const {
    return std::ranges::count_if(
               step.reads, [&](int term) { return execution.buffers[term].until == until; }) == 1;
  }
  bool isWithin(int buffer, const ExecutionStep &step) const {
    return execution.buffers[buffer].bytes <= execution.buffers[step.writes[0]].bytes;
  }
  void placeInSlots(const Liveness &liveness, std::vector<bool> &atHome) const;
  void addBrought(const std::vector<size_t> &before, std::vector<Temporary> &to) const;
  void spread(const Liveness::Life &life, std::span<Temporary> to) const;
  bool isForward() const { return call == StageCall::Forward; }
  /// The one of two units that the call comes to later.
  int later(int a, int b) const { return isForward() ? std::max(a, b) : std::min(a, b); }

  const RankExecution &execution;
  const StageCalls &calls;
  StageCall call;
  const std::vector<int> &units; ///< by step
  std::vector<bool> scattered;   ///< by buffer: gradients, and with `placeTerms` their terms
  std::vector<size_t> maker;     ///< by buffer: the first step that writes it
  std::vector<int> reach;        ///< by buffer: the unit in which the call uses it last
  std::vector<TermOfOthers> terms;
  /// Of a term that the sum's stage has brought to its form: its own buffer, and what comes of it.
  struct Brought {
    int term = 0;
    int64_t bytes = 0;
  };
  std::vector<Brought> brought;
};

} // namespace

void TemporaryFinder::enter(size_t i) {
  const ExecutionStep &step = execution.steps[i];
  if (!calls.readsTerms(i))
    for (int buffer : step.reads)
      if (maker[buffer] != kNone)
        reach[buffer] = later(reach[buffer], units[i]);
  for (int buffer : step.writes)
    if (maker[buffer] == kNone) {
      maker[buffer] = i;
      reach[buffer] = units[i];
    }
}

/// Terms that are brought to the sum's form together are added up before. Each lies in the place of
/// the first one, unless a product makes it.
template <typename IsHere>
void TemporaryFinder::addInPlace(const ExecutionStep &step, IsHere isHere,
                                 std::vector<bool> &atHome) const {
  size_t first = kNone;
  for (int buffer : step.reads)
    first = isHere(buffer) ? std::min(first, maker[buffer]) : first;
  for (int buffer : step.reads)
    if (isHere(buffer) && maker[buffer] != first && !calls.writesResultsAlone(maker[buffer]))
      atHome[buffer] = true;
}

/// Of a gradient that other stages have terms of, too, each has a place for its own. The first term
/// of a stage is made there. Later ones are added to it, unless products make them.
template <typename IsHere>
bool TemporaryFinder::startsSum(int buffer, const ExecutionStep &step, IsHere isHere) const {
  const auto isOfOthers = [&](int term) { return maker[term] != kNone && !isHere(term); };
  if (step.collective || !execution.buffers[step.writes[0]].persistent ||
      std::ranges::none_of(step.reads, isOfOthers))
    return false;
  const bool isFirst = std::ranges::none_of(
      step.reads, [&](int term) { return isHere(term) && maker[term] < maker[buffer]; });
  return isFirst || !calls.writesResultsAlone(maker[buffer]);
}

/// Which terms a stage makes isn't known here. Each is taken for making as many.
bool TemporaryFinder::areSummedInTurn(const ExecutionStep &step) const {
  const auto terms = std::ranges::count_if(step.reads, [&](int buffer) {
    return maker[buffer] != kNone && !execution.buffers[buffer].persistent;
  });
  return terms > sharding::kMostSummedTogether * execution.stages();
}

/// A gradient that is added to what is there lies in that place, unless a product makes it, or a
/// part of it is added alone. A term whose stage isn't that of the sum has a place of its own.
void TemporaryFinder::placeTerms(Liveness &liveness, std::vector<bool> &atHome) {
  std::vector<bool> accumulated(execution.buffers.size(), false);
  for (size_t i = execution.steps.size(); i-- > 0;) {
    const ExecutionStep &step = execution.steps[i];
    if (!calls.has(call, i) || !calls.readsTerms(i))
      continue;
    bool adds =
        calls.accumulates(i) || std::any_of(step.writes.begin(), step.writes.end(),
                                            [&](int buffer) { return accumulated[buffer]; });
    auto isHere = [&](int buffer) {
      return maker[buffer] != kNone && units[maker[buffer]] == units[i];
    };
    auto here = std::count_if(step.reads.begin(), step.reads.end(), isHere);
    const bool inTurn = adds && !step.collective && areSummedInTurn(step);
    if (step.collective)
      addInPlace(step, isHere, atHome);
    bool isScattered = std::any_of(step.writes.begin(), step.writes.end(),
                                   [&](int buffer) { return scattered[buffer]; });
    for (int buffer : step.reads) {
      scattered[buffer] = scattered[buffer] || isScattered;
      if (maker[buffer] == kNone)
        continue;
      accumulated[buffer] = adds;
      if (execution.buffers[buffer].persistent)
        continue;
      const int until = execution.buffers[buffer].until;
      const bool isAlone = until < 0 ? !isHere(buffer) || here == 1 : isOnlyOne(until, step);
      if (step.collective) {
        // The stage that makes a term brings it to the sum's form, too.
        for (int brought : step.writes)
          atHome[brought] = atHome[brought] || here == 0;
        if (isHere(buffer))
          continue;
        liveness.endAt(buffer, maker[buffer]);
        if (!step.inPlace)
          brought.push_back({buffer, execution.buffers[step.writes[0]].bytes});
        continue;
      }
      if (!adds && isHere(buffer) && startsSum(buffer, step, isHere)) {
        atHome[buffer] = true;
        continue;
      }
      const bool fits = isWithin(buffer, step);
      if (here > 1 && isLastTerm(buffer, step) && calls.isRoundedLate(maker[buffer])) {
        atHome[buffer] = true; // it is rounded into the sum of the others
        scattered[buffer] = false;
      } else if (adds ? isAlone && fits && !calls.writesResultsAlone(maker[buffer])
                      : !isHere(buffer)) {
        atHome[buffer] = true;
        if (until < 0 && scattered[buffer] && units[maker[buffer]] > units[i])
          terms.push_back({units[i], units[maker[buffer]], execution.buffers[buffer].bytes});
      } else if (until < 0 && (!isHere(buffer) || inTurn)) {
        liveness.endAt(buffer, maker[buffer]);
      }
    }
  }
}

/// What the forward pass sums up over ranks in place lies from the start in the slot that keeps the
/// sum.
void TemporaryFinder::placeInSlots(const Liveness &liveness, std::vector<bool> &atHome) const {
  if (!isForward())
    return;
  for (auto [from, to] : liveness.getOverwritten())
    if (maker[from] != kNone && maker[to] != kNone && calls.isKeptBy(to, call) &&
        execution.steps[maker[to]].collective)
      atHome[from] = true;
}

/// The stage that makes a term brings it to the sum's form: it has both then. `before`: by step.
void TemporaryFinder::addBrought(const std::vector<size_t> &before,
                                 std::vector<Temporary> &to) const {
  for (const Brought &each : brought) {
    Temporary at = to[before[maker[each.term]]];
    at.live = at.after + execution.buffers[each.term].bytes + each.bytes;
    at.below = at.above = 0;
    at.outside = at.afterOutside;
    to.push_back(at);
  }
}

/// What comes from the unit before in the call, or leaves for the one after it. `to`: the call's
/// steps during the buffer's life.
void TemporaryFinder::spread(const Liveness::Life &life, std::span<Temporary> to) const {
  int first = units[maker[life.buffer]], last = reach[life.buffer];
  int64_t bytes = execution.buffers[life.buffer].bytes;
  if (execution.buffers[life.buffer].isCopy)
    for (Temporary &at : to)
      if (at.unit > first) {
        at.below += bytes;
        at.outside += bytes;
      }
  if (first == last)
    return;
  for (Temporary &at : to) {
    bool comes = at.unit != first, leaves = at.unit != last;
    at.below += (isForward() ? comes : leaves) ? bytes : 0;
    at.above += (isForward() ? leaves : comes) ? bytes : 0;
    at.outside += bytes;
    at.afterOutside += at.step + 1 < life.end ? bytes : 0;
  }
}

/// Buffers that slots have, between calls.
std::vector<bool> TemporaryFinder::elsewhere() const {
  std::vector<bool> result(execution.buffers.size());
  for (size_t buffer = 0; buffer < result.size(); ++buffer)
    result[buffer] = !execution.buffers[buffer].persistent && calls.isKeptBy(buffer, call);
  return result;
}

Temporaries TemporaryFinder::run() {
  Liveness liveness(execution, elsewhere());
  std::vector<bool> atHome(execution.buffers.size(), false);
  placeTerms(liveness, atHome);
  const size_t steps = execution.steps.size();
  std::vector<Temporary> result;
  std::vector<size_t> before(steps + 1, 0); // by step: the call's steps that come earlier
  for (size_t i = 0; i < steps; ++i) {
    if (calls.has(call, i)) {
      result.push_back({i, units[i], liveness.advance()});
      result.back().after = liveness.left();
    } else {
      liveness.skip();
    }
    before[i + 1] = result.size();
  }
  // What is written over until it leaves lies in the message from the start.
  const auto &over = liveness.getOverwritten();
  for (auto it = over.rbegin(); it != over.rend(); ++it)
    if (auto [from, to] = *it;
        maker[from] != kNone && maker[to] != kNone && units[maker[from]] == units[maker[to]])
      reach[from] = later(reach[from], reach[to]);
  placeInSlots(liveness, atHome);
  for (const Liveness::Life &life : liveness.getLives()) {
    std::span<Temporary> during(result.data() + before[life.begin],
                                before[life.end] - before[life.begin]);
    if (!atHome[life.buffer])
      spread(life, during);
    else
      for (Temporary &at : during)
        (scattered[life.buffer] ? at.ofScattered : at.atHome) +=
            execution.buffers[life.buffer].bytes;
  }
  addBrought(before, result);
  return {std::move(result), std::move(terms)};
}

Temporaries temporariesOf(const RankExecution &execution, const StageCalls &calls, StageCall call,
                          const std::vector<int> &units, const std::vector<bool> &scattered) {
  return TemporaryFinder(execution, calls, call, units, scattered).run();
}

} // namespace dtc::plan
