#include "RemadeValues.h"

#include "dtc/Sharding/RemadeValues.h"

#include <algorithm>
#include <optional>

namespace dtc::plan {

namespace {

class RemadeFinder {
public:
  RemadeFinder(const Problem &problem, const ProblemFacts &facts, const RankExecution &execution,
               const std::vector<int> &units)
      : problem(problem), facts(facts), execution(execution), units(units),
        maker(execution.buffers.size(), kNone) {}

  void run(std::vector<UnitUse> &uses) {
    findCandidates();
    dropUnfused();
    if (candidates.empty())
      return;
    findReaders();
    for (size_t step : candidates)
      if (std::optional<Range> range = remadeBy(step)) {
        uses[made(step)].remadeFrom = range->from;
        uses[made(step)].remadeTo = range->to;
      }
  }

private:
  static constexpr size_t kNone = ~size_t{0};

  int made(size_t step) const { return execution.steps[step].writes.front(); }
  bool isArithmetic(OpId op) const { return problem.ops[op].kind == OpKind::Elementwise; }

  /// Tensors that arithmetic of the forward pass makes.
  void findCandidates() {
    for (size_t i = 0; i < execution.steps.size(); ++i) {
      const ExecutionStep &step = execution.steps[i];
      if (step.backward() || step.collective || step.op < 0 || step.writes.size() != 1 ||
          !isArithmetic(step.op) || facts.isStatic[step.op])
        continue;
      if (const int buffer = step.writes.front(); !execution.buffers[buffer].persistent) {
        maker[buffer] = i;
        candidates.push_back(i);
      }
    }
  }

  /// Whether a kernel computes what the step reads.
  bool fuses(const ExecutionStep &step) const {
    if (step.collective || step.op < 0)
      return false;
    const OpKind kind = problem.ops[step.op].kind;
    // What only passes a tensor on is no reader of its own.
    return kind == OpKind::Elementwise || kind == OpKind::Reduction ||
           kind == OpKind::GradientSum || step.writes.empty();
  }

  /// Keeps those that are read in the backward pass, and by kernels alone.
  void dropUnfused() {
    std::vector<bool> isRead(execution.buffers.size(), false);
    for (const ExecutionStep &step : execution.steps)
      if (step.backward())
        for (int buffer : step.reads) {
          isRead[buffer] = true;
          if (maker[buffer] != kNone && !fuses(step))
            maker[buffer] = kNone;
        }
    std::erase_if(candidates,
                  [&](size_t step) { return maker[made(step)] == kNone || !isRead[made(step)]; });
  }

  void findReaders() {
    stepOf.assign(problem.ops.size(), kNone);
    readers.resize(execution.buffers.size());
    isStatic.assign(execution.buffers.size(), false);
    for (size_t i = 0; i < execution.steps.size(); ++i) {
      const ExecutionStep &step = execution.steps[i];
      if (step.backward())
        for (int buffer : step.reads)
          readers[buffer].push_back(units[i]);
      else if (!step.collective && step.op >= 0)
        stepOf[step.op] = i;
      for (int buffer : step.writes)
        isStatic[buffer] = !step.backward() && step.op >= 0 && facts.isStatic[step.op];
    }
  }

  /// Whether so many ops within one kernel make an op's result of what is stored.
  bool isShort(OpId id, int most) const {
    if (most == 0)
      return false;
    const std::vector<ValueId> &operands = problem.ops[id].operands;
    return std::ranges::all_of(operands, [&](ValueId operand) {
      const OpId producer = facts.producer[operand];
      if (producer < 0 || facts.isStatic[producer])
        return true;
      const size_t step = stepOf[producer];
      return step == kNone || !execution.steps[step].writes.empty() || isShort(producer, most - 1);
    });
  }

  /// The reader that is nearest to a unit, of those before it if there are any.
  static int nearest(const std::vector<int> &readers, int unit) {
    int below = -1, above = -1;
    for (int reader : readers) {
      if (reader <= unit)
        below = std::max(below, reader);
      else
        above = above < 0 ? reader : std::min(above, reader);
    }
    return below >= 0 ? below : above;
  }

  struct Range {
    int from, to; ///< units
  };
  /// The stages with both of these units have what a candidate is made of.
  std::optional<Range> remadeBy(size_t at) const {
    const ExecutionStep &step = execution.steps[at];
    const int buffer = made(at), unit = units[at];
    if (!isShort(step.op, sharding::kMostRemadeLinks))
      return std::nullopt;
    Range result{unit, unit};
    auto needs = [&](int reader) {
      result.from = std::min(result.from, reader);
      result.to = std::max(result.to, reader);
    };
    for (int read : step.reads) {
      const Buffer &of = execution.buffers[read];
      if (of.persistent || isStatic[read] ||
          of.bytes * sharding::kNegligibleBeside <= execution.buffers[buffer].bytes)
        continue;
      if (readers[read].empty())
        return std::nullopt;
      needs(nearest(readers[read], unit));
    }
    int first = -1; // of its own readers, which come behind it
    for (int reader : readers[buffer])
      first = first < 0 ? reader : std::min(first, reader);
    needs(first);
    return result;
  }

  const Problem &problem;
  const ProblemFacts &facts;
  const RankExecution &execution;
  const std::vector<int> &units;
  std::vector<size_t> maker; ///< by buffer: of candidates, the step
  std::vector<size_t> candidates;
  std::vector<size_t> stepOf;            ///< by forward op
  std::vector<std::vector<int>> readers; ///< by buffer: units, in the backward pass
  std::vector<bool> isStatic;            ///< by buffer
};

} // namespace

void findRemade(const Problem &problem, const ProblemFacts &facts, const RankExecution &execution,
                const std::vector<int> &units, std::vector<UnitUse> &uses) {
  RemadeFinder(problem, facts, execution, units).run(uses);
}

void addRemade(const UnitUse &use, StageTable &remade) {
  remade.addToStagesWith({use.remadeFrom}, use.bytes);
  if (use.remadeFrom == use.remadeTo)
    return;
  remade.addToStagesWith({use.remadeTo}, use.bytes);
  remade.addToStagesWith({use.remadeFrom, use.remadeTo}, -use.bytes); // those with either
}

} // namespace dtc::plan
