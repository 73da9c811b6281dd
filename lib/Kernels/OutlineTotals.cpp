#include "KernelIdentity.h"
#include "Outline.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace dtc::kernels {

/// Pieces of one kernel number their elements in 32 bits.
static constexpr int64_t kMostElements = std::numeric_limits<int32_t>::max();

/// What pieces of one kernel have in common. It is only looked up, so that addresses decide
/// nothing.
using Class = std::tuple<std::string, std::vector<uintptr_t>, bool>;

static Class classOf(const Totals &totals, exec::KernelOp alone, int64_t elements) {
  std::vector<uintptr_t> shared;
  for (Value scalar : totals.scalars)
    shared.push_back(reinterpret_cast<uintptr_t>(scalar.getAsOpaquePointer()));
  for (graph::SumOp sum : totals.sums)
    shared.push_back(reinterpret_cast<uintptr_t>(sum.getOperation()));
  return {structure(alone, /*flat=*/true), shared, elements % kWholeAccess == 0};
}

static Operation *firstSum(const Totals &totals) {
  Operation *first = totals.sums.front();
  for (graph::SumOp sum : totals.sums)
    if (sum->isBeforeInBlock(first))
      first = sum;
  return first;
}

/// Whether all that is read is there before the first of the sums.
static bool isReady(const Totals &totals) {
  Operation *first = firstSum(totals);
  return llvm::all_of(llvm::concat<const Value>(totals.tensors, totals.scalars), [&](Value value) {
    return !value.getDefiningOp() || value.getDefiningOp()->isBeforeInBlock(first);
  });
}

/// The sum of each part of `term`, which ends in zeros.
static Value partialSums(graph::TensorBuilder &b, Value term, int64_t part) {
  Type element = getElementTypeOrSelf(term);
  int64_t parts = llvm::divideCeil(elementsOf(term), part);
  Value whole =
      graph::PadOp::create(b.builder, b.loc, RankedTensorType::get({parts * part}, element), term,
                           ArrayRef<int64_t>{0}, ArrayRef<int64_t>{0}, APFloat(0.0));
  return b.sum(b.reshape(whole, {parts, part}), {1});
}

/// The pieces' ops one after another, then the joints.
FailureOr<Outliner::Launch> Outliner::joinTotals(ArrayRef<const TotalsPiece *> pieces,
                                                 ArrayRef<Value> inputs) {
  OpBuilder builder(module.getContext());
  Location loc = pieces.front()->totals->values.back().getLoc();
  exec::KernelOp kernel = kernelOfPieces(builder, loc, inputs, pieces.size());
  Block &body = kernel.getBodyRegion().front();
  graph::TensorBuilder b(builder, loc);
  const size_t tensors = pieces.front()->totals->tensors.size();
  int64_t part = partFor(
      llvm::map_to_vector(pieces, [](const TotalsPiece *piece) { return piece->elements; }));
  SmallVector<SmallVector<Value>> sums(pieces.front()->totals->terms.size());
  for (auto [number, piece] : llvm::enumerate(pieces)) {
    exec::KernelOp alone = *piece->alone;
    Block &own = alone.getBody().front();
    IRMapping mapping;
    for (auto [i, argument] : llvm::enumerate(own.getArguments())) {
      BlockArgument operand = body.getArgument(i < tensors ? number * tensors + i
                                                           : pieces.size() * tensors + i - tensors);
      operand.setType(argument.getType());
      mapping.map(argument, operand);
    }
    for (Operation &op : own.without_terminator())
      builder.clone(op, mapping);
    for (auto [i, term] : llvm::enumerate(own.getTerminator()->getOperands()))
      sums[i].push_back(partialSums(b, mapping.lookup(term), part));
  }
  SmallVector<Value> joined;
  for (const SmallVector<Value> &parts : sums) {
    int64_t count = 0;
    for (Value own : parts)
      count += elementsOf(own);
    auto type = RankedTensorType::get({count}, getElementTypeOrSelf(parts.front()));
    joined.push_back(graph::ConcatOp::create(builder, loc, type, parts, 0));
  }
  exec::YieldOp::create(builder, loc, joined);
  return findOrAdd(kernel);
}

LogicalResult Outliner::launchTotals(ArrayRef<const TotalsPiece *> pieces) {
  SmallVector<Value> inputs;
  for (const TotalsPiece *piece : pieces)
    llvm::append_range(inputs, piece->totals->tensors);
  llvm::append_range(inputs, pieces.front()->totals->scalars);
  FailureOr<Launch> found = joinTotals(pieces, inputs);
  if (failed(found))
    return failure();
  exec::KernelOp shared = inModule(found->kernel->kernel);
  OpBuilder builder(firstSum(*pieces.front()->totals));
  auto launch =
      exec::LaunchOp::create(builder, pieces.front()->totals->values.back().getLoc(),
                             TypeRange(shared.getYield().getValues()), shared.getSymName(), inputs,
                             found->extent, found->kernel->inPlace);
  replaceTotals(llvm::map_to_vector(pieces, [](const TotalsPiece *piece) { return piece->totals; }),
                launch.getResults(), builder);
  return success();
}

LogicalResult Outliner::outlineTotals(func::FuncOp func) {
  enter(func->getParentOfType<ModuleOp>());
  const target::KernelLimits limits = target.kernelLimits();
  if (limits.pieces < 2)
    return success();
  std::vector<Totals> all = totalsOf(func, target);
  std::vector<TotalsPiece> pieces;
  pieces.reserve(all.size());
  std::vector<SmallVector<const TotalsPiece *>> batches;
  std::map<Class, size_t> open;
  for (const Totals &totals : all) {
    SmallVector<Value> inputs(totals.tensors.getArrayRef());
    llvm::append_range(inputs, totals.scalars);
    TotalsPiece piece{&totals, build(totals.ops.getArrayRef(), inputs, totals.terms, func.getLoc()),
                      elementsOf(totals.terms.front())};
    if (piece.elements > kMostElements || !isReady(totals) ||
        !isFlat(BodyInfo(piece.alone->getBody().front())))
      continue;
    flatten(*piece.alone);
    Class own = classOf(totals, *piece.alone, piece.elements);
    auto [place, fresh] = open.try_emplace(own, batches.size());
    int64_t count = fresh ? 0 : batches[place->second].size();
    int64_t operands =
        (count + 1) * totals.tensors.size() + totals.scalars.size() + totals.terms.size();
    if (fresh || count == limits.pieces || operands > limits.operands) {
      place->second = batches.size();
      batches.emplace_back();
    }
    pieces.push_back(std::move(piece));
    batches[place->second].push_back(&pieces.back());
  }
  for (SmallVector<const TotalsPiece *> &batch : batches) {
    llvm::stable_sort(batch, [](const TotalsPiece *a, const TotalsPiece *b) {
      return a->elements > b->elements;
    });
    if (batch.size() > 1 && failed(launchTotals(batch)))
      return failure();
  }
  return success();
}

} // namespace dtc::kernels
