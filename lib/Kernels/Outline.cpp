#include "Outline.h"
#include "KernelIdentity.h"
#include "SpentSlots.h"
#include "Updates.h"
#include "dtc/Kernels/IndexMath.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace dtc::kernels {

using graph::shapeOf;

Outliner::Outliner(const target::Target &target, KernelFormation::Formed formed)
    : target(target), formed(std::move(formed)) {}

void Outliner::enter(ModuleOp next) {
  if (module == next)
    return;
  module = next;
  symbols.emplace(next);
}

/// Behind the mesh, which every sharding asks for: symbols are looked up from the front.
void Outliner::insert(exec::KernelOp kernel) {
  Operation *front = &module.getBody()->front();
  symbols->insert(kernel, Block::iterator(isa<dist::MeshOp>(front) ? front->getNextNode() : front));
}

exec::KernelOp Outliner::build(ArrayRef<Operation *> ops, ArrayRef<Value> inputs,
                               ArrayRef<Value> outputs, Location loc) {
  OpBuilder builder(module.getContext());
  auto kernel = exec::KernelOp::create(builder, loc, "kernel", /*extent=*/0, /*scratchBytes=*/0,
                                       /*flat=*/false, /*replaces=*/nullptr, /*geometry=*/nullptr);
  Block &body = kernel.getBodyRegion().emplaceBlock();
  builder.setInsertionPointToEnd(&body);
  IRMapping mapping;
  for (Value input : inputs)
    mapping.map(input, body.addArgument(input.getType(), input.getLoc()));
  for (Operation *op : ops) {
    Operation *clone = builder.clone(*op, mapping);
    clone->removeAttr(graph::GraphDialect::kId);
    clone->removeAttr(graph::GraphDialect::kBackward);
  }
  SmallVector<Value> yielded;
  for (Value output : outputs)
    yielded.push_back(mapping.lookup(output));
  exec::YieldOp::create(builder, loc, yielded);
  return kernel;
}

void flatten(exec::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  auto flat = [](Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    if (type.getRank() != 0)
      value.setType(RankedTensorType::get({type.getNumElements()}, type.getElementType()));
  };
  llvm::for_each(body.getArguments(), flat);
  for (Operation &op : llvm::make_early_inc_range(body.without_terminator())) {
    flat(op.getResult(0));
    if (auto value = dyn_cast<arith::ConstantOp>(op)) {
      auto elements = cast<DenseElementsAttr>(value.getValue());
      value.setValueAttr(elements.resizeSplat(cast<ShapedType>(value.getType())));
    }
    Value input = op.getNumOperands() ? op.getOperand(0) : Value();
    if (isa<graph::ReshapeOp>(op) && input.getType() == op.getResult(0).getType()) {
      op.getResult(0).replaceAllUsesWith(input);
      op.erase();
    }
  }
}

static StringRef nameOf(KernelKind kind) {
  switch (kind) {
  case KernelKind::Pointwise:
    return "pointwise";
  case KernelKind::Rows:
    return "rows";
  case KernelKind::Columns:
    return "columns";
  case KernelKind::Scatter:
    return "scatter";
  case KernelKind::Buckets:
    return "buckets";
  case KernelKind::Scan:
    return "scan";
  case KernelKind::Pool:
    return "pool";
  case KernelKind::Products:
    return "products";
  }
  llvm_unreachable("all kinds handled");
}

FailureOr<Outliner::Launch> Outliner::findOrAdd(exec::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  OpBuilder builder(module.getContext());
  FailureOr<KernelKind> kind = failure();
  bool flat = false, joins = false;
  {
    BodyInfo info(body);
    kind = classify(info);
    if (failed(kind))
      return failure();
    flat = *kind == KernelKind::Pointwise && isFlat(info);
    joins = !info.joins.empty(); // of tensors of one dimension
  }
  if (flat)
    flatten(kernel);
  int64_t extent = IndexMath::numElements(shapeOf(kernel.getYield().getValues()[0]));
  // Code for one element reads the first one, whatever the extent of a launch.
  bool anyExtent = flat && extent > 1 && target.kernelLimits().anyExtent;
  auto [entry, fresh] = known.try_emplace(structure(kernel, anyExtent));
  if (!fresh) {
    kernel.erase();
    return Launch{&entry->second, anyExtent ? extent : int64_t(entry->second.kernel.getExtent())};
  }
  FailureOr<target::KernelShape> shape = target.planKernel(body);
  if (failed(shape))
    return failure();
  kernel.setExtent(shape->extent);
  kernel.setScratchBytes(shape->scratchBytes);
  kernel.setFlat(flat || joins);
  if (shape->geometry)
    kernel.setGeometryAttr(shape->geometry);
  kernel.setSymName((nameOf(*kind) + "_" + Twine(numbers[*kind]++)).str());
  insert(kernel);
  entry->second = {kernel, shape->inPlace};
  if (formed && failed(formed(kernel)))
    return failure();
  return Launch{&entry->second, shape->extent};
}

exec::KernelOp Outliner::inModule(exec::KernelOp kernel) {
  if (kernel->getParentOp() != module && !symbols->lookup(kernel.getSymName()))
    insert(kernel.clone());
  return kernel;
}

/// The launch stands where the source's last op stood, and is named like it.
static Location locationOf(ArrayRef<Value> outputs) { return outputs.back().getLoc(); }

/// Has all readers of a computation that is there several times read the first one. So products of
/// one tensor, each of which got a copy in its own order, share the copies that are alike.
static SmallVector<Value> mergeAlike(ArrayRef<Value> outputs) {
  SmallVector<Value> distinct;
  for (Value output : outputs) {
    auto same = llvm::find_if(distinct, [&](Value other) {
      return OperationEquivalence::isEquivalentTo(output.getDefiningOp(), other.getDefiningOp(),
                                                  OperationEquivalence::IgnoreLocations);
    });
    if (same == distinct.end())
      distinct.push_back(output);
    else
      output.replaceAllUsesWith(*same);
  }
  return distinct;
}

LogicalResult Outliner::launch(const Clustering &clustering, const SpentSlots &slots, int cluster,
                               OpBuilder &builder) {
  // As they are now: launches have taken the place of what earlier clusters make.
  auto [ops, reads] = clustering.inputsOf(cluster);
  SmallVector<Value> outputs = mergeAlike(clustering.outputsOf(cluster));
  const OpSet &own = clustering.clusters[cluster].ops;
  ops.insert(own.begin(), own.end());
  SmallVector<Operation *> sorted = canonicalOrder(ops, outputs);
  // Operands in the order of their first use: equal kernels get equal ones.
  ValueSet inputs;
  for (Operation *op : sorted)
    for (Value operand : op->getOperands())
      if (reads.contains(operand))
        inputs.insert(operand);

  Location loc = locationOf(outputs);
  SmallVector<int64_t> replaces = findReplaced(inputs.getArrayRef(), outputs);
  slots.prefer(cluster, inputs.getArrayRef(), outputs, replaces);
  auto [place, fresh] = launches.try_emplace(
      identityOf(sorted, inputs.getArrayRef(), outputs, replaces));
  Launch &found = place->second;
  if (fresh) {
    exec::KernelOp kernel = build(sorted, inputs.getArrayRef(), outputs, loc);
    if (!replaces.empty())
      kernel.setReplaces(replaces);
    FailureOr<Launch> added = findOrAdd(kernel);
    if (failed(added))
      return failure();
    found = *added;
  }
  SmallVector<Type> types = llvm::map_to_vector(outputs, [](Value v) { return v.getType(); });
  exec::KernelOp shared = inModule(found.kernel->kernel);
  auto op = exec::LaunchOp::create(builder, loc, types, shared.getSymName(),
                                   inputs.getArrayRef(), found.extent,
                                   found.kernel->inPlace);
  for (auto [output, result] : llvm::zip(outputs, op.getResults()))
    output.replaceAllUsesWith(result);
  return success();
}

std::string Outliner::pieceOf(func::FuncOp alone) {
  Block &body = alone.getBody().front();
  SmallVector<Value> outputs(body.getTerminator()->getOperands());
  SmallVector<Operation *> ops;
  for (Operation &op : body.without_terminator())
    ops.push_back(&op);
  if (target.kernelLimits().pieces < 2 || outputs.empty() || !llvm::all_of(ops, isPrimitive) ||
      llvm::any_of(
          outputs,
          [](Value value) {
            return !value.getDefiningOp() || isa<graph::ReshapeOp>(value.getDefiningOp());
          }))
    return {};
  SmallVector<Value> inputs(body.getArguments());
  OwningOpRef<exec::KernelOp> trial = build(ops, inputs, outputs, alone.getLoc());
  if (!isFlat(BodyInfo(trial->getBody().front())))
    return {};
  flatten(*trial);
  return structure(*trial, /*flat=*/true);
}

exec::KernelOp Outliner::kernelOfPieces(OpBuilder &builder, Location loc, ValueRange inputs,
                                        size_t pieces) {
  auto kernel =
      exec::KernelOp::create(builder, loc, "kernel", /*extent=*/0, /*scratchBytes=*/0,
                             /*flat=*/false, /*replaces=*/nullptr, /*geometry=*/nullptr, pieces);
  Block &body = kernel.getBodyRegion().emplaceBlock();
  for (Value input : inputs)
    body.addArgument(input.getType(), loc);
  builder.setInsertionPointToEnd(&body);
  return kernel;
}

/// The pieces' ops one after another, and what all of them read behind their operands.
LogicalResult Outliner::launchTogether(ArrayRef<UpdatePiece> pieces) {
  OpBuilder builder(module.getContext());
  Location loc = pieces.front().update->outputs.back().getLoc();
  BatchOperands operands(pieces);
  exec::KernelOp kernel = kernelOfPieces(builder, loc, operands.values, pieces.size());
  Block &body = kernel.getBodyRegion().front();
  SmallVector<Value> yielded;
  for (auto [number, piece] : llvm::enumerate(pieces)) {
    func::FuncOp alone = piece.alone;
    Block &own = alone.getBody().front();
    IRMapping mapping;
    for (auto [i, argument] : llvm::enumerate(own.getArguments()))
      mapping.map(argument, body.getArgument(operands.numberOf(number, i)));
    for (Operation &op : own.without_terminator())
      builder.clone(op, mapping);
    for (Value value : own.getTerminator()->getOperands())
      yielded.push_back(mapping.lookup(value));
  }
  exec::YieldOp::create(builder, loc, yielded);
  if (SmallVector<int64_t> replaces = operands.replaces(); !replaces.empty())
    kernel.setReplaces(replaces);
  FailureOr<Launch> found = findOrAdd(kernel);
  if (failed(found))
    return failure();
  exec::KernelOp shared = inModule(found->kernel->kernel);
  replaceTogether(pieces, [&](OpBuilder &at, TypeRange types) -> ResultRange {
    return exec::LaunchOp::create(at, loc, types, shared.getSymName(), operands.values,
                                  found->extent, found->kernel->inPlace)
        .getResults();
  });
  return success();
}

/// Updates of the same types, attributes and roles are one, in whatever functions they stand.
FailureOr<Outliner::Alone *> Outliner::aloneOf(const Update &update, ArrayRef<int64_t> replaces) {
  auto [known, fresh] = updates.try_emplace(
      identityOf(update.ops, update.inputs.getArrayRef(), update.outputs, replaces));
  Alone &alone = known->second;
  if (!fresh)
    return &alone;
  FailureOr<OwningOpRef<func::FuncOp>> decomposed = decomposeAlone(update);
  if (failed(decomposed))
    return failure();
  alone.piece = pieceOf(**decomposed);
  alone.function = std::move(*decomposed);
  return &alone;
}

/// Has the module all kernels that an update alone launches.
LogicalResult Outliner::outlineAlone(Alone &alone) {
  if (alone.outlined) {
    llvm::for_each(alone.kernels, [&](exec::KernelOp kernel) { inModule(kernel); });
    return success();
  }
  alone.outlined = alone.function->clone();
  if (failed(outlinePrimitives(*alone.outlined)))
    return failure();
  alone.outlined->walk([&](exec::LaunchOp launch) {
    alone.kernels.push_back(symbols->lookup<exec::KernelOp>(launch.getKernel()));
  });
  return success();
}

/// Updates that are alike become the same launches.
LogicalResult Outliner::outlineUpdates(func::FuncOp func) {
  std::vector<Update> own = updatesOf(func, target);
  std::vector<UpdatePiece> pieces;
  std::vector<Alone *> alike;
  for (const Update &update : own) {
    SmallVector<int64_t> replaces = findReplaced(update.inputs.getArrayRef(), update.outputs);
    FailureOr<Alone *> alone = aloneOf(update, replaces);
    if (failed(alone))
      return failure();
    alike.push_back(*alone);
    pieces.push_back({&update, *(*alone)->function, (*alone)->piece, replaces});
  }
  for (ArrayRef<size_t> batch : batchUpdates(func, pieces, target.kernelLimits())) {
    if (batch.size() > 1) {
      auto together = llvm::map_to_vector(batch, [&](size_t i) { return pieces[i]; });
      if (failed(launchTogether(together)))
        return failure();
      continue;
    }
    Alone &alone = *alike[batch.front()];
    if (failed(outlineAlone(alone)))
      return failure();
    replace(own[batch.front()], *alone.outlined);
  }
  return success();
}

LogicalResult Outliner::outline(func::FuncOp func) {
  enter(func->getParentOfType<ModuleOp>());
  return failed(outlineUpdates(func)) ? failure() : outlinePrimitives(func);
}

LogicalResult Outliner::outlinePrimitives(func::FuncOp func) {
  Clustering clustering(func, target.kernelLimits());
  Block &block = func.getBody().front();
  SmallVector<Operation *> old;
  for (Operation &op : block)
    if (isPrimitive(&op))
      old.push_back(&op);
  // Everything is put at the end of the block anew, in order.
  Operation *terminator = block.getTerminator();
  OpBuilder builder(terminator);
  DenseSet<Operation *> views;
  std::function<void(Value)> keepView = [&](Value value) {
    auto reshape = value.getDefiningOp<graph::ReshapeOp>();
    if (!reshape || !views.insert(reshape).second)
      return;
    keepView(reshape.getInput());
    reshape->moveBefore(terminator);
  };
  const std::vector<Clustering::Step> steps = clustering.order();
  const SpentSlots slots(clustering, steps);
  for (const Clustering::Step &step : steps) {
    if (step.op == terminator) {
      llvm::for_each(terminator->getOperands(), keepView);
    } else if (step.op) {
      llvm::for_each(step.op->getOperands(), keepView);
      step.op->moveBefore(terminator);
    } else if (failed(launch(clustering, slots, step.cluster, builder))) {
      return failure();
    }
  }
  for (Operation *op : llvm::reverse(old))
    if (!views.contains(op)) {
      op->dropAllUses();
      op->erase();
    }
  return success();
}

} // namespace dtc::kernels
