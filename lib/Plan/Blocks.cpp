#include "Blocks.h"

#include <algorithm>

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
  BlockFinder(const Problem &problem, const ProblemFacts &facts, const Groups &groups)
      : crossing(crossingBytes(problem, facts)) {
    for (OpId op = 0; op <= facts.lastForward && !problem.ops.empty(); ++op) {
      kinds.push_back(groups.groupOf[op] < 0 ? -1 : groups.groups[groups.groupOf[op]].kind);
      flops.push_back(problem.ops[op].flops);
    }
  }

  std::vector<Block> run() {
    search(0, static_cast<OpId>(kinds.size()));
    std::sort(blocks.begin(), blocks.end(),
              [](const Block &a, const Block &b) { return a.first < b.first; });
    return std::move(blocks);
  }

private:
  struct Run {
    OpId begin = 0, end = 0, period = 0; ///< kinds[i] == kinds[i + period] for i, i + period inside
    double flops = 0;
  };
  Run best(OpId begin, OpId end) const;
  void search(OpId begin, OpId end);

  std::vector<int64_t> crossing;
  std::vector<int> kinds;
  std::vector<double> flops;
  std::vector<Block> blocks;
};

} // namespace

/// The run that covers the most flops with whole periods; of those, the shortest
/// period. Periods without a contraction are no layers.
BlockFinder::Run BlockFinder::best(OpId begin, OpId end) const {
  Run result;
  for (OpId period = 1; period <= (end - begin) / 2; ++period)
    for (OpId i = begin; i + period < end;) {
      OpId start = i;
      while (i + period < end && kinds[i] == kinds[i + period])
        ++i;
      OpId repeats = (i - start + period) / period;
      if (repeats >= 2) {
        double covered = 0;
        for (OpId op = start; op < start + repeats * period; ++op)
          covered += flops[op];
        if (covered > result.flops * (1 + 1e-9))
          result = {start, i + period, period, covered};
      }
      ++i;
    }
  return result;
}

void BlockFinder::search(OpId begin, OpId end) {
  Run run = best(begin, end);
  if (run.flops <= 0)
    return;
  OpId repeats = (run.end - run.begin) / run.period;
  OpId slack = (run.end - run.begin) - repeats * run.period;
  OpId first = run.begin;
  auto carried = [&](OpId at) {
    int64_t bytes = 0;
    for (OpId i = 0; i <= repeats; ++i)
      bytes = std::max(bytes, crossing[at + i * run.period]);
    return bytes;
  };
  for (OpId at = run.begin + 1; at <= run.begin + slack; ++at)
    if (carried(at) < carried(first))
      first = at;
  for (OpId i = 0; i < repeats; ++i)
    blocks.push_back({first + i * run.period, first + (i + 1) * run.period - 1});
  search(begin, first);
  search(first + repeats * run.period, end);
}

std::vector<Block> findBlocks(const Problem &problem, const ProblemFacts &facts,
                              const Groups &groups) {
  return BlockFinder(problem, facts, groups).run();
}

} // namespace dtc::plan
