#include "StepMutants.h"

#include "dtc/Dialect/Dist/StageOps.h"

#include "mlir/IR/Matchers.h"

#include "llvm/ADT/TypeSwitch.h"

#include <map>

using namespace mlir;
using namespace dtc::graph;

namespace dtc::twin::test {
namespace {

using Plant = std::function<void(Operation *)>;

Value doubled(OpBuilder &builder, Value value) {
  return SumOp::create(builder, value.getLoc(), value.getType(), ValueRange{value, value});
}

/// Whether an update's number counts elements that aren't finite. Those of a twin all are, so that
/// the count is zero however often it is added.
bool countsNonFinite(Value value, int depth = 0) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == 24 || (depth == 0 && !shapeOf(value).empty()))
    return false;
  return isa<arith::CmpFOp>(op) || llvm::any_of(op->getOperands(), [&](Value operand) {
           return countsNonFinite(operand, depth + 1);
         });
}

/// Whether it is zero in a twin, also where a rank is asked which it is.
bool addsNothing(Value value) {
  if (auto select = value.getDefiningOp<arith::SelectOp>())
    return addsNothing(select.getTrueValue()) && addsNothing(select.getFalseValue());
  return matchPattern(value, m_Constant()) || countsNonFinite(value);
}

/// Whether an index says alone whose term of the step vector counts, and all of these are zero.
bool selectsZerosAlone(Operation *index) {
  SmallVector<Operation *> selects;
  for (Operation *compare : index->getUsers())
    llvm::append_range(selects, compare->getUsers());
  return !selects.empty() && llvm::all_of(selects, [](Operation *select) {
    return isa<arith::SelectOp>(select) && (countsNonFinite(select->getOperand(1)) ||
                                            matchPattern(select->getOperand(1), m_Constant()));
  });
}

/// Whether ranks only take parts again of what they gather. Along another axis that may be what
/// each of them had, so that nothing changes.
bool isDividedAgain(dist::AllGatherOp gather) {
  SmallVector<Value> gathered(gather->getResults());
  while (!gathered.empty())
    for (Operation *user : gathered.pop_back_val().getUsers()) {
      if (isa<dist::SliceOp>(user))
        continue;
      if (!isa<PadOp, ReshapeOp>(user))
        return false;
      llvm::append_range(gathered, user->getResults());
    }
  return true;
}

class StepMutantMaker {
public:
  StepMutantMaker(ModuleOp module, size_t most) : module(module), most(most) {}

  std::vector<StepMutant> run() {
    current = 0;
    for (Operation *op : numberedOps(module)) {
      if (auto function = op->getParentOfType<func::FuncOp>())
        visit(op, function);
      ++current;
    }
    return thin();
  }

private:
  void add(const char *kind, Operation *op, Plant plant, std::string detail = "") {
    auto function = op->getParentOfType<func::FuncOp>();
    auto rank = op->getParentOfType<ModuleOp>();
    std::string place = rank.getSymName().value_or("").str() + "@" + function.getSymName().str() +
                        " " + std::to_string(current) + " " + op->getName().getStringRef().str() +
                        detail;
    made.push_back({kind, place, current, std::move(plant)});
  }

  static bool isRead(Value value) { return !value.use_empty(); }
  void visit(Operation *op, func::FuncOp function);
  void visitSums(dist::AllReduceOp op);
  void visitCollective(Operation *op);
  bool areTerms(StringRef first, StringRef second);
  bool othersAdd(dist::StageSumOp op, unsigned operand);
  void visitStageSum(dist::StageSumOp op);
  void visitChunks(ConcatOp op);
  void visitTerms(SumOp op, func::FuncOp function);
  void visitReturn(func::ReturnOp op, func::FuncOp function);
  void visitNumbers(Operation *op);
  void visitActivation(ActivationOp op);
  void swapResults(const char *kind, Operation *op, func::FuncOp function, RoleKind role);
  std::vector<StepMutant> thin();

  ModuleOp module;
  size_t most;
  unsigned current = 0;
  std::vector<StepMutant> made;
};

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
      .Default([&](Operation *) { visitNumbers(op); });
}

/// A sum that is missing, made twice, of the wrong kind, or of one tensor too few.
void StepMutantMaker::visitSums(dist::AllReduceOp op) {
  if (op.getKind() == ReduceKind::Sum) {
    add("dropped sum", op, [](Operation *at) { at->replaceAllUsesWith(at->getOperands()); });
    add("doubled sum", op, [](Operation *at) {
      OpBuilder builder(at->getContext());
      builder.setInsertionPointAfter(at);
      Operation *again = builder.clone(*at);
      for (auto [once, twice] : llvm::zip(at->getResults(), again->getResults()))
        once.replaceAllUsesExcept(twice, again);
      again->setOperands(at->getResults());
    });
    add("largest instead of sum", op,
        [](Operation *at) { cast<dist::AllReduceOp>(at).setKind(ReduceKind::Max); });
  }
  for (unsigned i = 1; i < op->getNumResults(); ++i)
    if (op->getResult(i).getType() == op->getResult(0).getType()) {
      add("wrong tensor of a bucket", op, [i](Operation *at) {
        Value first = at->getResult(0), other = at->getResult(i);
        SmallVector<OpOperand *> uses;
        for (OpOperand &use : first.getUses())
          uses.push_back(&use);
        other.replaceAllUsesWith(first);
        for (OpOperand *use : uses)
          use->set(other);
      });
      break;
    }
}

/// Chunks of a sequence that ranks don't have, where parts are in zig-zag.
void StepMutantMaker::visitChunks(ConcatOp op) {
  Value whole;
  for (Value chunk : op.getInputs()) {
    auto slice = chunk.getDefiningOp<SliceOp>();
    if (!slice || (whole && slice.getInput() != whole))
      return;
    whole = slice.getInput();
  }
  if (op.getInputs().size() < 4 || !isRead(op.getResult()))
    return;
  add("wrong chunk", op, [](Operation *at) {
    Value first = at->getOperand(0), second = at->getOperand(1);
    at->setOperand(0, second);
    at->setOperand(1, first);
  });
}

/// Ranks along other axes, in another order, or at another place.
void StepMutantMaker::visitCollective(Operation *op) {
  if (isa<dist::AxisIndexOp>(op) && selectsZerosAlone(op))
    return; // whichever rank adds them
  if (auto gather = dyn_cast<dist::AllGatherOp>(op); gather && isDividedAgain(gather))
    return;
  auto mesh = *op->getParentOfType<ModuleOp>().getOps<dist::MeshOp>().begin();
  auto axes = op->getAttrOfType<dist::AxesAttr>("axes");
  for (auto [name, size] : llvm::zip(mesh.getNames().getAsRange<StringAttr>(), mesh.getSizes())) {
    bool isOther =
        axes.getNames().size() == 1 && axes.getNames()[0] != name &&
        dist::toMesh(mesh).axes[dist::toMesh(mesh).find(axes.getNames()[0].str())].size == size;
    if (!isOther)
      continue;
    add("wrong axis", op, [name = name](Operation *at) {
      at->setAttr("axes", dist::AxesAttr::get(at->getContext(), {name}));
    });
    break;
  }
  if (isa<dist::AxisIndexOp>(op))
    add("unsharded index", op, [](Operation *at) {
      OpBuilder builder(at);
      auto type = cast<RankedTensorType>(at->getResult(0).getType());
      at->getResult(0).replaceAllUsesWith(
          arith::ConstantOp::create(builder, at->getLoc(),
                                    cast<TypedAttr>(builder.getZeroAttr(type)))
              ->getResult(0));
    });
  if (auto scatter = dyn_cast<dist::ReduceScatterOp>(op))
    add("dropped scattered sum", op, [](Operation *at) {
      auto scatter = cast<dist::ReduceScatterOp>(at);
      OpBuilder builder(at);
      for (auto [input, output] : llvm::zip(scatter.getInputs(), scatter.getOutputs()))
        output.replaceAllUsesWith(dist::SliceOp::create(builder, at->getLoc(), output.getType(),
                                                        input, scatter.getMesh(), scatter.getAxes(),
                                                        scatter.getDim())
                                      ->getResult(0));
    });
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

/// Two results of one type and role exchange their places.
void StepMutantMaker::swapResults(const char *kind, Operation *op, func::FuncOp function,
                                  RoleKind role) {
  for (unsigned i = 0; i + 1 < op->getNumOperands(); ++i)
    for (unsigned j = i + 1; j < op->getNumOperands(); ++j) {
      RoleAttr a = getResultRole(function, i), b = getResultRole(function, j);
      if (!a || !b || a.getKind() != role || b.getKind() != role ||
          op->getOperand(i) == op->getOperand(j) ||
          op->getOperand(i).getType() != op->getOperand(j).getType() ||
          (role == RoleKind::Outbox && areTerms(a.getName(), b.getName())))
        continue;
      add(
          kind, op,
          [i, j](Operation *at) {
            Value first = at->getOperand(i);
            at->setOperand(i, at->getOperand(j));
            at->setOperand(j, first);
          },
          " " + a.getName().str() + " and " + b.getName().str());
      break;
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

/// Scales, and what an op reads.
void StepMutantMaker::visitNumbers(Operation *op) {
  if (op->hasAttrOfType<FloatAttr>("scale"))
    add("missing scale", op, [](Operation *at) {
      at->setAttr("scale", FloatAttr::get(Float64Type::get(at->getContext()), 1.0));
    });
  if (isa<arith::DivFOp>(op))
    add("missing scale", op,
        [](Operation *at) { at->getResult(0).replaceAllUsesWith(at->getOperand(0)); });
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

std::vector<StepMutant> StepMutantMaker::thin() {
  std::map<std::string, std::vector<StepMutant *>> byKind;
  for (StepMutant &mutant : made)
    byKind[mutant.kind].push_back(&mutant);
  std::vector<StepMutant> kept;
  for (auto &[kind, list] : byKind)
    for (size_t i = 0, count = std::min(most, list.size()); i < count; ++i)
      kept.push_back(std::move(*list[i * list.size() / count]));
  return kept;
}

} // namespace

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
  // A fault names operands and results by number.
  llvm::erase_if(there, [&, ops = numberedOps(to)](unsigned other) {
    return ops[other]->getNumOperands() < place->getNumOperands() ||
           ops[other]->getNumResults() < place->getNumResults();
  });
  if (here.size() != there.size())
    return there;
  return {there[llvm::find(here, op) - here.begin()]};
}

std::vector<StepMutant> makeStepMutants(ModuleOp local, size_t most) {
  return StepMutantMaker(local, most).run();
}

OwningOpRef<ModuleOp> planted(ModuleOp local, const StepMutant &mutant) {
  OwningOpRef<ModuleOp> copy = local.clone();
  mutant.plant(numberedOps(*copy)[mutant.op]);
  return copy;
}

} // namespace dtc::twin::test
