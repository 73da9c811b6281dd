#include "CutPositions.h"

#include "dtc/Plan/Plan/ChangedBuffers.h"
#include "dtc/Plan/Shard/Experts.h"
#include "dtc/Plan/Solve/Distinct.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace dtc::plan {

/// More units than this aren't told apart.
static constexpr int64_t kMaxUnits = 256;

static void finish(std::vector<OpId> &cuts, OpId end, const std::vector<JoinedOps> &joined) {
  std::erase_if(cuts, [&](OpId cut) { return cutApart(joined, cut) != nullptr; });
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

/// Cuts all blocks of as many ops alike, wherever one of them is cut. What folds without these cuts
/// folds with them.
static std::vector<OpId> inAllBlocks(std::vector<OpId> cuts, const std::vector<Block> &blocks) {
  auto lengthOf = [](const Block &block) { return block.last + 1 - block.first; };
  std::map<OpId, std::set<OpId>> offsets; // of cuts, by length
  for (const Block &block : blocks)
    for (auto cut = std::lower_bound(cuts.begin(), cuts.end(), block.first);
         cut != cuts.end() && *cut <= block.last; ++cut)
      offsets[lengthOf(block)].insert(*cut - block.first);
  for (const Block &block : blocks)
    for (OpId offset : offsets[lengthOf(block)])
      cuts.push_back(block.first + offset);
  return cuts;
}

std::vector<OpId> cutPositions(const Problem &problem, const ProblemFacts &facts,
                               const std::vector<Block> &blocks, int64_t stages) {
  OpId end = facts.lastForward + 1;
  const std::vector<JoinedOps> joined = joinedOps(problem, facts);
  std::vector<OpId> cuts;
  for (const Block &block : blocks) {
    cuts.push_back(block.first);
    cuts.push_back(block.last + 1);
  }
  finish(cuts, end, joined);
  auto units = [&] { return static_cast<int64_t>(cuts.size()) - 1; };
  constexpr int64_t many = 48; // then whole blocks are even enough
  if (stages == 1 || (!blocks.empty() && units() >= std::min(2 * stages, std::max(many, stages))))
    return cuts;
  std::vector<OpId> more = spread(problem, facts, std::min(kMaxUnits, 4 * stages));
  // Experts have many shardings, each of which would be looked at in full.
  if (Experts(problem, facts).mostRanks > 1) {
    std::vector<OpId> alike = inAllBlocks(more, blocks);
    alike.insert(alike.end(), cuts.begin(), cuts.end());
    finish(alike, end, joined);
    if (static_cast<int64_t>(alike.size()) - 1 <= kMaxUnits)
      more = std::move(alike);
  }
  cuts.insert(cuts.end(), more.begin(), more.end());
  finish(cuts, end, joined);
  if (units() >= stages)
    return cuts;
  cuts.resize(end);
  std::iota(cuts.begin(), cuts.end(), 0);
  finish(cuts, end, joined);
  return cuts;
}

} // namespace dtc::plan
