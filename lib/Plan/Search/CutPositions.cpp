#include "CutPositions.h"

#include "dtc/Plan/Solve/Distinct.h"

#include <algorithm>
#include <numeric>

namespace dtc::plan {

/// More units than this aren't told apart.
static constexpr int64_t kMaxUnits = 256;

static void finish(std::vector<OpId> &cuts, OpId end) {
  cuts.push_back(0);
  cuts.push_back(end);
  keepDistinct(cuts);
}

/// One position in each of about `count` parts of equal flops: that which the
/// least bytes cross.
static std::vector<OpId> spread(const Problem &problem, const ProblemFacts &facts,
                                int64_t count) {
  std::vector<int64_t> crossing = crossingBytes(problem, facts);
  OpId end = facts.lastForward + 1;
  double total = 0;
  for (OpId op = 0; op < end; ++op)
    total += problem.ops[op].flops + 1;
  std::vector<OpId> cuts;
  double passed = 0;
  int64_t part = -1;
  for (OpId op = 0; op < end; ++op) {
    auto now = static_cast<int64_t>(passed / total * double(count));
    if (now != part)
      cuts.push_back(op);
    else if (crossing[op] < crossing[cuts.back()])
      cuts.back() = op;
    part = now;
    passed += problem.ops[op].flops + 1;
  }
  return cuts;
}

std::vector<OpId> cutPositions(const Problem &problem, const ProblemFacts &facts,
                               const std::vector<Block> &blocks, int64_t stages) {
  OpId end = facts.lastForward + 1;
  std::vector<OpId> cuts;
  for (const Block &block : blocks) {
    cuts.push_back(block.first);
    cuts.push_back(block.last + 1);
  }
  finish(cuts, end);
  auto units = [&] { return static_cast<int64_t>(cuts.size()) - 1; };
  constexpr int64_t many = 48; // then whole blocks are even enough
  if (stages == 1 || (!blocks.empty() && units() >= std::min(2 * stages, std::max(many, stages))))
    return cuts;
  std::vector<OpId> more = spread(problem, facts, std::min(kMaxUnits, 4 * stages));
  cuts.insert(cuts.end(), more.begin(), more.end());
  finish(cuts, end);
  if (units() >= stages)
    return cuts;
  cuts.resize(end);
  std::iota(cuts.begin(), cuts.end(), 0);
  finish(cuts, end);
  return cuts;
}

} // namespace dtc::plan
