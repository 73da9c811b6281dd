// The one sum over all ranks of a step's numbers.
//
// On <dp=2, tp=2>, where squares of some gradients pend over tp and the loss over dp:
//
//   %l = dist.all_reduce %loss {"dp"}            %first = dist.axis_index {"tp"} == 0
//   %a = dist.all_reduce %split {"tp"}           %m = select %first, %loss, 0
//   %n = dtc.sum %a, %whole               =>     %k = dtc.sum %split, (select %dpFirst, %whole, 0)
//   dtc.step_vector %l, ..., %n                  dist.all_reduce %m, ..., %k {"dp", "tp"}
#include "Collectives.h"

#include "dtc/Dialect/Dist/StageOps.h"
#include "dtc/Dialect/Graph/StepOps.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"

using namespace mlir;
using namespace dtc::sharding;

namespace dtc::partition {

namespace {

/// Along which there is more than one rank.
AxisList axesWithRanks(const Mesh &mesh) {
  AxisList all;
  for (AxisId axis = 0; axis < static_cast<AxisId>(mesh.axes.size()); ++axis)
    if (mesh.axes[axis].size > 1)
      all.push_back(axis);
  return all;
}

/// Zero but on the first of the ranks along the axes, which have the same.
Value onFirst(graph::TensorBuilder &b, Value value, const AxisList &axes, const NamedMesh &mesh) {
  if (axes.empty())
    return value;
  Type type = RankedTensorType::get({}, b.builder.getI64Type());
  Value index = dist::AxisIndexOp::create(b.builder, b.loc, type, mesh.name,
                                          dist::toAttr(b.loc.getContext(), axes, mesh.mesh));
  Value isFirst = b.compare(arith::CmpIPredicate::eq, index, 0);
  return b.selectOr(b.broadcast(isFirst, {}, graph::shapeOf(value)), value, 0.0);
}

class VectorSummer {
public:
  VectorSummer(graph::StepVectorOp vector, const NamedMesh &mesh)
      : vector(vector), mesh(mesh), builder(vector), b(builder, vector.getLoc()),
        all(axesWithRanks(mesh.mesh)) {}

  void run() {
    SmallVector<Value> totals;
    for (Value number : vector.getInputs())
      totals.push_back(all.empty() ? number : termOf(number));
    dist::AxesAttr axes = dist::toAttr(vector.getContext(), all, mesh.mesh);
    if (dist::StageSumOp sum = stageSum()) {
      if (!all.empty() && !sum.getApart())
        sum.setAxesAttr(axes);
    } else if (!all.empty())
      totals = llvm::to_vector_of<Value>(
          dist::AllReduceOp::create(builder, b.loc, TypeRange(ValueRange(totals)), totals,
                                    mesh.name.getValue(), axes, graph::ReduceKind::Sum)
              .getResults());
    vector.getResults().replaceAllUsesWith(totals);
    vector.erase();
  }

private:
  /// Terms that are pending over the same axes.
  struct Terms {
    AxisList pending;
    SmallVector<Value> values;
  };

  /// In a pipeline, the sum over all ranks is also one over all stages.
  dist::StageSumOp stageSum() const { return dyn_cast<dist::StageSumOp>(*vector->user_begin()); }

  static bool isSum(dist::AllReduceOp op) { return op && op.getKind() == graph::ReduceKind::Sum; }

  /// True where some terms of the number were summed over ranks.
  static bool isSummed(Value number) {
    if (auto sum = number.getDefiningOp<graph::SumOp>())
      return llvm::any_of(sum.getInputs(), isSummed);
    return isSum(number.getDefiningOp<dist::AllReduceOp>());
  }

  /// Goes back to what ranks have by themselves.
  void collect(Value number, const AxisList &pending) {
    if (isSummed(number)) {
      if (auto sum = number.getDefiningOp<graph::SumOp>()) {
        for (Value input : sum.getInputs())
          collect(input, pending);
        return;
      }
      auto reduce = number.getDefiningOp<dist::AllReduceOp>();
      AxisList wider = *dist::toAxes(reduce.getAxes(), mesh.mesh);
      llvm::append_range(wider, pending);
      llvm::sort(wider);
      return collect(reduce.getInputs()[cast<OpResult>(number).getResultNumber()], wider);
    }
    for (Terms &known : terms)
      if (known.pending == pending)
        return known.values.push_back(number);
    terms.push_back({pending, {number}});
  }

  /// What the rank adds to the sum over all.
  Value termOf(Value number) {
    terms.clear();
    collect(number, {});
    SmallVector<Value> parts;
    for (const Terms &alike : terms)
      parts.push_back(onFirst(sumOf(alike.values), alike.pending));
    return sumOf(parts);
  }

  Value sumOf(ArrayRef<Value> values) {
    if (values.size() == 1)
      return values.front();
    return graph::SumOp::create(builder, b.loc, values.front().getType(), values);
  }

  Value onFirst(Value value, const AxisList &pending) {
    AxisList others = all;
    llvm::erase_if(others, [&](AxisId axis) { return llvm::is_contained(pending, axis); });
    return partition::onFirst(b, value, others, mesh);
  }

  graph::StepVectorOp vector;
  const NamedMesh &mesh;
  OpBuilder builder;
  graph::TensorBuilder b;
  AxisList all; ///< along which there is more than one rank
  std::vector<Terms> terms;
};

/// Of several ranks that have the same, one gives it to the sum over other meshes.
void giveOnce(dist::StageSumOp sum, const NamedMesh &mesh) {
  OpBuilder builder(sum);
  graph::TensorBuilder b(builder, sum.getLoc());
  for (OpOperand &operand : sum->getOpOperands())
    operand.set(onFirst(b, operand.get(), axesWithRanks(mesh.mesh), mesh));
}

/// Of one rank, whose terms are complete: what it adds them to would else complete their sum.
void dropSumsOfOne(Block &block) {
  for (auto sum : llvm::make_early_inc_range(block.getOps<dist::StageSumOp>()))
    if (sum.getStages().size() == 1 && !sum.getAxesAttr()) {
      sum.replaceAllUsesWith(sum.getInputs());
      sum.erase();
    }
}

} // namespace

void sumStepVector(func::FuncOp func, const NamedMesh &mesh) {
  Block &block = func.getBody().front();
  for (auto sum : block.getOps<dist::StageSumOp>())
    if (sum.getApart() && !sum.getInputs().front().getDefiningOp<graph::StepVectorOp>())
      giveOnce(sum, mesh);
  auto vectors = llvm::to_vector(block.getOps<graph::StepVectorOp>());
  for (graph::StepVectorOp vector : vectors)
    VectorSummer(vector, mesh).run();
  dropSumsOfOne(block);
  if (vectors.empty())
    return;
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

} // namespace dtc::partition
