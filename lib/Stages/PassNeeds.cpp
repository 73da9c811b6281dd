#include "PassNeeds.h"

#include "StageConstants.h"

#include "dtc/Sharding/RemadeValues.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/BitmaskEnum.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::stages {
namespace {

LLVM_ENABLE_BITMASK_ENUMS_IN_NAMESPACE();

/// What an op's result is to a later pass that reads it.
enum class Way : uint8_t {
  None = 0,           ///< a tensor like any other: it is kept
  Shows = 1 << 0,     ///< has the elements of the operand, which may be a buffer that is replaced
  Repeats = 1 << 1,   ///< has each of them, maybe often or in another type
  PassesOn = 1 << 2,  ///< is read where its reader reads the operand
  Remade = 1 << 3,    ///< made again by each pass: that is cheaper than a place in slots
  Computes = 1 << 4,  ///< arithmetic, which a kernel may compute where it reads the result
  Continues = 1 << 5, ///< may lie between what a kernel has and what it computes so
  Fuses = 1 << 6,     ///< a kernel that computes its operand where it reads it
  LLVM_MARK_AS_BITMASK_ENUM(Fuses)
};

/// Rows of experts of this rank stay where they are, so that moving them is made again, and so is
/// what is behind a barrier.
Way waysOf(Operation *op) {
  const Way arithmetic = Way::Computes | Way::Fuses;
  return llvm::TypeSwitch<Operation *, Way>(op)
      .Case<BroadcastOp, ReshapeOp>(
          [](auto) { return Way::Shows | Way::Repeats | Way::PassesOn | Way::Remade; })
      .Case<BarrierOp>([](auto) { return Way::Shows | Way::Remade; })
      .Case<SliceOp>([](auto) { return Way::Shows | Way::Continues; })
      .Case<DispatchOp, CombineOp>([](auto) { return Way::Remade; })
      .Case<arith::ExtFOp, arith::TruncFOp>(
          [=](auto) { return Way::Shows | Way::Repeats | Way::Continues | arithmetic; })
      .Case<ActivationOp, ActivationGradOp>([=](auto) { return arithmetic; })
      .Case<SumOp, ReduceOp, MaxPoolGradOp>([](auto) { return Way::Fuses; })
      .Default([=](Operation *other) {
        return isElementwise(other) ? Way::Continues | arithmetic : Way::None;
      });
}

bool is(Operation *op, Way way) { return op && (waysOf(op) & way) != Way::None; }

/// As memory holds them: a truth value has a byte.
int64_t bitsOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() * std::max(8u, type.getElementTypeBitWidth());
}

class NeedsFinder {
public:
  NeedsFinder(func::FuncOp joint, const PassesOfOps &passes)
      : joint(joint), passes(passes), chunk(getRuns(joint).getChunk()), constants(joint) {
    needs.keptNames = passes.handedOver();
  }

  PassNeeds run() {
    for (StagePass pass : {kForwardPass, kInputGradPass, kWeightGradPass})
      findKept(pass);
    for (StagePass pass : {kInputGradPass, kWeightGradPass})
      findRemade(pass);
    for (StagePass pass : {kInputGradPass, kWeightGradPass})
      keepSources(pass);
    dropUntaken();
    return std::move(needs);
  }

private:
  /// Whether it shows a buffer that the step replaces: a later pass finds another value there.
  bool showsReplaced(Value value) {
    while (is(value.getDefiningOp(), Way::Shows))
      value = value.getDefiningOp()->getOperand(0);
    return constants.isReplaced(value);
  }

  /// Cheaper to make again than to keep, as is a smaller tensor in other types.
  bool isRemade(Operation *op) {
    if (is(op, Way::Remade) || constants.contains(op))
      return true;
    Value of = op->getNumResults() == 1 ? op->getResult(0) : Value();
    while (of && is(of.getDefiningOp(), Way::Repeats))
      of = of.getDefiningOp()->getOperand(0);
    return of && of.getDefiningOp() != op && bitsOf(of) < bitsOf(op->getResult(0));
  }

  /// Whether a later pass than its own reads a value, maybe reshaped or repeated.
  bool isReadLater(Value value) const {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      return passes.passOf(user) > passes.passOf(value) ||
             (is(user, Way::PassesOn) && isReadLater(user->getResult(0)));
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
  void need(StagePass pass, Value value) {
    if (passes.passOf(value) == pass && !isa<BlockArgument>(value))
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
      if ((isLasting(argument) && !mustKeep) || passes.passOf(argument) == pass) {
        needs.arguments[pass].insert(argument);
        return;
      }
      needs.arguments[passes.passOf(argument)].insert(argument);
    }
    needs.taken[pass].insert(value);
    if (!passes.handedOver().contains(value) && needs.kept[passes.passOf(value)].insert(value))
      needs.keptNames.try_emplace(value, "kept " + std::to_string(needs.keptNames.size()) +
                                             " of chunk " + std::to_string(chunk));
  }

  /// All passes find it where it lies. Of messages, those that the stage before left in the slots
  /// of this rank: both stages have the same slot for a microbatch (Schedule.h).
  bool isLasting(BlockArgument argument) {
    return !joint.getArgAttr(argument.getArgNumber(), GraphDialect::kRuns) ||
           getArgRole(joint, argument.getArgNumber()).getKind() == RoleKind::Kept;
  }

  void findKept(StagePass pass) {
    for (Operation &op : joint.front().without_terminator())
      if (passes.passOf(&op) == pass)
        for (Value operand : op.getOperands())
          need(pass, operand);
    for (unsigned i : passes.resultsOf(pass))
      need(pass, joint.front().getTerminator()->getOperand(i));
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

  void findRemade(StagePass pass, llvm::iterator_range<Block::iterator> among) {
    for (Operation &op : among)
      if (passes.passOf(&op) < pass && isRemadeFrom(pass, &op))
        remake(pass, &op, meansFor(op.getResult(0)));
  }
  void findRemade(StagePass pass) { findRemade(pass, joint.front().without_terminator()); }

  /// With what it is made of, as far as that isn't there.
  void remake(StagePass pass, Operation *op, Means means) {
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
  bool isAtHand(StagePass pass, Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return isThere(pass, value) ||
           (argument && isLasting(argument) && !constants.isReplaced(argument));
  }

  /// Whether it lies in the slot for a pass anyway.
  bool isInSlot(StagePass pass, Value value) const {
    return passes.passOf(value) < pass &&
           llvm::any_of(needs.taken, [&](const auto &ofPass) { return ofPass.contains(value); });
  }

  /// Whether nothing more has to be kept for a pass to make the value.
  bool isThere(StagePass pass, Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return needs.arguments[pass].contains(argument) || needs.taken[pass].contains(value);
    Operation *op = value.getDefiningOp();
    return isInSlot(pass, value) || needs.remade[pass].contains(op) ||
           (isRemade(op) && !showsReplaced(value) &&
            llvm::all_of(op->getOperands(), [&](Value operand) { return isThere(pass, operand); }));
  }

  /// True where kernels alone read the value in a pass: they compute it where they read it.
  bool isFused(StagePass pass, Value value) {
    return llvm::all_of(value.getUsers(), [&](Operation *user) {
      if (user == joint.front().getTerminator())
        return false;
      if (passes.passOf(user) != pass && !needs.remade[pass].contains(user))
        return true;
      return is(user, Way::PassesOn) ? isFused(pass, user->getResult(0)) : is(user, Way::Fuses);
    });
  }

  /// Arithmetic on what the pass has anyway, for arithmetic, isn't kept: of silu(g) and g, g is.
  /// So is a few ops' arithmetic: of x - mean and (x - mean) * scale + shift, x - mean is kept.
  /// Where the pass doesn't have the shift, as ZeRO-3 gathers it for the forward pass alone, that
  /// is kept, too: it is small.
  bool isRemadeFrom(StagePass pass, Operation *op) {
    return needs.taken[pass].contains(op->getResult(0)) && isFused(pass, op->getResult(0)) &&
           is(op, Way::Computes) && isMadeOf(pass, op, meansFor(op->getResult(0)));
  }

  bool isMadeOf(StagePass pass, Operation *op, Means means) {
    return op->getNumResults() == 1 && isPure(op) &&
           llvm::all_of(op->getOperands(), [&](Value operand) {
             return !constants.isReplaced(operand) &&
                    (isAtHand(pass, operand) || isMade(pass, operand, means.next()) ||
                     bitsOf(operand) <= means.bits);
           });
  }

  /// Whether a kernel may make an op's result where it reads it.
  bool isLink(Operation *op) {
    return op && !showsReplaced(op->getResult(0)) && (is(op, Way::Continues) || isRemade(op));
  }

  /// Whether a value that isn't there is made again.
  bool isMade(StagePass pass, Value value, Means means) {
    Operation *producer = value.getDefiningOp();
    return isLink(producer) && means.links > 0 && !isAtHand(pass, value) &&
           isMadeOf(pass, producer, means);
  }

  int64_t bitsOfSlot() const {
    DenseSet<Value> known;
    int64_t bits = 0;
    for (const llvm::SetVector<Value> &values : needs.taken)
      for (Value value : values)
        if (!passes.handedOver().contains(value) && known.insert(value).second)
          bits += bitsOf(value);
    return bits;
  }

  /// What isn't there, and from which a kernel may make an op's result.
  void addSources(StagePass pass, Operation *op, int links, llvm::SetVector<Value> &to) {
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
  void keepSources(StagePass pass) {
    llvm::MapVector<Value, SmallVector<Operation *>> sources; // with what is made of them
    for (Value value : needs.taken[pass]) {
      Operation *op = value.getDefiningOp();
      if (!is(op, Way::Computes) || !isFused(pass, value))
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
  void keepInstead(StagePass pass, Value source, ArrayRef<Operation *> made) {
    auto bits = [](Operation *op) { return bitsOf(op->getResult(0)); };
    if (made.size() < 2 || llvm::sum_of(llvm::map_range(made, bits)) <= bitsOf(source))
      return;
    PassNeeds before = needs;
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

  func::FuncOp joint;
  const PassesOfOps &passes;
  int64_t chunk;
  StageConstants constants;
  PassNeeds needs; ///< as far as they are known
};

} // namespace

PassNeeds findNeeds(func::FuncOp joint, const PassesOfOps &passes) {
  return NeedsFinder(joint, passes).run();
}

} // namespace dtc::stages
