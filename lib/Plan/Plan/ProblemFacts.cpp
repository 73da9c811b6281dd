// What follows from a problem alone.
#include "dtc/Plan/Plan/KernelParts.h"
#include "dtc/Plan/Plan/Materialization.h"
#include "dtc/Plan/Plan/Problem.h"
#include "dtc/Plan/Plan/SequenceOrder.h"

#include <algorithm>
#include <map>

namespace dtc::plan {

using sharding::FactorId;
using sharding::occurs;
using sharding::TensorFactors;

namespace {

/// Spreads the mark "this dimension's leading part is X" over values and
/// factors until nothing changes.
class Propagation {
public:
  /// `facts`: producers and consumers.
  Propagation(const Problem &problem, const ProblemFacts &facts)
      : problem(problem), facts(facts), dims(problem.values.size(), -1),
        factors(problem.ops.size()), waiting(problem.ops.size(), false) {}

  void seed(ValueId value, int dim) { mark(value, dim); }

  void run() {
    auto count = static_cast<OpId>(problem.ops.size());
    while (anyWaiting) {
      anyWaiting = false;
      for (OpId op = 0; op < count; ++op)
        visit(op);
      for (OpId op = count; op-- > 0;)
        visit(op);
    }
  }

  const Problem &problem;
  const ProblemFacts &facts;
  std::vector<int> dims;
  std::vector<std::vector<FactorId>> factors;

private:
  void mark(ValueId value, int dim);
  void visit(OpId id);
  void fromTensor(OpId id, ValueId value, const TensorFactors &tensor);
  void toTensor(OpId id, ValueId value, const TensorFactors &tensor);

  std::vector<bool> waiting; ///< by op: more is known of what it reads or makes
  bool anyWaiting = false;
};

} // namespace

void Propagation::mark(ValueId value, int dim) {
  dims[value] = dim;
  if (facts.producer[value] >= 0)
    waiting[facts.producer[value]] = true;
  for (OpId consumer : facts.consumers[value])
    waiting[consumer] = true;
  anyWaiting = true;
}

void Propagation::fromTensor(OpId id, ValueId value, const TensorFactors &tensor) {
  int dim = dims[value];
  if (dim < 0 || tensor[dim].empty())
    return;
  std::vector<FactorId> &marked = factors[id];
  FactorId leading = tensor[dim].front();
  if (std::find(marked.begin(), marked.end(), leading) == marked.end())
    marked.push_back(leading);
}

void Propagation::toTensor(OpId id, ValueId value, const TensorFactors &tensor) {
  ValueKind kind = problem.values[value].kind;
  if (dims[value] >= 0 || kind == ValueKind::Parameter || kind == ValueKind::Buffer)
    return;
  for (FactorId marked : factors[id])
    for (size_t dim = 0; dim < tensor.size(); ++dim)
      if (!tensor[dim].empty() && tensor[dim].front() == marked)
        return mark(value, static_cast<int>(dim));
}

void Propagation::visit(OpId id) {
  if (!waiting[id])
    return;
  const Op &op = problem.ops[id];
  for (size_t i = 0; i < op.operands.size(); ++i)
    fromTensor(id, op.operands[i], op.rule->operands[i]);
  for (size_t i = 0; i < op.results.size(); ++i)
    fromTensor(id, op.results[i], op.rule->results[i]);
  for (size_t i = 0; i < op.operands.size(); ++i)
    toTensor(id, op.operands[i], op.rule->operands[i]);
  for (size_t i = 0; i < op.results.size(); ++i)
    toTensor(id, op.results[i], op.rule->results[i]);
  waiting[id] = false; // to its own tensors it adds only what it knows
}

/// Data with samples; inputs without any have a first dimension of 1.
static bool hasSamples(const Problem &problem, const Value &value) {
  const bool isData = value.kind == ValueKind::Input || value.kind == ValueKind::Target;
  return isData && !value.shape.empty() && (problem.batch < 1 || value.shape[0] == problem.batch);
}

static bool isInteger(DType type) {
  return type == DType::I64 || type == DType::I32 || type == DType::I8 || type == DType::U8;
}

/// What ranks of cp share of an argument: it, or the same with padding behind it.
static std::vector<ValueId> tokensToShare(const Problem &problem, const ProblemFacts &facts,
                                          ValueId tokens) {
  std::vector<ValueId> longer;
  for (OpId consumer : facts.consumers[tokens]) {
    const Op &op = problem.ops[consumer];
    if (op.kind == OpKind::Join && op.operands[0] == tokens &&
        problem.values[op.results[0]].padding > 0)
      longer.push_back(op.results[0]);
  }
  return longer.empty() ? std::vector{tokens} : longer;
}

namespace {

/// Finds which forward value each gradient value belongs to.
class GradientMatcher {
public:
  GradientMatcher(const Problem &problem, const ProblemFacts &facts, std::vector<ValueId> &out)
      : problem(problem), facts(facts), gradientOf(out) {}
  void run();

private:
  void matchResults();
  void matchSum(OpId id);
  void matchTerm(ValueId gradient);

  const Problem &problem;
  const ProblemFacts &facts;
  std::vector<ValueId> &gradientOf;
};

} // namespace

void GradientMatcher::matchResults() {
  std::map<std::string, ValueId> parameters = parametersByName(problem);
  for (const FunctionResult &result : problem.results)
    if (auto it = parameters.find(result.name);
        result.kind == ResultKind::Gradient && it != parameters.end())
      gradientOf[result.value] = it->second;
}

/// The sum of the gradients of one value belongs to the op that made the value. (An addition may
/// pass the gradient of a layer's output on. That is a term of the gradient of the layer's input,
/// and still the gradient of its output.)
void GradientMatcher::matchSum(OpId id) {
  const Op &sum = problem.ops[id];
  ValueId total = sum.results[0];
  bool isOfParameter = gradientOf[total] >= 0 && gradientOf[total] < problem.arguments;
  if (sum.forward >= 0 && !isOfParameter)
    for (ValueId result : problem.ops[sum.forward].results)
      if (problem.values[result].shape == problem.values[total].shape) {
        gradientOf[total] = result;
        break;
      }
  if (gradientOf[total] < 0)
    for (OpId consumer : facts.consumers[total]) {
      OpId forward = problem.ops[consumer].forward;
      if (forward < 0)
        continue;
      for (ValueId result : problem.ops[forward].results)
        if (gradientOf[total] < 0 && problem.values[result].shape == problem.values[total].shape)
          gradientOf[total] = result;
    }
  for (ValueId term : sum.operands)
    if (term >= problem.arguments)
      gradientOf[term] = gradientOf[total];
}

void GradientMatcher::matchTerm(ValueId gradient) {
  OpId producer = facts.producer[gradient];
  if (producer < 0 || gradientOf[gradient] >= 0)
    return;
  OpId from = problem.ops[producer].forward;
  if (from < 0 || from == producer)
    return;
  for (OpId consumer : facts.consumers[gradient]) {
    OpId to = problem.ops[consumer].forward;
    if (to < 0 || to == from)
      continue;
    for (ValueId operand : problem.ops[from].operands)
      if (facts.producer[operand] == to &&
          problem.values[operand].shape == problem.values[gradient].shape) {
        gradientOf[gradient] = operand;
        return;
      }
  }
}

void GradientMatcher::run() {
  matchResults();
  // From the end: what reads a sum is known before its terms.
  for (OpId op = static_cast<OpId>(problem.ops.size()); op-- > 0;)
    if (problem.ops[op].kind == OpKind::GradientSum)
      matchSum(op);
  for (ValueId value = 0; value < static_cast<ValueId>(problem.values.size()); ++value)
    matchTerm(value);
}

/// The linear set whose members are just the pending operands, or -1.
static int pendingSet(const Op &op, const std::vector<bool> &pending) {
  for (size_t set = 0; set < op.rule->linear.size(); ++set) {
    const std::vector<int> &members = op.rule->linear[set];
    bool matches = !members.empty();
    for (size_t i = 0; i < op.operands.size(); ++i) {
      bool isMember = std::find(members.begin(), members.end(), int(i)) != members.end();
      matches &= isMember == pending[op.operands[i]];
    }
    if (matches)
      return static_cast<int>(set);
  }
  return -1;
}

/// Whether a factor can be split without communication inside the op.
static bool splits(const Op &op, FactorId factor) {
  return factor >= 0 && (op.rule->factors[factor].kind == sharding::FactorKind::Parallel ||
                         op.rule->factors[factor].kind == sharding::FactorKind::Reduction);
}

/// Follows sums over a split factor through the ops that are linear in them.
static void findPending(const Problem &problem, const std::vector<FactorId> &splitFactor,
                        std::vector<bool> &pending, std::vector<int> &linear) {
  pending.assign(problem.values.size(), false);
  linear.assign(problem.ops.size(), -1);
  for (size_t id = 0; id < problem.ops.size(); ++id) {
    const Op &op = problem.ops[id];
    FactorId factor = splitFactor[id];
    bool inOperand = splits(op, factor) &&
                     std::any_of(op.rule->operands.begin(), op.rule->operands.end(),
                                 [&](auto &t) { return occurs(t, factor); });
    if (!splits(op, factor))
      linear[id] = pendingSet(op, pending);
    for (size_t i = 0; i < op.results.size(); ++i)
      pending[op.results[i]] =
          linear[id] >= 0 || (inOperand && !occurs(op.rule->results[i], factor));
  }
}

/// Whether a rank's part of the sequence is no part of a dimension. It is none where choices are
/// counted, first ones before second ones: [sample, choice, token] -> [sample, (choice token)].
/// Such an op takes the whole sequence. Samples before it may be divided among all ranks.
static bool isScattered(const Op &op, FactorId factor, FactorId batch) {
  auto hides = [&](const std::vector<FactorId> &dim) {
    auto at = std::find(dim.begin(), dim.end(), factor);
    return at != dim.end() && std::any_of(dim.begin(), at, [&](FactorId before) {
             return before != batch && op.rule->factors[before].size > 1;
           });
  };
  auto any = [&](const std::vector<sharding::TensorFactors> &tensors) {
    return std::any_of(tensors.begin(), tensors.end(), [&](const sharding::TensorFactors &tensor) {
      return std::any_of(tensor.begin(), tensor.end(), hides);
    });
  };
  return any(op.rule->operands) || any(op.rule->results);
}

static std::vector<FactorId>
findSequenceSplit(const Problem &problem, const std::vector<std::vector<FactorId>> &sequenceFactors,
                  const std::vector<FactorId> &batchFactor) {
  std::vector<FactorId> result;
  for (size_t id = 0; id < problem.ops.size(); ++id) {
    const Op &op = problem.ops[id];
    result.push_back(-1);
    for (FactorId factor : sequenceFactors[id]) {
      bool first = op.operands.empty() || op.kind != OpKind::Attention ||
                   occurs(op.rule->operands[0], factor);
      if (splits(op, factor) && first && result.back() < 0 &&
          !isScattered(op, factor, batchFactor[id]))
        result.back() = factor;
    }
  }
  return result;
}

static std::vector<bool> findStatic(const Problem &problem) {
  std::vector<bool> isStatic(problem.values.size(), false), result;
  for (ValueId value = 0; value < problem.arguments; ++value)
    isStatic[value] = problem.values[value].kind == ValueKind::Buffer;
  for (const Op &op : problem.ops) {
    result.push_back(!op.backward &&
                     std::all_of(op.operands.begin(), op.operands.end(),
                                 [&](ValueId value) { return isStatic[value]; }));
    for (ValueId value : op.results)
      isStatic[value] = result.back();
  }
  return result;
}

ProblemFacts::ProblemFacts(const Problem &problem)
    : producer(problem.values.size(), -1), consumers(problem.values.size()),
      gradientOf(problem.values.size(), -1), gradientResult(problem.arguments, -1) {
  for (OpId id = 0; id < static_cast<OpId>(problem.ops.size()); ++id) {
    if (!problem.ops[id].backward && problem.ops[id].kind != OpKind::GradientSum)
      lastForward = id;
    for (ValueId value : problem.ops[id].results)
      producer[value] = id;
    for (ValueId value : problem.ops[id].operands)
      if (consumers[value].empty() || consumers[value].back() != id)
        consumers[value].push_back(id);
  }
  for (OpId id = 0; id < static_cast<OpId>(problem.ops.size()); ++id) {
    OpId forward = problem.ops[id].forward;
    position.push_back(forward >= 0 ? forward : std::min(id, lastForward));
  }
  Propagation batch(problem, *this), sequence(problem, *this);
  for (ValueId value = 0; value < problem.arguments; ++value) {
    const Value &argument = problem.values[value];
    if (!hasSamples(problem, argument))
      continue;
    batch.seed(value, 0);
    if (!isInteger(argument.type) || argument.shape.size() < 2)
      continue;
    for (ValueId tokens : tokensToShare(problem, *this, value))
      sequence.seed(tokens, 1);
  }
  batch.run();
  sequence.run();
  batchDim = std::move(batch.dims);
  for (const std::vector<FactorId> &marked : batch.factors)
    batchFactor.push_back(marked.empty() ? -1 : marked.front());
  sequenceDim = std::move(sequence.dims);
  sequenceFactors = std::move(sequence.factors);
  sequenceSplit = findSequenceSplit(problem, sequenceFactors, batchFactor);
  findPending(problem, batchFactor, batchPending, batchLinear);
  findPending(problem, sequenceSplit, sequencePending, sequenceLinear);
  isStatic = findStatic(problem);
  isResult.assign(problem.values.size(), false);
  for (const FunctionResult &result : problem.results)
    isResult[result.value] = true;
  materialized = findStored(problem, *this);
  kernelParts = findKernelParts(problem, *this);
  GradientMatcher(problem, *this, gradientOf).run();
  for (size_t i = 0; i < problem.results.size(); ++i) {
    ValueId of = problem.results[i].kind == ResultKind::Gradient
                     ? gradientOf[problem.results[i].value] : -1;
    if (of >= 0 && of < problem.arguments)
      gradientResult[of] = static_cast<int>(i);
  }
  findSequenceOrder(problem, *this);
}

} // namespace dtc::plan
