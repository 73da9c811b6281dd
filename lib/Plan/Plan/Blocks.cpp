#include "dtc/Plan/Plan/Blocks.h"

#include <algorithm>
#include <map>

namespace dtc::plan {

std::vector<int64_t> crossingBytes(const Problem &problem, const ProblemFacts &facts) {
  std::vector<int64_t> result(facts.lastForward + 3, 0);
  for (auto value = static_cast<ValueId>(problem.arguments);
       value < static_cast<ValueId>(problem.values.size()); ++value) {
    OpId producer = facts.producer[value];
    if (problem.ops[producer].backward || facts.isStatic[producer])
      continue;
    OpId last = producer;
    for (OpId reader : facts.consumers[value])
      if (!problem.ops[reader].backward)
        last = std::max(last, std::min(reader, facts.lastForward));
    if (last <= producer)
      continue;
    result[producer + 1] += problem.values[value].bytes();
    result[last + 1] -= problem.values[value].bytes();
  }
  for (size_t i = 1; i < result.size(); ++i)
    result[i] += result[i - 1];
  result.resize(facts.lastForward + 2);
  return result;
}

namespace {

class BlockFinder {
public:
  BlockFinder(const Problem &problem, const ProblemFacts &facts)
      : problem(problem), facts(facts), crossing(crossingBytes(problem, facts)),
        index(problem.ops.size(), -1) {
    std::map<std::vector<int64_t>, int> known;
    for (OpId op = 0; op <= facts.lastForward && !problem.ops.empty(); ++op) {
      // Tables are computed once and for all, in the first block that reads them.
      if (facts.isStatic[op])
        continue;
      index[op] = static_cast<int>(order.size());
      order.push_back(op);
      auto next = static_cast<int>(known.size());
      kinds.push_back(known.try_emplace(kindKey(op), next).first->second);
    }
  }

  std::vector<Block> run() {
    search(0, static_cast<int>(order.size()));
    std::sort(blocks.begin(), blocks.end(),
              [](const Block &a, const Block &b) { return a.first < b.first; });
    return std::move(blocks);
  }

private:
  struct Run {
    int begin = 0, end = 0, period = 0; ///< kinds[i] == kinds[i + period] for both inside
    double flops = 0;
  };
  std::vector<int64_t> kindKey(OpId op) const;
  std::vector<int> periods(int begin, int end) const;
  Run best(int begin, int end) const;
  void search(int begin, int end);

  const Problem &problem;
  const ProblemFacts &facts;
  std::vector<int64_t> crossing;
  std::vector<OpId> order; ///< the ops that count
  std::vector<int> index;  ///< by op: where it is among those, or -1
  std::vector<int> kinds;
  std::vector<Block> blocks;
};

} // namespace

/// What an op is and how far back its operands are made.
std::vector<int64_t> BlockFinder::kindKey(OpId id) const {
  const Op &op = problem.ops[id];
  std::vector<int64_t> key = {static_cast<int64_t>(op.kind),
                              static_cast<int64_t>(op.flops),
                              op.dear,
                              op.causal,
                              op.window,
                              op.decomposed,
                              op.partAlignment,
                              op.inProduct,
                              op.widened};
  for (char letter : op.name)
    key.push_back(letter);
  for (const std::vector<ValueId> *list : {&op.operands, &op.results})
    for (ValueId value : *list) {
      const Value &tensor = problem.values[value];
      OpId producer = facts.producer[value];
      key.insert(key.end(), {-1, static_cast<int64_t>(tensor.type),
                             static_cast<int64_t>(tensor.kind)});
      key.insert(key.end(), tensor.shape.begin(), tensor.shape.end());
      // The first block reads what isn't made by a block.
      int distance = producer >= 0 && producer < id && index[producer] >= 0
                         ? static_cast<int>(order.size()) - 1 - index[producer]
                         : 0;
      key.push_back(distance < 4 ? distance : 0);
    }
  return key;
}

/// How far apart contractions of one kind are, ascending: no other period is that of a run with
/// a contraction.
std::vector<int> BlockFinder::periods(int begin, int end) const {
  std::map<int, std::vector<int>> places; // by kind
  for (int i = begin; i < end; ++i)
    if (problem.ops[order[i]].flops > 0)
      places[kinds[i]].push_back(i);
  std::vector<bool> isPeriod((end - begin) / 2 + 1, false);
  for (const auto &[kind, list] : places)
    for (size_t i = 0; i < list.size(); ++i)
      for (size_t j = i; j-- > 0 && list[i] - list[j] < int(isPeriod.size());)
        isPeriod[list[i] - list[j]] = true;
  std::vector<int> result;
  for (int period = 1; period < int(isPeriod.size()); ++period)
    if (isPeriod[period])
      result.push_back(period);
  return result;
}

/// The run that covers the most flops with whole periods; of those, the shortest
/// period. Periods without a contraction are no layers.
BlockFinder::Run BlockFinder::best(int begin, int end) const {
  Run result;
  for (int period : periods(begin, end))
    for (int i = begin; i + period < end;) {
      if (kinds[i] != kinds[i + period]) { // most often
        ++i;
        continue;
      }
      int start = i;
      while (i + period < end && kinds[i] == kinds[i + period])
        ++i;
      int repeats = (i - start + period) / period;
      if (repeats >= 2) {
        double covered = 0;
        for (int at = start; at < start + repeats * period; ++at)
          covered += problem.ops[order[at]].flops;
        if (covered > result.flops * (1 + 1e-9))
          result = {start, i + period, period, covered};
      }
      ++i;
    }
  return result;
}

void BlockFinder::search(int begin, int end) {
  Run run = best(begin, end);
  if (run.flops <= 0)
    return;
  int repeats = (run.end - run.begin) / run.period;
  int slack = (run.end - run.begin) - repeats * run.period;
  int first = run.begin;
  auto carried = [&](int at) {
    int64_t bytes = 0;
    for (int i = 0; i < repeats; ++i)
      bytes = std::max(bytes, crossing[order[at + i * run.period]]);
    return bytes;
  };
  for (int at = run.begin + 1; at <= run.begin + slack; ++at)
    if (carried(at) < carried(first))
      first = at;
  for (int i = 0; i < repeats; ++i)
    blocks.push_back({order[first + i * run.period], order[first + (i + 1) * run.period - 1]});
  search(begin, first);
  search(first + repeats * run.period, end);
}

std::vector<Block> findBlocks(const Problem &problem, const ProblemFacts &facts) {
  return BlockFinder(problem, facts).run();
}

} // namespace dtc::plan
