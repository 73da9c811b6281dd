#include "Materialization.h"

#include <algorithm>
#include <span>

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
  Materialization(const Problem &problem, const ProblemFacts &facts)
      : problem(problem), facts(facts), stored(problem.values.size(), true),
        leaves(problem.values.size()), read(problem.values.size(), false),
        uses(problem.values.size(), 0) {}
  std::vector<bool> run();

private:
  void findUses();
  std::vector<ValueId> leavesOf(ValueId value) const;
  bool mayFuse(ValueId value) const;
  bool isCheap(ValueId value) const;

  const Problem &problem;
  const ProblemFacts &facts;
  std::vector<bool> stored;
  /// By value that isn't stored: the largest two of the stored ones that it is computed from.
  std::vector<std::vector<ValueId>> leaves;
  // Through views:
  std::vector<bool> read; ///< by an op that fuses nothing
  std::vector<int> uses;  ///< by how many ops
};

} // namespace

static bool isView(OpKind kind) { return kind == OpKind::Reindex || kind == OpKind::View; }

void Materialization::findUses() {
  for (auto id = static_cast<OpId>(problem.ops.size()); id-- > 0;) {
    const Op &op = problem.ops[id];
    bool reads = !fusesWhatItReads(op.kind);
    int times = isView(op.kind) ? 0 : 1;
    for (ValueId result : op.results)
      if (isView(op.kind)) {
        reads = reads || read[result];
        times += uses[result];
      }
    for (ValueId operand : op.operands) {
      read[operand] = read[operand] || reads;
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

/// Whether all that reads a value could do so within its own kernel.
bool Materialization::mayFuse(ValueId value) const {
  OpKind made = problem.ops[facts.producer[value]].kind;
  if (isView(made)) // products read through strides
    return std::all_of(facts.consumers[value].begin(), facts.consumers[value].end(),
                       [&](OpId reader) {
                         OpKind kind = problem.ops[reader].kind;
                         return fusesWhatItReads(kind) || kind == OpKind::Contraction ||
                                kind == OpKind::Attention;
                       });
  return !read[value] && (isPointwise(made) || made == OpKind::GradientSum);
}

/// Whether it is then computed once, or as cheaply as it is read.
bool Materialization::isCheap(ValueId value) const {
  OpKind made = problem.ops[facts.producer[value]].kind;
  bool isRepeated = made == OpKind::Elementwise && leaves[value].size() <= 1;
  return isView(made) || isRepeated || uses[value] == 1;
}

std::vector<bool> Materialization::run() {
  findUses();
  for (auto value = static_cast<ValueId>(problem.arguments);
       value < static_cast<ValueId>(problem.values.size()); ++value) {
    if (facts.isResult[value] || !mayFuse(value))
      continue;
    leaves[value] = leavesOf(value);
    stored[value] = !isCheap(value);
  }
  return std::move(stored);
}

std::vector<bool> findStored(const Problem &problem, const ProblemFacts &facts) {
  return Materialization(problem, facts).run();
}

} // namespace dtc::plan
