#include "Across.h"
#include "KernelPieces.h"

using namespace mlir;

namespace dtc::cuda {

using namespace kernels;

using graph::shapeOf;

static constexpr int64_t kSectorBytes = 32;
/// Of each turn a thread has so many bytes of a result, so that a warp writes 128.
static constexpr int64_t kTurnBytes = 4;
/// Each reads a sector, so that these ask for more than the memory of an H100 has on its way.
static constexpr int64_t kLeastThreads = 8192;

/// Where a tensor's dimensions lie in what is made of it.
struct Origin {
  Value value;
  SmallVector<int64_t> dims;
};

/// How far neighbours of an operand are from each other in what is made, which has this shape.
/// Dimensions of the size 1 are nowhere between neighbours.
static int64_t distanceOf(const Origin &operand, ArrayRef<int64_t> made) {
  ArrayRef<int64_t> shape = shapeOf(operand.value);
  size_t inner = shape.size();
  while (inner > 0 && shape[inner - 1] == 1)
    --inner;
  int64_t distance = 1;
  if (inner > 0)
    for (int64_t size : made.drop_front(operand.dims[inner - 1] + 1))
      distance *= size;
  return distance;
}

/// What an op reads element by element, and where that lies in what is made.
static SmallVector<Origin> originsOf(Operation *op, ArrayRef<int64_t> dims) {
  SmallVector<Origin> origins;
  if (auto transpose = dyn_cast<graph::TransposeOp>(op)) {
    Origin &input = origins.emplace_back(transpose.getInput(), SmallVector<int64_t>(dims.size()));
    for (auto [dim, from] : llvm::enumerate(transpose.getPerm()))
      input.dims[from] = dims[dim];
  } else if (graph::isElementwise(op) || isa<graph::SumOp>(op)) {
    for (Value operand : op->getOperands())
      if (shapeOf(operand).size() == dims.size())
        origins.push_back({operand, SmallVector<int64_t>(dims)});
  }
  return origins;
}

std::optional<int64_t> distanceAcross(Value made) {
  ArrayRef<int64_t> shape = shapeOf(made);
  SmallVector<Origin> origins{{made, llvm::to_vector(llvm::seq<int64_t>(0, shape.size()))}};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!origins.empty()) {
    const Origin origin = origins.pop_back_val();
    Operation *op = origin.value.getDefiningOp();
    if (int64_t distance = op ? 1 : distanceOf(origin, shape); distance > 1)
      return distance;
    if (op && seen.insert(op).second)
      llvm::append_range(origins, originsOf(op, origin.dims));
  }
  return std::nullopt;
}

int64_t elementsOfSector(const BodyInfo &info) {
  return elementsOfAccess(info) * (kSectorBytes / kAccessBytes);
}

bool planAcross(const BodyInfo &info, KernelPlan &plan) {
  const int64_t elements = elementsOf(info.results[0]),
                size = kAccessBytes / elementsOfAccess(info), unit = kTurnBytes / size;
  std::optional<int64_t> apart = distanceAcross(info.results[0]);
  if (!apart || unit < 1 || *apart % unit != 0)
    return false;
  int64_t turns = elementsOfSector(info);
  while (turns > 1 &&
         (elements % (*apart * turns) != 0 || elements / (turns * unit) < kLeastThreads))
    turns /= 2;
  if (turns == 1)
    return false;
  plan.unit = unit;
  plan.turns = turns;
  plan.apart = *apart;
  return true;
}

} // namespace dtc::cuda
