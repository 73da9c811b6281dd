#include "dtc/Stages/Stages.h"

#include "SharedParts.h"
#include "StageConstants.h"
#include "StageFunction.h"

#include "dtc/Sharding/RemadeValues.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::stages {
namespace {

/// In the order in which a schedule makes them.
enum Pass : int { kForward, kInputGrad, kWeightGrad, kPasses };

/// With what only such ops read.
void eraseUnread(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

/// Takes the function of a stage apart.
class PassSplitter {
public:
  PassSplitter(func::FuncOp joint, bool splitBackward)
      : joint(joint), splitBackward(splitBackward), chunk(getRuns(joint).getChunk()),
        constants(joint) {}

  LogicalResult run() {
    if (failed(takeApartShared(joint)))
      return failure();
    // Of a layer that is computed again, the next stage has read the output: nothing is kept for
    // it.
    eraseUnread(joint.front());
    findBackward();
    if (splitBackward)
      findWeightGrads();
    if (failed(placeResults()))
      return failure();
    for (Pass pass : {kForward, kInputGrad, kWeightGrad})
      findKept(pass);
    for (Pass pass : {kInputGrad, kWeightGrad})
      findRemade(pass);
    for (Pass pass : {kInputGrad, kWeightGrad})
      keepSources(pass);
    dropUntaken();
    build(kForward, "forward", Passes::Forward);
    if (splitBackward) {
      build(kInputGrad, "input_grad", Passes::InputGrad);
      build(kWeightGrad, "weight_grad", Passes::WeightGrad);
    } else {
      build(kInputGrad, "backward", Passes::Backward);
    }
    joint.erase();
    return success();
  }

private:
  static bool isInbox(func::FuncOp function, unsigned argument, Passes pass) {
    auto runs = function.getArgAttrOfType<RunsAttr>(argument, GraphDialect::kRuns);
    return runs && runs.getPasses() == pass;
  }

  Operation *terminator() { return joint.front().getTerminator(); }
  Pass passOf(Value value) const {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return isInbox(joint, argument.getArgNumber(), Passes::InputGrad) ? kInputGrad : kForward;
    return passes.lookup(value.getDefiningOp());
  }

  /// What is marked as such, and what depends on it. What partitioning made for the backward pass
  /// alone belongs to it as well.
  void findBackward() {
    for (Operation &op : joint.front().without_terminator()) {
      bool isBackward = op.hasAttr(GraphDialect::kBackward) ||
                        llvm::any_of(op.getOperands(),
                                     [&](Value operand) { return passOf(operand) != kForward; });
      passes[&op] = isBackward ? kInputGrad : kForward;
    }
    DenseSet<Value> returned(terminator()->operand_begin(), terminator()->operand_end());
    for (Operation &op : llvm::reverse(joint.front().without_terminator())) {
      bool isForward = op.hasAttr(GraphDialect::kId) || op.use_empty() ||
                       llvm::any_of(op.getResults(), [&](Value v) { return returned.contains(v); });
      if (!isForward && llvm::all_of(op.getUsers(), [&](Operation *user) {
            return passes.lookup(user) != kForward;
          }))
        passes[&op] = kInputGrad;
    }
  }

  /// What is computed again. Of an op that partitioning took apart, the parts aren't marked: they
  /// depend on such ops and on no gradient.
  DenseSet<Operation *> findRecomputed() {
    DenseSet<Operation *> again;
    auto isAgain = [&](Value value) { return again.contains(value.getDefiningOp()); };
    for (Operation &op : joint.front().without_terminator()) {
      bool isPart = !op.hasAttr(GraphDialect::kBackward) &&
                    llvm::any_of(op.getOperands(), isAgain) &&
                    llvm::all_of(op.getOperands(), [&](Value operand) {
                      return isAgain(operand) || passOf(operand) == kForward;
                    });
      if (isRecomputed(&op) || isPart)
        again.insert(&op);
    }
    return again;
  }

  /// Of the backward pass, all but what gradients of data depend on, and what is computed again
  /// for either. What is gathered for that, or only waits for it, comes with what reads it.
  void findWeightGrads() {
    const DenseSet<Operation *> again = findRecomputed();
    DenseSet<Value> needed;
    for (auto [i, value] : llvm::enumerate(terminator()->getOperands()))
      if (joint.getResultAttr(i, GraphDialect::kRuns)) // it leaves the stage
        needed.insert(value);
    for (Operation &op : llvm::reverse(joint.front().without_terminator())) {
      if (passes.lookup(&op) == kForward)
        continue;
      auto mark = op.getAttrOfType<BackwardAttr>(GraphDialect::kBackward);
      bool isBrought = isa<BarrierOp, dist::AllGatherOp>(op);
      bool isEarly = (again.contains(&op) && !isBrought) ||
                     (mark && mark.getKind() == BackwardKind::InputGrad);
      bool isInputGrad =
          isEarly || llvm::any_of(op.getResults(), [&](Value v) { return needed.contains(v); });
      if (isInputGrad)
        needed.insert_range(op.getOperands());
      else
        passes[&op] = kWeightGrad;
    }
  }

  /// Messages leave with their pass, all else with the pass that makes it.
  LogicalResult placeResults() {
    for (auto [i, value] : llvm::enumerate(terminator()->getOperands())) {
      auto runs = joint.getResultAttrOfType<RunsAttr>(i, GraphDialect::kRuns);
      Pass pass = passOf(value);
      if (runs)
        pass = runs.getPasses() == Passes::Forward ? kForward : kInputGrad;
      if (pass < passOf(value))
        return joint.emitOpError("sends what a later pass makes, result: ") << i;
      results[pass].push_back(i);
      // What the next stage of the same rank takes is kept already.
      RoleAttr role = getResultRole(joint, i);
      if (runs && role.getKind() == RoleKind::Kept && pass == passOf(value) &&
          needs.keptNames.try_emplace(value, role.getName().str()).second)
        handedOver.insert(value);
    }
    return success();
  }

  /// As memory holds them: a truth value has a byte.
  static int64_t bitsOf(Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    return type.getNumElements() * std::max(8u, type.getElementTypeBitWidth());
  }

  /// Whether it shows a buffer that the step replaces: a later pass finds another value there.
  bool showsReplaced(Value value) {
    while (
        isa_and_present<BroadcastOp, ReshapeOp, BarrierOp, SliceOp, arith::ExtFOp, arith::TruncFOp>(
            value.getDefiningOp()))
      value = value.getDefiningOp()->getOperand(0);
    return constants.isReplaced(value);
  }

  /// Cheaper to make again than to keep: what is a smaller tensor repeated, or in other types. Rows
  /// of experts of this rank stay where they are, and so does what is behind a barrier.
  bool isRemade(Operation *op) {
    if (isa<BroadcastOp, ReshapeOp, BarrierOp, DispatchOp, CombineOp>(op) || constants.contains(op))
      return true;
    Value of = op->getNumResults() == 1 ? op->getResult(0) : Value();
    while (Operation *producer = of ? of.getDefiningOp() : nullptr) {
      if (!isa<BroadcastOp, ReshapeOp, arith::ExtFOp, arith::TruncFOp>(producer))
        break;
      of = producer->getOperand(0);
    }
    return of && of.getDefiningOp() != op && bitsOf(of) < bitsOf(op->getResult(0));
  }

  /// Whether a later pass than its own reads a value, maybe reshaped or repeated.
  bool isReadLater(Value value) const {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      return passes.lookup(user) > passOf(value) ||
             (isa<BroadcastOp, ReshapeOp>(user) && isReadLater(user->getResult(0)));
    });
  }

  /// Whether later passes read all of a tensor, as it is or in parts. It is kept as a whole then,
  /// without copies.
  bool isPartOfKept(Operation *op) const {
    if (!isa<SliceOp>(op))
      return false;
    if (isReadLater(op->getOperand(0)))
      return true;
    int64_t parts = 0;
    DenseSet<Attribute> places;
    for (Operation *user : op->getOperand(0).getUsers())
      if (isa<SliceOp>(user) && isReadLater(user->getResult(0)) &&
          places.insert(user->getPropertiesAsAttribute()).second)
        parts += bitsOf(user->getResult(0));
    return parts >= bitsOf(op->getOperand(0));
  }

  /// Notes what `pass` needs from outside: arguments, and what earlier passes have to keep.
  void need(Pass pass, Value value) {
    if (passOf(value) == pass && !isa<BlockArgument>(value))
      return;
    if (Operation *op = value.getDefiningOp(); op && needs.remade[pass].contains(op))
      return;
    const bool mustKeep = showsReplaced(value);
    if (Operation *op = value.getDefiningOp();
        op && !mustKeep && (isRemade(op) || isPartOfKept(op))) {
      if (needs.remade[pass].insert(op))
        for (Value operand : op->getOperands())
          need(pass, operand);
      return;
    }
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if ((isLasting(argument) && !mustKeep) || passOf(argument) == pass) {
        needs.arguments[pass].insert(argument);
        return;
      }
      needs.arguments[passOf(argument)].insert(argument);
    }
    needs.taken[pass].insert(value);
    if (!handedOver.contains(value) && needs.kept[passOf(value)].insert(value))
      needs.keptNames.try_emplace(value, "kept " + std::to_string(needs.keptNames.size()) +
                                             " of chunk " + std::to_string(chunk));
  }

  /// All passes find it where it lies. Of messages, those that the stage before left in the slots
  /// of this rank: both stages have the same slot for a microbatch (Schedule.h).
  bool isLasting(BlockArgument argument) {
    return !joint.getArgAttr(argument.getArgNumber(), GraphDialect::kRuns) ||
           getArgRole(joint, argument.getArgNumber()).getKind() == RoleKind::Kept;
  }

  void findKept(Pass pass) {
    for (Operation &op : joint.front().without_terminator())
      if (passes.lookup(&op) == pass)
        for (Value operand : op.getOperands())
          need(pass, operand);
    for (unsigned i : results[pass])
      need(pass, terminator()->getOperand(i));
  }

  /// Of how many ops' arithmetic a value may be made again, and how large what is kept for it.
  struct Means {
    int links;
    int64_t bits;
    Means next() const { return {links - 1, bits}; }
  };
  static Means meansFor(Value value) {
    return {sharding::kMostRemadeLinks, bitsOf(value) / sharding::kNegligibleBeside};
  }

  void findRemade(Pass pass, llvm::iterator_range<Block::iterator> among) {
    for (Operation &op : among)
      if (passes.lookup(&op) < pass && isRemadeFrom(pass, &op))
        remake(pass, &op, meansFor(op.getResult(0)));
  }
  void findRemade(Pass pass) { findRemade(pass, joint.front().without_terminator()); }

  /// With what it is made of, as far as that isn't there.
  void remake(Pass pass, Operation *op, Means means) {
    needs.taken[pass].remove(op->getResult(0));
    if (!needs.remade[pass].insert(op))
      return;
    for (Value operand : op->getOperands())
      if (isMade(pass, operand, means.next()))
        remake(pass, operand.getDefiningOp(), means.next());
      else
        need(pass, operand);
  }

  /// Whether it is there, or has a place all step, as parameters do.
  bool isAtHand(Pass pass, Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return isThere(pass, value) ||
           (argument && isLasting(argument) && !constants.isReplaced(argument));
  }

  static bool isArithmetic(Operation *op) {
    return isElementwise(op) || isa<ActivationOp, ActivationGradOp>(op);
  }

  /// Whether it lies in the slot for a pass anyway.
  bool isInSlot(Pass pass, Value value) const {
    return passOf(value) < pass &&
           llvm::any_of(needs.taken, [&](const auto &ofPass) { return ofPass.contains(value); });
  }

  /// Whether nothing more has to be kept for a pass to make the value.
  bool isThere(Pass pass, Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return needs.arguments[pass].contains(argument) || needs.taken[pass].contains(value);
    Operation *op = value.getDefiningOp();
    return isInSlot(pass, value) || needs.remade[pass].contains(op) ||
           (isRemade(op) && !showsReplaced(value) &&
            llvm::all_of(op->getOperands(), [&](Value operand) { return isThere(pass, operand); }));
  }

  /// True where kernels alone read the value in a pass: they compute it where they read it.
  bool isFused(Pass pass, Value value) {
    return llvm::all_of(value.getUsers(), [&](Operation *user) {
      if (user == joint.front().getTerminator())
        return false;
      if (passes.lookup(user) != pass && !needs.remade[pass].contains(user))
        return true;
      return isa<ReshapeOp, BroadcastOp>(user)
                 ? isFused(pass, user->getResult(0))
                 : isArithmetic(user) || isa<SumOp, ReduceOp, MaxPoolGradOp>(user);
    });
  }

  /// Arithmetic on what the pass has anyway, for arithmetic, isn't kept: of silu(g) and g, g is.
  /// So is a few ops' arithmetic: of x - mean and (x - mean) * scale + shift, x - mean is kept.
  /// Where the pass doesn't have the shift, as ZeRO-3 gathers it for the forward pass alone, that
  /// is kept, too: it is small.
  bool isRemadeFrom(Pass pass, Operation *op) {
    return needs.taken[pass].contains(op->getResult(0)) && isFused(pass, op->getResult(0)) &&
           isArithmetic(op) && isMadeOf(pass, op, meansFor(op->getResult(0)));
  }

  bool isMadeOf(Pass pass, Operation *op, Means means) {
    return op->getNumResults() == 1 && isPure(op) &&
           llvm::all_of(op->getOperands(), [&](Value operand) {
             return !constants.isReplaced(operand) &&
                    (isAtHand(pass, operand) || isMade(pass, operand, means.next()) ||
                     bitsOf(operand) <= means.bits);
           });
  }

  /// Whether a kernel may make an op's result where it reads it.
  bool isLink(Operation *op) {
    return op && !showsReplaced(op->getResult(0)) &&
           (isElementwise(op) || isa<SliceOp>(op) || isRemade(op));
  }

  /// Whether a value that isn't there is made again.
  bool isMade(Pass pass, Value value, Means means) {
    Operation *producer = value.getDefiningOp();
    return isLink(producer) && means.links > 0 && !isAtHand(pass, value) &&
           isMadeOf(pass, producer, means);
  }

  int64_t bitsOfSlot() const {
    DenseSet<Value> known;
    int64_t bits = 0;
    for (const llvm::SetVector<Value> &values : needs.taken)
      for (Value value : values)
        if (!handedOver.contains(value) && known.insert(value).second)
          bits += bitsOf(value);
    return bits;
  }

  /// What isn't there, and from which a kernel may make an op's result.
  void addSources(Pass pass, Operation *op, int links, llvm::SetVector<Value> &to) {
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (isAtHand(pass, operand) || constants.contains(operand))
        continue;
      to.insert(operand);
      if (isLink(producer) && links > 1)
        addSources(pass, producer, links - 1, to);
    }
  }

  /// Several values may be made of one that takes less than they do. It is kept instead of them: of
  /// both halves of a gate, as they are and limited to a range, that is the gate.
  void keepSources(Pass pass) {
    llvm::MapVector<Value, SmallVector<Operation *>> sources; // with what is made of them
    for (Value value : needs.taken[pass]) {
      Operation *op = value.getDefiningOp();
      if (!op || !isArithmetic(op) || !isFused(pass, value))
        continue;
      llvm::SetVector<Value> of;
      addSources(pass, op, sharding::kMostRemadeLinks, of);
      for (Value source : of)
        sources[source].push_back(op);
    }
    for (const auto &[source, made] : sources)
      keepInstead(pass, source, made);
    findRemade(pass);
  }

  /// Keeps a source instead of what is made of it, where slots are smaller so. What lies between
  /// them may be made again, too.
  void keepInstead(Pass pass, Value source, ArrayRef<Operation *> made) {
    auto bits = [](Operation *op) { return bitsOf(op->getResult(0)); };
    if (made.size() < 2 || llvm::sum_of(llvm::map_range(made, bits)) <= bitsOf(source))
      return;
    Needs before = needs;
    const int64_t held = bitsOfSlot();
    need(pass, source);
    auto isBefore = [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); };
    const Block::iterator last(*llvm::max_element(made, isBefore));
    Operation *first = source.getDefiningOp();
    findRemade(pass, {first ? Block::iterator(first) : joint.front().begin(), std::next(last)});
    if (bitsOfSlot() >= held)
      needs = std::move(before);
  }

  void dropUntaken() {
    for (llvm::SetVector<Value> &values : needs.kept)
      values.remove_if([&](Value value) {
        return llvm::none_of(needs.taken, [&](auto &ofPass) { return ofPass.contains(value); });
      });
  }

  DictionaryAttr keptAttributes(Value value) {
    Builder builder(joint.getContext());
    auto role = RoleAttr::get(joint.getContext(), RoleKind::Kept, needs.keptNames.at(value),
                              std::nullopt, std::nullopt);
    return builder.getDictionaryAttr(builder.getNamedAttr(GraphDialect::kRole, role));
  }

  static DictionaryAttr withoutRuns(DictionaryAttr attributes) {
    NamedAttrList list(attributes);
    list.erase(GraphDialect::kRuns);
    return list.getDictionary(attributes.getContext());
  }

  void build(Pass pass, StringRef name, Passes runs) {
    Signature signature;
    SmallVector<Value> given;
    for (BlockArgument argument : joint.getArguments())
      if (needs.arguments[pass].contains(argument)) {
        given.push_back(argument);
        signature.add(argument.getType(),
                      withoutRuns(argumentAttributes(joint, argument.getArgNumber())));
      }
    for (Value value : needs.taken[pass]) {
      given.push_back(value);
      signature.add(value.getType(), keptAttributes(value));
    }
    std::string suffix = chunk == 0 ? "" : "_" + std::to_string(chunk);
    func::FuncOp function = createFunction(joint->getParentOfType<ModuleOp>(),
                                           (name + suffix).str(), joint.getLoc(), signature);
    function->moveBefore(joint);
    function->setAttr(dist::DistDialect::kLocal, UnitAttr::get(joint.getContext()));
    setRuns(function, Cadence::Microbatch, runs, chunk);
    fill(pass, function, given);
  }

  void fill(Pass pass, func::FuncOp function, ArrayRef<Value> given) {
    IRMapping mapping;
    mapping.map(given, function.getArguments());
    OpBuilder builder = OpBuilder::atBlockEnd(&function.front());
    for (Operation &op : joint.front().without_terminator())
      if (passes.lookup(&op) == pass || needs.remade[pass].contains(&op))
        builder.clone(op, mapping);
    SmallVector<Value> values;
    SmallVector<DictionaryAttr> attributes;
    for (unsigned i : results[pass]) {
      values.push_back(mapping.lookup(terminator()->getOperand(i)));
      attributes.push_back(withoutRuns(resultAttributes(joint, i)));
    }
    for (Value value : needs.kept[pass]) {
      values.push_back(mapping.lookup(value));
      attributes.push_back(keptAttributes(value));
    }
    finishFunction(function, values, attributes);
    eraseUnread(function.front());
  }

  func::FuncOp joint;
  bool splitBackward;
  int64_t chunk;
  DenseMap<Operation *, Pass> passes;
  SmallVector<unsigned> results[kPasses];
  /// What passes need of each other, as far as it is known.
  struct Needs {
    llvm::SetVector<Value> arguments[kPasses], taken[kPasses], kept[kPasses];
    llvm::SetVector<Operation *> remade[kPasses];
    DenseMap<Value, std::string> keptNames;
  } needs;
  StageConstants constants;
  DenseSet<Value> handedOver; ///< results of a pass that later ones read in the slot, too
};

} // namespace

LogicalResult splitPasses(ModuleOp rank, bool splitBackward) {
  for (auto function : llvm::to_vector(rank.getOps<func::FuncOp>())) {
    RunsAttr runs = getRuns(function);
    bool isStage = runs && (runs.getPasses() & Passes::Forward) != Passes::None &&
                   (runs.getPasses() & Passes::Backward) != Passes::None;
    if (isStage && failed(PassSplitter(function, splitBackward).run()))
      return failure();
  }
  return success();
}

} // namespace dtc::stages
