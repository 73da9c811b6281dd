#include "dtc/Plan/Plan/Materialization.h"

#include <algorithm>

namespace dtc::plan {

static bool isPointwise(OpKind kind) {
  return kind == OpKind::Elementwise || kind == OpKind::Reindex || kind == OpKind::Join ||
         kind == OpKind::View;
}

/// Whether an op reads its operands element by element, so that what makes them
/// can be part of its kernel.
static bool fusesWhatItReads(OpKind kind) {
  return isPointwise(kind) || kind == OpKind::Reduction || kind == OpKind::Normalization ||
         kind == OpKind::GradientSum || kind == OpKind::Loss;
}

namespace {

/// Which values are stored. Kernels read through views and repeat short arithmetic on one large
/// tensor. Any other value that several ops read is stored, and so is what a library call reads.
class Materialization {
public:
  Materialization(const Problem &problem, const ProblemFacts &facts, ExpertRows rows)
      : problem(problem), facts(facts), rows(rows), stored(problem.values.size(), true),
        isDear(problem.values.size(), false), leaves(problem.values.size()),
        read(problem.values.size(), false), repeated(read), uses(problem.values.size(), 0) {}
  std::vector<bool> run(std::span<const ValueId> anyway);

private:
  bool isView(const Op &op) const;
  bool readsRows(const Op &op) const;
  void findUses();
  bool hasDear(ValueId value) const;
  std::vector<ValueId> leavesOf(ValueId value) const;
  bool mayFuse(ValueId value) const;
  bool isCheap(ValueId value) const;

  const Problem &problem;
  const ProblemFacts &facts;
  ExpertRows rows;
  std::vector<bool> stored;
  std::vector<bool> isDear; ///< by value that isn't stored: dear to compute for each reader
  /// By value that isn't stored: the largest two of the stored ones that it is computed from.
  std::vector<std::vector<ValueId>> leaves;
  // Through views:
  std::vector<bool> read;     ///< by an op that fuses nothing
  std::vector<bool> repeated; ///< by a grouped product, which reads a row many times
  std::vector<int> uses;      ///< by how many ops
};

} // namespace

/// Rows that are dispatched to experts, and brought back, may stay where they are.
bool Materialization::isView(const Op &op) const {
  bool isExchange = op.kind == OpKind::Lookup && op.groupedExperts >= 0;
  return op.kind == OpKind::Reindex || op.kind == OpKind::View ||
         (isExchange && rows == ExpertRows::InPlace);
}

bool Materialization::readsRows(const Op &op) const {
  return op.isGroupedProduct() && rows == ExpertRows::InPlace;
}

void Materialization::findUses() {
  for (auto id = static_cast<OpId>(problem.ops.size()); id-- > 0;) {
    const Op &op = problem.ops[id];
    bool reads = !fusesWhatItReads(op.kind) && !readsRows(op) && !isView(op);
    bool repeats = readsRows(op);
    int times = isView(op) ? 0 : 1;
    for (ValueId result : op.results)
      if (isView(op)) {
        reads = reads || read[result];
        repeats = repeats || repeated[result];
        times += uses[result];
      }
    for (ValueId operand : op.operands) {
      read[operand] = read[operand] || reads;
      repeated[operand] = repeated[operand] || repeats;
      uses[operand] += times;
    }
  }
}

/// Stored values of a size that counts beside the value's own. Whether there are two is all that is
/// asked, of what is computed from the value, too. So the smaller ones of a long sum are left out.
std::vector<ValueId> Materialization::leavesOf(ValueId value) const {
  constexpr int64_t negligible = 8;
  constexpr size_t most = 2;
  auto isLarger = [&](ValueId a, ValueId b) {
    return problem.values[a].elements() > problem.values[b].elements();
  };
  std::vector<ValueId> result;
  for (const ValueId operand : problem.ops[facts.producer[value]].operands) {
    std::span<const ValueId> from = leaves[operand];
    if (stored[operand])
      from = {&operand, 1};
    for (ValueId leaf : from)
      if (problem.values[leaf].elements() * negligible > problem.values[value].elements() &&
          std::find(result.begin(), result.end(), leaf) == result.end()) {
        result.insert(std::upper_bound(result.begin(), result.end(), leaf, isLarger), leaf);
        result.resize(std::min(result.size(), most));
      }
  }
  return result;
}

/// Whether it is computed by more than sums and products, as by exponentials.
bool Materialization::hasDear(ValueId value) const {
  const Op &op = problem.ops[facts.producer[value]];
  return op.dear || std::any_of(op.operands.begin(), op.operands.end(),
                                [&](ValueId operand) { return isDear[operand]; });
}

/// Whether all that reads a value could do so within its own kernel.
bool Materialization::mayFuse(ValueId value) const {
  const Op &op = problem.ops[facts.producer[value]];
  const OpKind made = op.kind;
  if (isView(op)) // products read through strides
    return std::all_of(facts.consumers[value].begin(), facts.consumers[value].end(),
                       [&](OpId reader) {
                         OpKind kind = problem.ops[reader].kind;
                         return fusesWhatItReads(kind) || kind == OpKind::Contraction ||
                                kind == OpKind::Attention || isView(problem.ops[reader]);
                       });
  return !read[value] && (isPointwise(made) || made == OpKind::GradientSum);
}

/// Whether it is then computed once, or as cheaply as it is read.
bool Materialization::isCheap(ValueId value) const {
  const Op &op = problem.ops[facts.producer[value]];
  bool isRepeated = op.kind == OpKind::Elementwise && leaves[value].size() <= 1;
  if (repeated[value])
    return isView(op) || (isRepeated && !isDear[value]);
  return isView(op) || isRepeated || uses[value] == 1;
}

std::vector<bool> Materialization::run(std::span<const ValueId> anyway) {
  findUses();
  std::vector<bool> isGiven = facts.isResult;
  for (ValueId value : anyway)
    isGiven[value] = true;
  for (auto value = static_cast<ValueId>(problem.arguments);
       value < static_cast<ValueId>(problem.values.size()); ++value) {
    if (isGiven[value] || !mayFuse(value))
      continue;
    leaves[value] = leavesOf(value);
    isDear[value] = hasDear(value);
    stored[value] = !isCheap(value);
  }
  return std::move(stored);
}

std::vector<bool> findStored(const Problem &problem, const ProblemFacts &facts, ExpertRows rows,
                             std::span<const ValueId> anyway) {
  return Materialization(problem, facts, rows).run(anyway);
}

} // namespace dtc::plan
