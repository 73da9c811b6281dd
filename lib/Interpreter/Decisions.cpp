#include "Decisions.h"

#include "dtc/Dialect/Graph/CountLimits.h"
#include "dtc/Dialect/Graph/SlotOps.h"
#include "dtc/Dialect/Graph/TokenChoices.h"

using namespace mlir;

namespace dtc::interpreter {

static constexpr int kDrawsOfMasks = 2;

/// Whether two neighbours along a dimension differ somewhere. Of one there is nothing to differ.
static bool differsAlong(const Tensor &tensor, int64_t dim) {
  ArrayRef<int64_t> shape = tensor.shape();
  int64_t stride = 1;
  for (int64_t inner = dim + 1; inner < tensor.rank(); ++inner)
    stride *= shape[inner];
  for (int64_t i = 0; i + stride < tensor.size(); ++i)
    if (i / stride % shape[dim] + 1 < shape[dim] && tensor.ints[i] != tensor.ints[i + stride])
      return true;
  return shape[dim] == 1;
}

/// The tokens whose rows are in the slots of a part, in their order.
using Tokens = std::vector<int64_t>;

/// By section of a sample, then by part of the experts.
static std::vector<std::vector<Tokens>> tokensOfParts(graph::ExpertSlotsOp op,
                                                      const Tensor &slots) {
  const int64_t ofToken = graph::choicesOfToken(op.getChoices()).value_or(1);
  const int64_t rows = slots.shape()[1] / int64_t(op.getSections());
  std::vector<std::vector<Tokens>> result(slots.size() / rows, std::vector<Tokens>(op.getParts()));
  for (auto [i, slot] : llvm::enumerate(slots.ints))
    if (slot >= 0)
      result[int64_t(i) / rows][slot / int64_t(op.getCapacity())].push_back(int64_t(i) / ofToken);
  return result;
}

/// For each two parts, whether they have rows of other tokens somewhere. Two without any row may be
/// alike.
static std::vector<bool> unlikeParts(graph::ExpertSlotsOp op, const Tensor &slots) {
  const auto sections = tokensOfParts(op, slots);
  std::vector<bool> result;
  for (uint64_t first = 0; first < op.getParts(); ++first)
    for (uint64_t second = first + 1; second < op.getParts(); ++second) {
      bool differ = false, areEmpty = true;
      for (const std::vector<Tokens> &parts : sections) {
        differ |= parts[first] != parts[second];
        areEmpty &= parts[first].empty() && parts[second].empty();
      }
      result.push_back(differ || areEmpty);
    }
  return result;
}

/// Whether what an op decides varies in each way in which it must.
static std::vector<bool> waysOf(Operation *op, const Tensor &tensor) {
  if (auto slots = dyn_cast<graph::ExpertSlotsOp>(op))
    return unlikeParts(slots, tensor);
  // Experts of one token always differ.
  const int64_t dims = tensor.rank() - (isa<graph::TopKOp>(op) ? 1 : 0);
  std::vector<bool> result;
  for (int64_t dim = 0; dim < dims; ++dim)
    result.push_back(differsAlong(tensor, dim));
  return result;
}

Decisions::Decisions(ModuleOp global) {
  for (auto function : global.getOps<func::FuncOp>()) {
    for (const graph::CountLimit &limit : graph::findCountLimits(function).limits)
      if (limit.isDecision())
        add(limit.constant->getOwner()->getResult(0), kDrawsOfMasks);
    function.walk([&](Operation *op) {
      if (isa<graph::TopKOp, graph::ExpertSlotsOp>(op))
        add(op->getResult(0), 1);
    });
  }
}

void Decisions::add(Value value, int leastDraws) {
  if (!numbers.try_emplace(value, decisions.size()).second)
    return;
  const Tensor zeros(cast<RankedTensorType>(value.getType()));
  std::vector<Way> ways(waysOf(value.getDefiningOp(), zeros).size());
  decisions.push_back({.leastDraws = leastDraws, .ways = std::move(ways)});
}

void Decisions::see(Value value, const Tensor &tensor) {
  auto known = numbers.find(value);
  if (known == numbers.end())
    return;
  std::vector<Way> &ways = decisions[known->second].ways;
  const std::vector<bool> found = waysOf(value.getDefiningOp(), tensor);
  for (auto [way, isSeen] : llvm::zip(ways, found))
    way.isSeen |= isSeen;
}

int Decisions::leastDraws() const {
  int result = 1;
  for (const Decision &decision : decisions)
    result = std::max(result, decision.leastDraws);
  return result;
}

void Decisions::endDraw() {
  for (Decision &decision : decisions)
    for (Way &way : decision.ways) {
      way.draws += way.isSeen;
      way.isSeen = false;
    }
}

bool Decisions::areVaried() const {
  return llvm::all_of(decisions, [](const Decision &decision) {
    return llvm::all_of(decision.ways,
                        [&](const Way &way) { return way.draws >= decision.leastDraws; });
  });
}

} // namespace dtc::interpreter
