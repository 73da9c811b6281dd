#include "Dimensions.h"

#include "dtc/Dialect/Dist/Zigzag.h"
#include "dtc/Dialect/Graph/AttentionPartOps.h"
#include "dtc/Dialect/Graph/SlotOps.h"

#include <set>

using namespace mlir;
using namespace dtc::graph;

namespace dtc::twin {

Dimensions::Dims &Dimensions::dimsOf(Value value) {
  auto [entry, isNew] = dims.try_emplace(value);
  if (isNew)
    for (int64_t size : shapeOf(value))
      entry->second.push_back(classes.create(size));
  return entry->second;
}

static sharding::Mesh meshOf(ModuleOp module) {
  return dist::toMesh(*module.getOps<dist::MeshOp>().begin());
}

/// -1: no axis splits so.
static sharding::AxisId zigzagOf(ModuleOp module) {
  dist::MeshOp mesh = *module.getOps<dist::MeshOp>().begin();
  auto names = mesh->getAttrOfType<dist::AxesAttr>(dist::kZigzag);
  auto axes = names ? dist::toAxes(names, dist::toMesh(mesh)) : std::nullopt;
  return axes ? axes->front() : -1;
}

/// Axes of one name stay different where meshes have different ones.
LogicalResult Dimensions::findMeshes() {
  std::map<std::string, std::set<int64_t>> sizes;
  for (ModuleOp module : modules) {
    if (module.getOps<dist::MeshOp>().empty())
      return module.emitError() << "has no mesh";
    for (const sharding::MeshAxis &axis : meshOf(module).axes)
      sizes[axis.name].insert(axis.size);
  }
  for (const auto &[name, ofName] : sizes) {
    std::vector<int64_t> large(ofName.begin(), ofName.end()),
        small = kept == Axes::Small ? smallAxes(large) : large;
    for (size_t i = 0; i < large.size(); ++i)
      axes[{name, large[i]}] = small[i];
  }
  return success();
}

/// Passes first: the prologue has the samples of all of them.
static SmallVector<func::FuncOp> functionsOf(ModuleOp module) {
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  llvm::stable_sort(functions, [](func::FuncOp a, func::FuncOp b) {
    return runsPerMicrobatch(a) && !runsPerMicrobatch(b);
  });
  return functions;
}

LogicalResult Dimensions::find() {
  if (failed(findMeshes()))
    return failure();
  for (ModuleOp module : modules)
    for (func::FuncOp function : functionsOf(module))
      if (failed(visitFunction(function)) || failed(unifyWithFirst(function)))
        return failure();
  for (ModuleOp module : modules)
    for (func::FuncOp function : functionsOf(module))
      function.walk([&](Operation *op) {
        tieParts(op);
        keepHeads(op);
      });
  for (ModuleOp module : modules)
    for (func::FuncOp function : functionsOf(module))
      findLimits(function);
  for (ModuleOp module : modules) {
    mesh = meshOf(module);
    zigzag = zigzagOf(module);
    for (func::FuncOp function : functionsOf(module))
      splitBy(function);
  }
  classes.solve();
  return success();
}

/// What an op makes has the dimensions that it has on the first mesh.
LogicalResult Dimensions::unifyWithFirst(func::FuncOp function) {
  auto first = modules.front().lookupSymbol<func::FuncOp>(function.getSymName());
  if (!first || !first.getBody().hasOneBlock())
    return function.emitError() << "is not a function of the first mesh";
  if (first == function)
    return success();
  auto unify = [&](ValueRange here, ValueRange there) {
    bool areAlike = here.getTypes() == there.getTypes();
    for (auto [own, others] : llvm::zip(here, there))
      for (size_t i = 0; areAlike && i < shapeOf(own).size(); ++i)
        classes.unify(Dims(dimsOf(others))[i], Dims(dimsOf(own))[i]);
    return areAlike;
  };
  Block &here = function.front(), &there = first.front();
  if (!unify(here.getArguments(), there.getArguments()) ||
      here.getOperations().size() != there.getOperations().size())
    return function.emitError() << "differs from what the first mesh has";
  for (auto [own, others] : llvm::zip_equal(here, there))
    if (own.getName() != others.getName() || !unify(own.getResults(), others.getResults()))
      return own.emitOpError() << "is another op on the first mesh";
  return success();
}

LogicalResult Dimensions::visitFunction(func::FuncOp function) {
  if (!function.getBody().hasOneBlock())
    return function.emitError() << "must have one block";
  for (BlockArgument argument : function.getArguments())
    visitRole(getArgRole(function, argument.getArgNumber()), argument);
  for (Operation &op : function.front().without_terminator())
    if (failed(visitOp(&op)))
      return failure();
  for (auto [i, value] : llvm::enumerate(function.front().getTerminator()->getOperands()))
    visitRole(getResultRole(function, i), value);
  return success();
}

/// What is of one parameter has its dimensions; so have inputs wherever they are read.
void Dimensions::visitRole(RoleAttr role, Value value) {
  if (!role)
    return;
  RoleKind kind = role.getKind();
  if (kind == RoleKind::Gradient || kind == RoleKind::State || kind == RoleKind::Master)
    kind = RoleKind::Parameter;
  if (kind != RoleKind::Parameter && kind != RoleKind::Buffer && kind != RoleKind::Input &&
      kind != RoleKind::Target)
    return;
  auto [known, isNew] = roles.try_emplace({int(kind), role.getName().str()}, value);
  if (isNew)
    return;
  Dims there = dimsOf(known->second), here = dimsOf(value);
  if (there.size() != here.size())
    return;
  for (size_t i = 0; i < here.size(); ++i) {
    int64_t of = shapeOf(value)[i], in = shapeOf(known->second)[i];
    Atoms sizes = there[i];
    if (i == 0 && of > in && of % in == 0) {
      Atoms &calls = microbatchAtoms[of / in];
      if (calls.empty())
        calls = classes.create(of / in);
      sizes.insert(sizes.begin(), calls.begin(), calls.end());
    }
    classes.unify(sizes, here[i]);
  }
}

int64_t Dimensions::microbatchesInTwin(int64_t microbatches) {
  auto found = microbatchAtoms.find(microbatches);
  return found == microbatchAtoms.end() ? microbatches : classes.sizeInTwin(found->second);
}

Atoms Dimensions::atomsOf(ArrayRef<sharding::FactorId> factors, ArrayRef<Atoms> known) const {
  Atoms result;
  for (sharding::FactorId factor : factors)
    result.append(known[factor]);
  return result;
}

LogicalResult Dimensions::visitOp(Operation *op) {
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  if (!ruled)
    return op->emitOpError() << "has no sharding rule, by which its dimensions would be known";
  sharding::ShardingRule rule = ruled.getShardingRule();
  std::vector<Atoms> factors;
  for (const sharding::Factor &factor : rule.factors)
    factors.push_back(classes.create(factor.size));
  auto unify = [&](Value value, const sharding::TensorFactors &tensor) {
    Dims own = dimsOf(value);
    for (size_t i = 0; i < own.size(); ++i)
      classes.unify(atomsOf(tensor[i], factors), own[i]);
  };
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    unify(operand, rule.operands[i]);
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    unify(result, rule.results[i]);
  pinCounted(op, rule, factors);
  if (op->hasAttr(dist::DistDialect::kOp))
    factorsOf[op] = std::move(factors);
  return success();
}

/// Whether integers come from an input as it is, whose limit follows the table's size.
static bool isGiven(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<ReshapeOp, TransposeOp, SliceOp, BroadcastOp, DispatchOp, CombineOp, arith::ExtSIOp,
             arith::ExtUIOp, arith::TruncIOp>(op))
      return false;
    value = op->getOperand(0);
  }
  return true;
}

/// Dimensions in which an op counts: its attributes or other tensors have numbers of them.
void Dimensions::pinCounted(Operation *op, const sharding::ShardingRule &rule,
                            ArrayRef<Atoms> factors) {
  auto pinDims = [&](Value value) {
    for (const Atoms &dim : dimsOf(value))
      classes.pin(dim);
  };
  bool countsInWhole = isa<ReshapeOp, TopKOp, ConvOp, ConvInputGradOp, ConvWeightGradOp, MaxPoolOp,
                           MaxPoolGradOp, DispatchOp, CombineOp, GroupedContractOp>(op);
  for (auto [factor, atoms] : llvm::zip_equal(rule.factors, factors))
    if (countsInWhole && factor.kind == sharding::FactorKind::Whole)
      classes.pin(atoms);
  TypeSwitch<Operation *>(op)
      .Case([&](GatherOp gather) {
        if (!isGiven(gather.getIndices()) || gather.getPaddingRow().value_or(0) > 0)
          classes.pin(dimsOf(gather.getTable())[gather.getAxis()]);
      })
      .Case([&](ScatterAddOp scatter) {
        if (!isGiven(scatter.getIndices()))
          classes.pin(dimsOf(scatter.getResult())[scatter.getAxis()]);
      })
      .Case([&](PickOp pick) {
        if (!isGiven(pick.getIndices()))
          classes.pin(dimsOf(pick.getInput()).back());
      })
      .Case<CrossEntropyOp, CrossEntropyGradOp>([&](auto loss) {
        if (!isGiven(loss.getTarget()))
          classes.pin(dimsOf(loss.getLogits()).back());
      })
      .Case<ConvOp, ConvInputGradOp, ConvWeightGradOp>([&](auto conv) {
        if (conv.getGroups() != 1)
          for (Value operand : op->getOperands())
            classes.pin(dimsOf(operand)[1]);
      })
      .Case<DispatchOp, CombineOp, GroupedContractOp>([&](auto) {
        pinDims(op->getOperands().back()); // the choices
        for (Value value : {op->getOperand(0), Value(op->getResult(0))})
          classes.pin(dimsOf(value)[1]);
      })
      .Case([&](ExpertSlotsOp slots) { classes.pin(dimsOf(slots.getChoices())[1]); })
      .Case<ToSlotsOp, FromSlotsOp>([&](auto exchange) {
        // Rows on the one side; sections, parts and slots on the other.
        Dims in = dimsOf(exchange.getInput()), out = dimsOf(exchange.getResult());
        const Dims &rows = in.size() < out.size() ? in : out,
                   &slots = in.size() < out.size() ? out : in;
        classes.pin(rows[1]);
        for (size_t i = 1; i < slots.size() - rows.size() + 2; ++i)
          classes.pin(slots[i]);
      });
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// `to` is a part of `from`, or the other way round, from an offset on.
void Dimensions::tieTo(Value from, Value to, ArrayRef<int64_t> offsets) {
  for (size_t i = 0; i < offsets.size(); ++i) {
    Atoms a = classes.resolve(dimsOf(from)[i]), b = classes.resolve(dimsOf(to)[i]);
    if (a == b && offsets[i] == 0)
      continue;
    if (a.size() != 1 || b.size() != 1) {
      classes.pin(a);
      classes.pin(b);
      continue;
    }
    classes.tie(a.front(), b.front(), offsets[i]);
  }
}

void Dimensions::tieParts(Operation *op) {
  TypeSwitch<Operation *>(op)
      .Case([&](SliceOp slice) {
        for (auto [i, stride] : llvm::enumerate(slice.getStrides()))
          if (stride != 1) {
            classes.pin(dimsOf(slice.getInput())[i]);
            classes.pin(dimsOf(slice.getResult())[i]);
          }
        tieTo(slice.getInput(), slice.getResult(), slice.getOffsets());
      })
      .Case([&](PadOp pad) {
        for (auto [i, interior] : llvm::enumerate(pad.getInterior()))
          if (interior != 0) {
            classes.pin(dimsOf(pad.getInput())[i]);
            classes.pin(dimsOf(pad.getResult())[i]);
          }
        tieTo(pad.getInput(), pad.getResult(), pad.getLow());
      })
      .Case([&](ConcatOp concat) {
        SmallVector<int64_t> offsets(shapeOf(concat.getResult()).size());
        for (Value input : concat.getInputs())
          tieTo(input, concat.getResult(), offsets);
      });
}

void Dimensions::keepHeads(Operation *op) {
  if (!isa<AttentionOp, AttentionGradOp, AttentionPartGradOp>(op))
    return;
  for (Value value : op->getOperands().take_front(3)) // query, key and value
    classes.keepMultiple(dimsOf(value).back(), headMultiple);
}

int64_t Dimensions::offsetInTwin(Value value, size_t dim, int64_t offset) {
  return offset == 0 ? 0 : classes.scaled(classes.resolve(dimsOf(value)[dim]).front(), offset);
}

//===----------------------------------------------------------------------===//
// Limits of counts
//===----------------------------------------------------------------------===//

Atoms Dimensions::atomsOf(const Counted &counted) {
  Atoms result;
  for (int64_t dim : counted.dims)
    result.append(dimsOf(counted.truths)[dim]);
  return result;
}

void Dimensions::findLimits(func::FuncOp function) {
  CountLimits found = findCountLimits(function);
  for (const CountSlots &slots : found.slots)
    classes.placeCounted(atomsOf(slots.counted), dimsOf(slots.places)[slots.dim]);
  for (const CountLimit &limit : found.limits)
    classes.limit(atomsOf(limit.counted), limit.number);
  llvm::append_range(limits, found.limits);
}

int64_t Dimensions::limitInTwin(const CountLimit &limit) {
  return classes.limitInTwin(atomsOf(limit.counted), limit.number);
}

//===----------------------------------------------------------------------===//
// Shards
//===----------------------------------------------------------------------===//

int64_t Dimensions::axisInTwin(const sharding::MeshAxis &axis) const {
  return axes.at({axis.name, axis.size});
}

SmallVector<SizeClasses::Split> Dimensions::toSplits(const sharding::AxisList &list) const {
  return llvm::map_to_vector(list, [&](sharding::AxisId axis) -> SizeClasses::Split {
    const int64_t chunks = axis == zigzag ? 2 : 1; // of a rank
    return {chunks * mesh.axes[axis].size, chunks * axisInTwin(mesh.axes[axis])};
  });
}

void Dimensions::splitValue(Attribute attribute, Value value) {
  auto sharding = dyn_cast_or_null<dist::ShardingAttr>(attribute);
  auto split = sharding ? dist::toSharding(sharding, mesh) : std::nullopt;
  if (!split)
    return;
  for (auto [axes, dim] : llvm::zip(split->dims, dimsOf(value)))
    classes.split(dim, toSplits(axes));
}

void Dimensions::splitFactors(Operation *op) {
  auto attribute = op->getAttrOfType<dist::OpShardingAttr>(dist::DistDialect::kOp);
  auto choice = attribute ? dist::toOpSharding(attribute, mesh) : std::nullopt;
  if (choice)
    for (auto [axes, atoms] : llvm::zip(choice->factors, factorsOf[op]))
      classes.split(atoms, toSplits(axes));
}

void Dimensions::splitBy(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments())
    splitValue(function.getArgAttr(argument.getArgNumber(), dist::DistDialect::kSharding),
               argument);
  for (Operation &op : function.front().without_terminator())
    splitFactors(&op);
  for (auto [i, value] : llvm::enumerate(function.front().getTerminator()->getOperands()))
    splitValue(function.getResultAttr(i, dist::DistDialect::kSharding), value);
}

SmallVector<int64_t> Dimensions::shapeInTwin(Value value) {
  return llvm::map_to_vector(dimsOf(value),
                             [&](const Atoms &dim) { return classes.sizeInTwin(dim); });
}

} // namespace dtc::twin
