// What the ops of mixtures of experts are on one device.
#include "../ContractIndices.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"

using namespace mlir;

namespace dtc::graph {

FailureOr<SmallVector<Value>> DispatchOp::decompose(OpBuilder &) {
  return SmallVector<Value>{getInput()};
}

FailureOr<SmallVector<Value>> CombineOp::decompose(OpBuilder &) {
  return SmallVector<Value>{getInput()};
}

namespace {
/// A tensor whose dimensions have indices.
struct Indexed {
  Value value;
  SmallVector<int64_t> indices;
};
} // namespace

static int64_t positionOf(ArrayRef<int64_t> indices, int64_t index) {
  return llvm::find(indices, index) - indices.begin();
}

/// `indices` with those of the choices in place of the experts'.
static SmallVector<int64_t> withChoices(GroupedContractOp op, ArrayRef<int64_t> indices) {
  SmallVector<int64_t> result;
  for (int64_t index : indices)
    if (index == static_cast<int64_t>(op.getExperts()))
      llvm::append_range(result, op.getChoiceIndices());
    else
      result.push_back(index);
  return result;
}

/// Each row's slice of an operand that has one for each expert; other operands as they are.
static Indexed lookedUp(GroupedContractOp op, TensorBuilder &b, Value value,
                        ArrayRef<int64_t> indices) {
  int64_t axis = positionOf(indices, op.getExperts());
  if (axis == static_cast<int64_t>(indices.size()))
    return {b.widen(value), SmallVector<int64_t>(indices)};
  SmallVector<int64_t> all = withChoices(op, indices), shape;
  SmallVector<int64_t> sizes = op.getIndexSizes();
  for (int64_t index : all)
    shape.push_back(sizes[index]);
  auto type = cast<RankedTensorType>(value.getType()).clone(shape);
  Value rows = GatherOp::create(b.builder, b.loc, type, value, op.getChoices(), axis,
                                /*paddingRow=*/IntegerAttr());
  return {b.widen(rows), all};
}

/// Repeats a tensor over the indices that it lacks, in the order of `order`.
static Value over(TensorBuilder &b, const Indexed &tensor, ArrayRef<int64_t> order,
                  ArrayRef<int64_t> shape) {
  auto perm = llvm::to_vector(llvm::seq<int64_t>(0, tensor.indices.size()));
  llvm::sort(perm, [&](int64_t a, int64_t c) {
    return positionOf(order, tensor.indices[a]) < positionOf(order, tensor.indices[c]);
  });
  auto dims = llvm::map_to_vector(
      perm, [&](int64_t dim) { return positionOf(order, tensor.indices[dim]); });
  Value value = tensor.value;
  if (!llvm::is_sorted(perm))
    value = b.transpose(value, perm);
  return b.broadcast(value, dims, shape);
}

/// The sum over all indices but those of `wanted`, whose order it has.
static Value sumTo(TensorBuilder &b, Value product, ArrayRef<int64_t> order,
                   ArrayRef<int64_t> wanted) {
  SmallVector<int64_t> summed, left;
  for (auto [dim, index] : llvm::enumerate(order))
    if (llvm::is_contained(wanted, index))
      left.push_back(index);
    else
      summed.push_back(dim);
  Value sum = summed.empty() ? product : b.sum(product, summed);
  auto perm = llvm::map_to_vector(wanted, [&](int64_t index) { return positionOf(left, index); });
  return llvm::is_sorted(perm) ? sum : b.transpose(sum, perm);
}

//===-- rows in parts -----------------------------------------------------===//

/// The numbers of the experts of part p among all, where choices are those in the part. A choice
/// that is none there is none here.
static Value numbersAmongAll(GroupedContractOp op, TensorBuilder &b, int64_t part) {
  Value choices = op.getChoices();
  Type element = getElementTypeOrSelf(choices);
  int64_t experts = op.getIndexSizes()[op.getExperts()];
  auto constant = [&](int64_t value) { return b.integer(choices.getType(), value); };
  Value first = arith::MulIOp::create(
      b.builder, b.loc, b.iota(element, shapeOf(choices), positionOf(op.getChoiceIndices(), part)),
      constant(experts));
  Value isThere = arith::AndIOp::create(b.builder, b.loc,
                                        b.compare(arith::CmpIPredicate::sge, choices, int64_t(0)),
                                        b.compare(arith::CmpIPredicate::slt, choices, experts));
  return b.select(isThere, arith::AddIOp::create(b.builder, b.loc, choices, first), constant(-1));
}

/// One table of the experts of all parts, whose rows have the part as one more index of rows. The
/// part comes right before its experts.
static FailureOr<Value> withoutParts(GroupedContractOp op, TensorBuilder &b, int64_t part) {
  auto experts = static_cast<int64_t>(op.getExperts());
  auto merge = [&](ArrayRef<int64_t> indices, ArrayRef<int64_t> sizes,
                   SmallVector<int64_t> &mergedIndices,
                   SmallVector<int64_t> &mergedSizes) -> LogicalResult {
    bool hasExperts = llvm::is_contained(indices, experts);
    for (auto [place, index] : llvm::enumerate(indices)) {
      if (hasExperts && index == part) {
        if (place + 1 == indices.size() || indices[place + 1] != experts)
          return failure();
        continue;
      }
      bool counts = index == experts;
      mergedIndices.push_back(index);
      mergedSizes.push_back(counts ? sizes[place] * sizes[place - 1] : sizes[place]);
    }
    return success();
  };
  SmallVector<int64_t> indices[3], shapes[3];
  if (failed(merge(op.getLhsIndices(), shapeOf(op.getLhs()), indices[0], shapes[0])) ||
      failed(merge(op.getRhsIndices(), shapeOf(op.getRhs()), indices[1], shapes[1])) ||
      failed(merge(op.getResultIndices(), shapeOf(op.getResult()), indices[2], shapes[2])))
    return op.emitOpError("must have the parts right before their experts"), failure();
  Value result = GroupedContractOp::create(
      b.builder, b.loc, op.getType().clone(shapes[2]), b.reshape(op.getLhs(), shapes[0]),
      b.reshape(op.getRhs(), shapes[1]), numbersAmongAll(op, b, part), indices[0], indices[1],
      indices[2], op.getChoiceIndices(), op.getExperts());
  return b.reshape(result, shapeOf(op.getResult()));
}

//===-- as lookups --------------------------------------------------------===//

/// Products and their sum are one kernel, so that no row's slice of the experts is stored. Its
/// innermost dimension is that of the experts' tensor, which is read without strides.
FailureOr<SmallVector<Value>> GroupedContractOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  if (SmallVector<int64_t> parts = partIndices(*this); !parts.empty()) {
    FailureOr<Value> result = withoutParts(*this, b, parts.front());
    if (failed(result))
      return failure();
    return SmallVector<Value>{*result};
  }
  Indexed lhs = lookedUp(*this, b, getLhs(), getLhsIndices());
  Indexed rhs = lookedUp(*this, b, getRhs(), getRhsIndices());
  bool scatters = llvm::is_contained(getResultIndices(), static_cast<int64_t>(getExperts()));
  SmallVector<int64_t> wanted = withChoices(*this, getResultIndices());
  bool left = llvm::is_contained(getLhsIndices(), static_cast<int64_t>(getExperts()));
  SmallVector<int64_t> order = scatters ? wanted : left ? lhs.indices : rhs.indices;
  for (const Indexed *tensor : {&lhs, &rhs})
    for (int64_t index : tensor->indices)
      if (!llvm::is_contained(order, index))
        order.push_back(index);
  SmallVector<int64_t> sizes = getIndexSizes();
  auto shape = llvm::map_to_vector(order, [&](int64_t index) { return sizes[index]; });
  Value sum = sumTo(b, b.mul(over(b, lhs, order, shape), over(b, rhs, order, shape)), order,
                    wanted);
  if (scatters) {
    auto type = getType().clone(getElementTypeOrSelf(sum));
    sum = ScatterAddOp::create(builder, getLoc(), type, getChoices(), sum,
                               positionOf(getResultIndices(), getExperts()));
  }
  return SmallVector<Value>{b.convert(sum, getType().getElementType())};
}

} // namespace dtc::graph
