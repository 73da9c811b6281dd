#include "StepMutantMaker.h"

#include "dtc/Dialect/Graph/AttentionPartOps.h"
#include "dtc/Dialect/Graph/RandomOps.h"

#include "mlir/IR/Matchers.h"

#include "llvm/ADT/TypeSwitch.h"

#include <map>

using namespace mlir;
using namespace dtc::graph;

namespace dtc::twin::test {
namespace {

Value doubled(OpBuilder &builder, Value value) {
  return SumOp::create(builder, value.getLoc(), value.getType(), ValueRange{value, value});
}

/// Whether it is zero in a twin, also where a rank is asked which it is.
bool addsNothing(Value value) {
  if (auto select = value.getDefiningOp<arith::SelectOp>())
    return addsNothing(select.getTrueValue()) && addsNothing(select.getFalseValue());
  return matchPattern(value, m_Constant());
}

} // namespace

void StepMutantMaker::visit(Operation *op, func::FuncOp function) {
  TypeSwitch<Operation *>(op)
      .Case([&](dist::AllReduceOp reduce) { visitSums(reduce); })
      .Case<dist::AllGatherOp, dist::ReduceScatterOp, dist::AllToAllOp, dist::SliceOp,
            dist::PermuteOp, dist::AxisIndexOp>([&](auto) { visitCollective(op); })
      .Case([&](dist::StageSumOp sum) { visitStageSum(sum); })
      .Case([&](ConcatOp concat) { visitChunks(concat); })
      .Case([&](SumOp sum) { visitTerms(sum, function); })
      .Case([&](func::ReturnOp end) { visitReturn(end, function); })
      .Case([&](ActivationOp activation) { visitActivation(activation); })
      .Case<AdamUpdateOp, SgdUpdateOp>([&](auto) { visitUpdate(op); })
      .Default([&](Operation *) { visitNumbers(op); });
}

/// Whether the other ranks add something to a sum over stages: the n-th of its list on each.
bool StepMutantMaker::othersAdd(dist::StageSumOp op, unsigned operand) {
  auto ordinal = [](dist::StageSumOp sum) {
    int before = 0;
    for (Operation &other : llvm::make_range(sum->getBlock()->begin(), sum->getIterator()))
      if (auto earlier = dyn_cast<dist::StageSumOp>(other))
        before += earlier.getStages() == sum.getStages();
    return before;
  };
  bool found = false;
  module.walk([&](dist::StageSumOp other) {
    found |= other != op && other.getStages() == op.getStages() && ordinal(other) == ordinal(op) &&
             !addsNothing(other->getOperand(operand));
  });
  return found;
}

/// A tied weight's gradient, or the step vector, that one rank doesn't sum, or sums twice.
void StepMutantMaker::visitStageSum(dist::StageSumOp op) {
  visitReaders(op);
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    if (!isRead(op->getResult(i)))
      continue;
    if (othersAdd(op, i))
      add("unsummed tied weight", op,
          [i](Operation *at) { at->getResult(i).replaceAllUsesWith(at->getOperand(i)); });
    if (addsNothing(op->getOperand(i)))
      continue; // twice nothing
    add("tied weight counted twice", op, [i](Operation *at) {
      OpBuilder builder(at);
      at->setOperand(i, doubled(builder, at->getOperand(i)));
    });
  }
}

/// Gradients that flow together: one that is lost, or comes twice. One of them may be what earlier
/// microbatches gave.
void StepMutantMaker::visitTerms(SumOp op, func::FuncOp function) {
  for (unsigned i = 0; i < op->getNumOperands() && op->getNumOperands() > 1; ++i) {
    if (addsNothing(op->getOperand(i)))
      continue;
    auto argument = dyn_cast<BlockArgument>(op->getOperand(i));
    RoleAttr role = argument ? getArgRole(function, argument.getArgNumber()) : RoleAttr();
    bool isEarlier =
        role && (role.getKind() == RoleKind::Gradient || role.getKind() == RoleKind::Loss);
    // What is added to all keys changes no score against another: its gradient is zero.
    if (isEarlier && role.getName().ends_with("k_proj.bias"))
      continue;
    add(isEarlier ? "forgotten microbatch" : "dropped term", op,
        [i](Operation *at) { at->eraseOperand(i); });
    add(isEarlier ? "microbatch counted twice" : "doubled term", op,
        [i](Operation *at) { at->insertOperands(i, {at->getOperand(i)}); });
  }
}

/// Whether whoever receives two messages only adds them up.
bool StepMutantMaker::areTerms(StringRef first, StringRef second) {
  SmallVector<Operation *> users;
  module.walk([&](func::FuncOp function) {
    for (BlockArgument argument : function.getArguments()) {
      RoleAttr role = getArgRole(function, argument.getArgNumber());
      if (role && role.getKind() == RoleKind::Inbox &&
          (role.getName() == first || role.getName() == second))
        users.append(argument.user_begin(), argument.user_end());
    }
  });
  return users.size() == 2 && users[0] == users[1] && isa<SumOp>(users[0]);
}

/// Whether a rank reads it again. What is kept and never read is no fault wherever it lies.
static bool isTaken(ModuleOp rank, StringRef kept) {
  bool found = false;
  rank.walk([&](func::FuncOp function) {
    for (BlockArgument argument : function.getArguments()) {
      RoleAttr role = getArgRole(function, argument.getArgNumber());
      found |= role && role.getKind() == RoleKind::Kept && role.getName() == kept &&
               !argument.use_empty();
    }
  });
  return found;
}

/// Two results of one type and role exchange their places.
void StepMutantMaker::swapResults(const char *kind, Operation *op, func::FuncOp function,
                                  RoleKind role) {
  auto rank = function->getParentOfType<ModuleOp>();
  for (unsigned i = 0; i + 1 < op->getNumOperands(); ++i)
    for (unsigned j = i + 1, found = 0; j < op->getNumOperands(); ++j) {
      RoleAttr a = getResultRole(function, i), b = getResultRole(function, j);
      if (!a || !b || a.getKind() != role || b.getKind() != role ||
          op->getOperand(i) == op->getOperand(j) ||
          op->getOperand(i).getType() != op->getOperand(j).getType() ||
          (role == RoleKind::Outbox && areTerms(a.getName(), b.getName())) ||
          (role == RoleKind::Kept && !isTaken(rank, a.getName()) && !isTaken(rank, b.getName())))
        continue;
      add(
          kind, op,
          [i, j](Operation *at) {
            Value first = at->getOperand(i);
            at->setOperand(i, at->getOperand(j));
            at->setOperand(j, first);
          },
          " " + a.getName().str() + " and " + b.getName().str(), /*isFurther=*/found++ > 0);
    }
}

void StepMutantMaker::visitReturn(func::ReturnOp op, func::FuncOp function) {
  swapResults("swapped gradients", op, function, RoleKind::Gradient);
  swapResults("swapped message", op, function, RoleKind::Outbox);
  swapResults("swapped activation", op, function, RoleKind::Kept);
  swapResults("swapped state", op, function, RoleKind::State);
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    for (BlockArgument argument : function.getArguments()) {
      RoleAttr role = getResultRole(function, i);
      if (role && role.getKind() == RoleKind::Parameter && op->getOperand(i) != argument &&
          getArgRole(function, argument.getArgNumber()) == role &&
          argument.getType() == op->getOperand(i).getType())
        add("stale parameter", op, [i, n = argument.getArgNumber()](Operation *at) {
          at->setOperand(i, at->getBlock()->getArgument(n));
        });
    }
}

/// An op that a stage leaves out, or that isn't computed again as it was the first time.
void StepMutantMaker::visitActivation(ActivationOp op) {
  auto backward = op->getAttrOfType<BackwardAttr>(GraphDialect::kBackward);
  bool isAgain = backward && backward.getKind() == BackwardKind::Recompute;
  if (isRead(op->getResult(0)) && op->getOperand(0).getType() == op->getResult(0).getType())
    add(isAgain ? "wrong recomputation" : "skipped op", op,
        [](Operation *at) { at->getResult(0).replaceAllUsesWith(at->getOperand(0)); });
}

/// An update that doesn't clip its gradient, or whose parameter is among those of other decay.
void StepMutantMaker::visitUpdate(Operation *op) {
  auto scaleOf = [](Operation *at) -> OpOperand & {
    auto adam = dyn_cast<AdamUpdateOp>(at);
    return adam ? adam.getGradScaleMutable() : cast<SgdUpdateOp>(at).getGradScaleMutable();
  };
  if (!matchPattern(scaleOf(op).get(), m_Constant()))
    add("unscaled gradient", op, [scaleOf](Operation *at) {
      OpBuilder builder(at);
      auto type = cast<RankedTensorType>(scaleOf(at).get().getType());
      auto one = DenseElementsAttr::get(type, builder.getFloatAttr(type.getElementType(), 1));
      scaleOf(at).set(arith::ConstantOp::create(builder, at->getLoc(), one));
    });
  add("wrong decay class", op, [](Operation *at) {
    auto decay = at->getAttrOfType<FloatAttr>("weightDecay");
    at->setAttr("weightDecay", FloatAttr::get(decay.getType(), decay.getValueAsDouble() ? 0 : 0.1));
  });
}

/// Scales, random numbers, and what an op reads.
void StepMutantMaker::visitNumbers(Operation *op) {
  if (op->hasAttrOfType<FloatAttr>("scale"))
    add("missing scale", op, [](Operation *at) {
      at->setAttr("scale", FloatAttr::get(Float64Type::get(at->getContext()), 1.0));
    });
  const bool divides = isa<arith::DivFOp>(op);
  for (unsigned i = 0; i < (divides ? 1 : isa<arith::MulFOp>(op) ? 2 : 0); ++i)
    if (divides || matchPattern(op->getOperand(1 - i), m_Constant()))
      add("missing scale", op,
          [i](Operation *at) { at->getResult(0).replaceAllUsesWith(at->getOperand(i)); });
  if (isa<PhiloxOp>(op))
    add("other random numbers", op, [](Operation *at) {
      auto philox = cast<PhiloxOp>(at);
      philox.setNumber(philox.getNumber() + 1000);
    });
  if (isa<AttentionOp, AttentionGradOp, AttentionPartGradOp>(op))
    visitMask(op);
  const bool masks =
      isa<arith::SelectOp>(op) && isa<FloatType>(getElementTypeOrSelf(op->getResult(0)));
  for (unsigned i = 1; i < (masks ? 3 : 0); ++i)
    if (!matchPattern(op->getOperand(i), m_Constant()))
      add("lost mask", op,
          [i](Operation *at) { at->getResult(0).replaceAllUsesWith(at->getOperand(i)); });
  visitOperands(op);
}

/// An attention that has no mask, or the mask of another part of a sequence.
void StepMutantMaker::visitMask(Operation *op) {
  const int64_t queries = shapeOf(op->getOperand(0))[1], keys = shapeOf(op->getOperand(1))[1];
  if (op->hasAttr("window") || queries == 1 || queries != keys)
    return;
  add("wrong mask", op, [](Operation *at) {
    if (!at->removeAttr("causal"))
      at->setAttr("causal", UnitAttr::get(at->getContext()));
  });
}

void StepMutantMaker::visitOperands(Operation *op) {
  if (!isa<ContractOp, LayerNormGradOp, RmsNormGradOp, AttentionGradOp, ActivationGradOp>(op))
    return;
  // The gradient of attention computes its result again; queries, keys and values are in front.
  unsigned read = isa<AttentionGradOp>(op) ? 3 : op->getNumOperands();
  for (unsigned i = 0; i < read; ++i)
    for (unsigned j = i + 1; j < op->getNumOperands(); ++j)
      if (op->getOperand(i) != op->getOperand(j) &&
          op->getOperand(i).getType() == op->getOperand(j).getType()) {
        add("wrong operand", op, [i, j](Operation *at) { at->setOperand(i, at->getOperand(j)); });
        return;
      }
}

std::string placeOf(Operation *op, unsigned number) {
  auto function = op->getParentOfType<func::FuncOp>();
  auto rank = op->getParentOfType<ModuleOp>();
  return rank.getSymName().value_or("").str() + "@" + function.getSymName().str() + " " +
         std::to_string(number) + " " + op->getName().getStringRef().str();
}

std::vector<StepMutant> thinned(std::vector<StepMutant> all, size_t most) {
  std::map<std::string, std::vector<StepMutant *>> byKind;
  for (StepMutant &mutant : all)
    if (!mutant.isFurther)
      byKind[mutant.kind].push_back(&mutant);
  std::vector<StepMutant> kept;
  for (auto &[kind, list] : byKind)
    for (size_t i = 0, count = std::min(most, list.size()); i < count; ++i)
      kept.push_back(std::move(*list[i * list.size() / count]));
  return kept;
}

std::vector<Operation *> numberedOps(ModuleOp module) {
  std::vector<Operation *> ops;
  module.walk([&](Operation *op) {
    if (!isa<arith::ConstantOp>(op))
      ops.push_back(op);
  });
  return ops;
}

/// Whether two ops are made of one op, in functions of one name of one pipeline rank.
static bool areAlike(Operation *a, Operation *b) {
  auto functionA = a->getParentOfType<func::FuncOp>(),
       functionB = b->getParentOfType<func::FuncOp>();
  if (!functionA || !functionB || a->getName() != b->getName() || a->getLoc() != b->getLoc())
    return false;
  return functionA.getSymName() == functionB.getSymName() &&
         functionA->getParentOfType<ModuleOp>().getSymName() ==
             functionB->getParentOfType<ModuleOp>().getSymName();
}

static std::vector<unsigned> allAlike(ModuleOp module, Operation *op) {
  std::vector<unsigned> alike;
  for (auto [i, other] : llvm::enumerate(numberedOps(module)))
    if (areAlike(op, other))
      alike.push_back(static_cast<unsigned>(i));
  return alike;
}

std::vector<unsigned> counterparts(ModuleOp from, unsigned op, ModuleOp to) {
  Operation *place = numberedOps(from)[op];
  std::vector<unsigned> here = allAlike(from, place), there = allAlike(to, place);
  if (here.size() == there.size())
    there = {there[llvm::find(here, op) - here.begin()]};
  // A fault names operands and results by number.
  llvm::erase_if(there, [&, ops = numberedOps(to)](unsigned other) {
    return ops[other]->getNumOperands() < place->getNumOperands() ||
           ops[other]->getNumResults() < place->getNumResults();
  });
  return there;
}

std::vector<StepMutant> makeStepMutants(ModuleOp local) { return StepMutantMaker(local).run(); }

OwningOpRef<ModuleOp> planted(ModuleOp local, const StepMutant &mutant) {
  OwningOpRef<ModuleOp> copy = local.clone();
  mutant.plant(numberedOps(*copy)[mutant.op]);
  return copy;
}

} // namespace dtc::twin::test
