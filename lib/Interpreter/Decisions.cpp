#include "Decisions.h"

#include "dtc/Dialect/Graph/CountLimits.h"

using namespace mlir;

namespace dtc::interpreter {

static constexpr int kDrawsThatVary = 2;

Decisions::Decisions(ModuleOp global) {
  for (auto function : global.getOps<func::FuncOp>())
    for (const graph::CountLimit &limit : graph::findCountLimits(function).limits) {
      Value mask = limit.constant->getOwner()->getResult(0);
      if (!limit.isDecision() || !numbers.try_emplace(mask, masks.size()).second)
        continue;
      masks.emplace_back();
      for (int64_t size : graph::shapeOf(mask))
        masks.back().push_back({.hasOne = size == 1});
    }
}

/// Whether two neighbours along a dimension differ somewhere.
static bool differsAlong(const Tensor &tensor, int64_t dim) {
  ArrayRef<int64_t> shape = tensor.shape();
  int64_t stride = 1;
  for (int64_t inner = dim + 1; inner < tensor.rank(); ++inner)
    stride *= shape[inner];
  for (int64_t i = 0; i + stride < tensor.size(); ++i)
    if (i / stride % shape[dim] + 1 < shape[dim] && tensor.ints[i] != tensor.ints[i + stride])
      return true;
  return false;
}

void Decisions::see(Value value, const Tensor &tensor) {
  auto known = numbers.find(value);
  if (known == numbers.end())
    return;
  for (auto [i, dim] : llvm::enumerate(masks[known->second]))
    dim.differs = dim.differs || differsAlong(tensor, int64_t(i));
}

int Decisions::leastDraws() const { return masks.empty() ? 1 : kDrawsThatVary; }

void Decisions::endDraw() {
  for (std::vector<Dim> &mask : masks)
    for (Dim &dim : mask) {
      dim.draws += dim.differs;
      dim.differs = false;
    }
}

bool Decisions::areVaried() const {
  return llvm::all_of(masks, [](const std::vector<Dim> &mask) {
    return llvm::all_of(mask,
                        [](const Dim &dim) { return dim.hasOne || dim.draws >= kDrawsThatVary; });
  });
}

} // namespace dtc::interpreter
