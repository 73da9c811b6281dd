// The same graph for another number of samples.
#include "Reads.h"

#include "dtc-io/CheckedSize.h"

#include <algorithm>
#include <map>

namespace dtc::plan {

using sharding::FactorId;

namespace {

class Rebatcher {
public:
  Rebatcher(const Problem &problem, const ProblemFacts &facts, int64_t samples)
      : facts(facts), from(problem.batch), to(samples), result(problem) {}

  Result<Problem> run() {
    for (size_t value = 0; value < result.values.size(); ++value)
      if (int dim = facts.batchDim[value]; dim >= 0)
        scale(result.values[value].shape[dim], "value " + std::to_string(value));
    for (OpId op = 0; op < static_cast<OpId>(result.ops.size()); ++op)
      scaleOp(op);
    dropReads();
    result.batch = to;
    if (!error.empty())
      return Error{error, ErrorCategory::NoFit};
    if (std::string wrong = check(result); !wrong.empty())
      return Error{"plan: cannot be planned for a batch of " + std::to_string(to) +
                       " in place of " + std::to_string(from) +
                       ", as where samples are compared with each other: " + wrong,
                   ErrorCategory::NoFit};
    return std::move(result);
  }

private:
  void scale(int64_t &size, const std::string &what);
  void scaleOp(OpId op);
  void dropReads();
  sharding::ShardingRule scaled(const Op &op, FactorId batch);

  const ProblemFacts &facts;
  int64_t from, to;
  Problem result;
  /// By rule and the factor that is the batch.
  std::map<std::pair<const sharding::ShardingRule *, FactorId>, sharding::SharedRule> rules;
  std::string error;
};

} // namespace

void Rebatcher::scale(int64_t &size, const std::string &what) {
  const io::CheckedSize all = io::CheckedSize(size) * to;
  if (error.empty() && !all)
    error = "plan: cannot be planned for a batch of " + std::to_string(to) + ": " + what +
            " would have too large a size";
  if (!error.empty())
    return;
  if (*all % from != 0)
    error = "plan: cannot be planned for a batch of " + std::to_string(to) + ": " + what +
            " has " + std::to_string(size) + " parts of the batch of " + std::to_string(from);
  size = *all / from;
}

sharding::ShardingRule Rebatcher::scaled(const Op &op, FactorId batch) {
  sharding::ShardingRule rule = op.rule;
  scale(rule.factors[batch].size, op.name + " (" + op.location + ")");
  return rule;
}

void Rebatcher::scaleOp(OpId id) {
  FactorId batch = facts.batchFactor[id];
  if (batch < 0)
    return;
  Op &op = result.ops[id];
  // Those of the problem that is rescaled are there as long as this is.
  auto [it, isNew] = rules.try_emplace({&*op.rule, batch});
  if (isNew)
    it->second = scaled(op, batch);
  op.rule = it->second;
  for (double *count : {&op.flops, &op.padding, &op.saved, &op.scratch})
    *count = *count * double(to) / double(from); // whole numbers stay whole
}

/// Of a slice amid the samples. What it reads among others isn't known, as of any other op: then
/// attention copies it.
void Rebatcher::dropReads() {
  for (Op &op : result.ops) {
    if (op.reads.empty())
      continue;
    const int batch = facts.batchDim[op.operands[0]];
    auto isAmid = [&](const sharding::DimRead &read) {
      return read.dim == batch && batch >= 0 && (read.start != 0 || read.step > 1);
    };
    if (std::any_of(op.reads.begin(), op.reads.end(), isAmid) || !readsInside(result, op))
      op.reads.clear();
  }
}

Result<Problem> rebatched(const Problem &problem, const ProblemFacts &facts, int64_t samples) {
  if (problem.batch < 1 || samples < 1)
    return Error{"plan: the batch isn't known", ErrorCategory::NoFit};
  if (samples == problem.batch)
    return problem;
  // Dimensions of size 1 have no factor that could grow.
  if (problem.batch == 1)
    return Error{"plan: a graph of one sample can't be planned for a batch of " +
                     std::to_string(samples),
                 ErrorCategory::NoFit};
  return Rebatcher(problem, facts, samples).run();
}

} // namespace dtc::plan
