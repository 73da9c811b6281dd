#include "dtc/Plan/Plan/Fold.h"

#include <algorithm>

namespace dtc::plan {

namespace {

class Folder {
public:
  Folder(const Problem &problem, const ProblemFacts &facts, const std::vector<Block> &blocks)
      : problem(problem), facts(facts), blocks(blocks), opHome(problem.ops.size(), -1),
        valueHome(problem.values.size(), -1), opPlace(problem.ops.size(), 0),
        valuePlace(problem.values.size(), 0), opsOf(blocks.size()), valuesOf(blocks.size()),
        leaving(problem.values.size(), 0) {}

  std::optional<Folding> run() {
    findHomes();
    if (!findRange())
      return std::nullopt;
    keepBlocks();
    if (!rewrite() || !check(result.problem).empty() || !factsAgree())
      return std::nullopt;
    return std::move(result);
  }

private:
  void findHomes();
  int homeByOperands(const Op &op) const;
  void findArgumentHomes();
  bool sameValue(ValueId a, ValueId b) const;
  bool sameReference(ValueId a, ValueId b, int block) const;
  bool sameOp(OpId a, OpId b, int block) const;
  bool alike(int block) const;
  bool findRange();
  bool isKept(int home) const { return home <= repeated || home >= following; }
  int foldedHome(int home) const {
    return home >= following ? home - (following - repeated - 1) : home;
  }
  void keepBlocks();
  bool rewrite();
  std::optional<ValueId> operandOf(int home, ValueId value) const;
  bool factsAgree() const;

  const Problem &problem;
  const ProblemFacts &facts;
  const std::vector<Block> &blocks;
  std::vector<int> opHome, valueHome;   ///< the block that has it, or -1
  std::vector<int> opPlace, valuePlace; ///< which of its block's it is
  std::vector<std::vector<OpId>> opsOf; ///< by block
  std::vector<std::vector<ValueId>> valuesOf;
  std::vector<int> leaving; ///< by value: the kinds of results that it is, as bits
  int repeated = 0, following = 0; ///< of the whole model; blocks between are left out
  Folding result;
};

} // namespace

//===-- what belongs to a block -------------------------------------------===//

/// Ops of neither pass belong where all that they read is made.
int Folder::homeByOperands(const Op &op) const {
  int home = -1;
  for (ValueId value : op.operands) {
    if (facts.producer[value] < 0)
      continue;
    if (home >= 0 && valueHome[value] != home)
      return -1;
    home = valueHome[value];
  }
  return home;
}

/// An argument belongs to the block whose forward ops alone read it.
void Folder::findArgumentHomes() {
  for (ValueId value = 0; value < problem.arguments; ++value) {
    const std::vector<OpId> &readers = facts.consumers[value];
    bool anyForward = std::any_of(readers.begin(), readers.end(),
                                  [&](OpId id) { return !problem.ops[id].backward; });
    bool isFirst = true;
    for (OpId reader : readers) {
      if (anyForward && problem.ops[reader].backward)
        continue;
      valueHome[value] = isFirst || valueHome[value] == opHome[reader] ? opHome[reader] : -1;
      if (valueHome[value] < 0)
        break;
      isFirst = false;
    }
  }
}

void Folder::findHomes() {
  size_t block = 0;
  for (OpId id = 0; id < static_cast<OpId>(problem.ops.size()); ++id) {
    const Op &op = problem.ops[id];
    // What stands between two blocks belongs to the first.
    while (block + 1 < blocks.size() && blocks[block + 1].first <= id)
      ++block;
    OpId last = block + 1 < blocks.size() ? blocks[block + 1].first - 1 : blocks[block].last;
    if (op.forward >= 0 && op.forward != id)
      opHome[id] = opHome[op.forward];
    else if (op.backward || id > facts.lastForward || op.kind == OpKind::GradientSum)
      opHome[id] = homeByOperands(op);
    else if (id >= blocks[block].first && id <= last)
      opHome[id] = static_cast<int>(block);
    for (ValueId value : op.results)
      valueHome[value] = opHome[id];
  }
  findArgumentHomes();
  for (OpId id = 0; id < static_cast<OpId>(problem.ops.size()); ++id)
    if (int home = opHome[id]; home >= 0) {
      opPlace[id] = static_cast<int>(opsOf[home].size());
      opsOf[home].push_back(id);
    }
  for (ValueId value = 0; value < static_cast<ValueId>(problem.values.size()); ++value)
    if (int home = valueHome[value]; home >= 0) {
      valuePlace[value] = static_cast<int>(valuesOf[home].size());
      valuesOf[home].push_back(value);
    }
  for (const FunctionResult &result : problem.results)
    leaving[result.value] |= 1 << static_cast<int>(result.kind);
}

//===-- which blocks are alike --------------------------------------------===//

/// Whether a value that `block` knows is to it what another is to the next one. Or it is the same
/// to all, as a table that the first block makes.
bool Folder::sameReference(ValueId a, ValueId b, int block) const {
  if (a == b || a < 0 || b < 0 || valueHome[a] < 0 || valueHome[b] < 0)
    return a == b;
  int distance = valueHome[a] - block;
  return distance == valueHome[b] - block - 1 && std::abs(distance) <= 1 &&
         valuePlace[a] == valuePlace[b];
}

bool Folder::sameValue(ValueId a, ValueId b) const {
  constexpr int output = 1 << static_cast<int>(ResultKind::Output); // each has a name
  const Value &x = problem.values[a], &y = problem.values[b];
  auto hasGradient = [&](ValueId v) {
    return v < problem.arguments && facts.gradientResult[v] >= 0;
  };
  return x.shape == y.shape && x.type == y.type && x.kind == y.kind && x.trainable == y.trainable &&
         x.storedBits == y.storedBits && x.padding == y.padding && leaving[a] == leaving[b] &&
         !(leaving[a] & output) && facts.batchDim[a] == facts.batchDim[b] &&
         facts.sequenceDim[a] == facts.sequenceDim[b] &&
         facts.batchPending[a] == facts.batchPending[b] &&
         facts.sequencePending[a] == facts.sequencePending[b] &&
         facts.materialized[a] == facts.materialized[b] && hasGradient(a) == hasGradient(b);
}

bool Folder::sameOp(OpId a, OpId b, int block) const {
  const Op &x = problem.ops[a], &y = problem.ops[b];
  auto sameList = [&](const std::vector<ValueId> &p, const std::vector<ValueId> &q) {
    return std::equal(p.begin(), p.end(), q.begin(), q.end(),
                      [&](ValueId v, ValueId w) { return sameReference(v, w, block); });
  };
  bool sameForward = x.forward >= 0 && y.forward >= 0
                         ? opHome[x.forward] == block && opHome[y.forward] == block + 1 &&
                               opPlace[x.forward] == opPlace[y.forward]
                         : x.forward == y.forward;
  // So that ops of several blocks take turns alike.
  auto count = static_cast<OpId>(problem.ops.size());
  bool sameNext = a + 1 < count && b + 1 < count && opHome[a + 1] >= 0 &&
                  opHome[b + 1] == opHome[a + 1] + 1 && opPlace[a + 1] == opPlace[b + 1];
  return sameForward && sameNext && x.kind == y.kind && x.flops == y.flops &&
         x.padding == y.padding && x.scratch == y.scratch && x.saved == y.saved &&
         x.dear == y.dear && x.keepRounds == y.keepRounds && x.causal == y.causal &&
         x.window == y.window && x.decomposed == y.decomposed && x.workspace == y.workspace &&
         x.partAlignment == y.partAlignment && x.inProduct == y.inProduct &&
         x.widened == y.widened && facts.kernelParts[a] == facts.kernelParts[b] &&
         x.groupedExperts == y.groupedExperts && x.backward == y.backward && x.rounds == y.rounds &&
         x.reads == y.reads && x.name == y.name && x.rule == y.rule &&
         sameList(x.operands, y.operands) && sameList(x.results, y.results) &&
         facts.batchFactor[a] == facts.batchFactor[b] &&
         facts.sequenceFactors[a] == facts.sequenceFactors[b] &&
         facts.sequenceSplit[a] == facts.sequenceSplit[b] &&
         facts.batchLinear[a] == facts.batchLinear[b] &&
         facts.sequenceLinear[a] == facts.sequenceLinear[b] &&
         facts.isStatic[a] == facts.isStatic[b];
}

/// Whether a block and the next one are.
bool Folder::alike(int block) const {
  const std::vector<OpId> &ops = opsOf[block], &nextOps = opsOf[block + 1];
  const std::vector<ValueId> &values = valuesOf[block], &nextValues = valuesOf[block + 1];
  return std::equal(ops.begin(), ops.end(), nextOps.begin(), nextOps.end(),
                    [&](OpId a, OpId b) { return sameOp(a, b, block); }) &&
         std::equal(values.begin(), values.end(), nextValues.begin(), nextValues.end(),
                    [&](ValueId a, ValueId b) {
                      return sameValue(a, b) &&
                             sameReference(facts.gradientOf[a], facts.gradientOf[b], block);
                    });
}

/// The longest run of blocks that are alike, with two before it and one after.
bool Folder::findRange() {
  constexpr int worthIt = 3;
  auto count = static_cast<int>(blocks.size());
  for (int first = 2; first + 2 < count;) {
    int last = first;
    while (last + 2 < count && alike(last))
      ++last;
    if (last - first > following - repeated + 1) {
      repeated = first + 1;
      following = last;
    }
    first = last + 1;
  }
  return following - repeated >= worthIt;
}

//===-- the folded model --------------------------------------------------===//

void Folder::keepBlocks() {
  result.repeated = repeated;
  result.copies = following - repeated;
  Problem &folded = result.problem;
  folded.model = problem.model;
  folded.optimizer = problem.optimizer;
  folded.batch = problem.batch;
  folded.numMicrobatches = problem.numMicrobatches;
  folded.tokensPerSample = problem.tokensPerSample;
  folded.fileNodes = problem.fileNodes;
  result.ops.assign(problem.ops.size(), -1);
  result.values.assign(problem.values.size(), -1);
  for (ValueId value = 0; value < static_cast<ValueId>(problem.values.size()); ++value) {
    if (!isKept(valueHome[value]))
      continue;
    result.values[value] = static_cast<ValueId>(folded.values.size());
    folded.values.push_back(problem.values[value]);
    result.valueHome.push_back(foldedHome(valueHome[value]));
    folded.arguments += value < problem.arguments;
  }
  for (OpId id = 0; id < static_cast<OpId>(problem.ops.size()); ++id) {
    if (!isKept(opHome[id]))
      continue;
    result.ops[id] = static_cast<OpId>(folded.ops.size());
    folded.ops.push_back(problem.ops[id]);
    result.wholeOps.push_back(id);
    result.opHome.push_back(foldedHome(opHome[id]));
  }
  for (int block = repeated + 1; block < following; ++block) {
    for (size_t i = 0; i < opsOf[block].size(); ++i)
      result.ops[opsOf[block][i]] = result.ops[opsOf[repeated][i]];
    for (size_t i = 0; i < valuesOf[block].size(); ++i)
      result.values[valuesOf[block][i]] = result.values[valuesOf[repeated][i]];
  }
  for (int block = 0; block < static_cast<int>(blocks.size()); ++block)
    if (isKept(block))
      result.blocks.push_back({result.ops[blocks[block].first], result.ops[blocks[block].last]});
}

/// What an op of block `home` reads in the folded model; nullopt where that is
/// left out.
std::optional<ValueId> Folder::operandOf(int home, ValueId value) const {
  int from = valueHome[value];
  if (isKept(from))
    return result.values[value];
  if (home == repeated && from == repeated + 1)
    return result.values[valuesOf[following][valuePlace[value]]];
  if (home == following && from == following - 1)
    return result.values[valuesOf[repeated][valuePlace[value]]];
  return std::nullopt;
}

bool Folder::rewrite() {
  for (size_t i = 0; i < result.problem.ops.size(); ++i) {
    Op &op = result.problem.ops[i];
    int home = opHome[result.wholeOps[i]];
    for (ValueId &operand : op.operands) {
      std::optional<ValueId> folded = operandOf(home, operand);
      if (!folded)
        return false;
      operand = *folded;
    }
    for (ValueId &value : op.results)
      value = result.values[value];
    if (op.forward >= 0)
      op.forward = result.ops[op.forward];
  }
  for (const FunctionResult &leaves : problem.results)
    if (isKept(valueHome[leaves.value]))
      result.problem.results.push_back({result.values[leaves.value], leaves.kind, leaves.name});
  return true;
}

/// Facts found of the folded model are those of the whole one.
bool Folder::factsAgree() const {
  ProblemFacts folded(result.problem);
  for (size_t id = 0; id < problem.ops.size(); ++id) {
    OpId at = result.ops[id];
    if (facts.batchFactor[id] != folded.batchFactor[at] ||
        facts.sequenceFactors[id] != folded.sequenceFactors[at] ||
        facts.sequenceSplit[id] != folded.sequenceSplit[at] ||
        facts.batchLinear[id] != folded.batchLinear[at] ||
        facts.sequenceLinear[id] != folded.sequenceLinear[at] ||
        facts.isStatic[id] != folded.isStatic[at] ||
        facts.kernelParts[id] != folded.kernelParts[at])
      return false;
  }
  for (size_t value = 0; value < problem.values.size(); ++value) {
    ValueId at = result.values[value], of = facts.gradientOf[value];
    bool inside = isKept(valueHome[value]) && (of < 0 || isKept(valueHome[of]));
    if (facts.batchDim[value] != folded.batchDim[at] ||
        facts.sequenceDim[value] != folded.sequenceDim[at] ||
        facts.batchPending[value] != folded.batchPending[at] ||
        facts.sequencePending[value] != folded.sequencePending[at] ||
        facts.isResult[value] != folded.isResult[at] ||
        facts.materialized[value] != folded.materialized[at] ||
        (inside && folded.gradientOf[at] != (of < 0 ? -1 : result.values[of])))
      return false;
  }
  return folded.lastForward == result.ops[facts.lastForward];
}

std::optional<Folding> fold(const Problem &problem, const ProblemFacts &facts,
                            const std::vector<Block> &blocks) {
  return blocks.empty() ? std::nullopt : Folder(problem, facts, blocks).run();
}

Plan unfold(const Folding &folding, const Problem &whole, Plan folded) {
  std::vector<const ParameterStorage *> storageOf(folding.problem.arguments, nullptr);
  auto next = folded.storage.begin();
  for (ValueId value = 0; value < folding.problem.arguments; ++value)
    if (next != folded.storage.end() && next->parameter == folding.problem.values[value].name)
      storageOf[value] = &*next++;
  Plan plan;
  plan.degrees = folded.degrees;
  plan.mesh = folded.mesh;
  plan.ops.reserve(whole.ops.size());
  for (OpId op : folding.ops)
    plan.ops.push_back(folded.ops[op]);
  for (ValueId value = 0; value < whole.arguments; ++value) {
    ValueId from = folding.values[value];
    plan.arguments.emplace_hint(plan.arguments.end(), value, folded.arguments.at(from));
    if (!storageOf[from])
      continue;
    plan.storage.push_back(*storageOf[from]);
    plan.storage.back().parameter = whole.values[value].name;
  }
  plan.stages = std::move(folded.stages);
  if (!plan.stages.empty()) {
    auto last = std::find(folding.ops.begin(), folding.ops.end(), plan.stages[0].lastOp);
    plan.stages[0].lastOp = last - folding.ops.begin();
  }
  return plan;
}

std::optional<std::vector<BlockRecompute>>
foldRecomputation(const Folding &folding, const std::vector<BlockRecompute> &kinds) {
  int last = folding.repeated + folding.copies; // the one after the copies
  std::vector<Recompute> whole(folding.blocks.size() + folding.copies - 1, Recompute::None);
  for (const BlockRecompute &entry : kinds)
    whole[entry.block] = entry.kind;
  for (int block = folding.repeated - 1; block < last; ++block)
    if (whole[block] != whole[block + 1])
      return std::nullopt;
  std::vector<BlockRecompute> result;
  for (int block = 0; block < static_cast<int>(folding.blocks.size()); ++block)
    if (Recompute kind = whole[block + (block > folding.repeated ? folding.copies - 1 : 0)];
        kind != Recompute::None)
      result.push_back({block, kind});
  return result;
}

std::optional<FoldedCuts> foldCuts(const Folding &folding, const std::vector<Block> &blocks,
                                   const std::vector<OpId> &cuts) {
  OpId begin = blocks[folding.repeated].first;
  OpId length = blocks[folding.repeated + 1].first - begin;
  OpId end = blocks[folding.repeated + folding.copies].first;
  if (end - begin != folding.copies * length || begin < length || end + length > cuts.back())
    return std::nullopt;
  auto isCut = [&](OpId op) { return std::binary_search(cuts.begin(), cuts.end(), op); };
  FoldedCuts result;
  for (OpId block = begin - length; block <= end + length; block += length)
    if (!isCut(block))
      return std::nullopt;
  for (OpId cut : cuts) {
    if (cut >= begin - length && cut < end && !isCut(cut + length))
      return std::nullopt;
    if (cut >= begin && cut < end + length && !isCut(cut - length))
      return std::nullopt;
    if (cut >= begin + length && cut < end)
      continue;
    if (cut == begin)
      result.units.first = static_cast<int>(result.cuts.size());
    result.units.count += cut >= begin && cut < begin + length;
    result.cuts.push_back(cut == cuts.back() ? folding.ops[cut - 1] + 1 : folding.ops[cut]);
  }
  result.units.copies = folding.copies;
  return result;
}

} // namespace dtc::plan
