#include "StageFunction.h"

#include "MeshTransfer.h"

#include "dtc/Dialect/Dist/StageOps.h"
#include "dtc/Dialect/Graph/StepFunctions.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::stages {

void Signature::add(Type type, DictionaryAttr attribute) {
  types.push_back(type);
  attributes.push_back(attribute);
}

static DictionaryAttr orEmpty(DictionaryAttr attributes, MLIRContext *context) {
  return attributes ? attributes : DictionaryAttr::get(context);
}

DictionaryAttr argumentAttributes(func::FuncOp function, unsigned index) {
  return orEmpty(function.getArgAttrDict(index), function.getContext());
}

DictionaryAttr resultAttributes(func::FuncOp function, unsigned index) {
  return orEmpty(function.getResultAttrDict(index), function.getContext());
}

DictionaryAttr withRole(DictionaryAttr attributes, RoleAttr role) {
  NamedAttrList list(attributes);
  list.set(GraphDialect::kRole, role);
  return list.getDictionary(role.getContext());
}

func::FuncOp createFunction(ModuleOp module, StringRef name, Location location,
                            const Signature &arguments) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto function =
      func::FuncOp::create(builder, location, name, builder.getFunctionType(arguments.types, {}));
  function.setAllArgAttrs(arguments.attributes);
  function.addEntryBlock();
  return function;
}

void finishFunction(func::FuncOp function, ValueRange values, ArrayRef<DictionaryAttr> attributes) {
  OpBuilder builder = OpBuilder::atBlockEnd(&function.front());
  func::ReturnOp::create(builder, function.getLoc(), values);
  function.setType(
      builder.getFunctionType(function.getArgumentTypes(), llvm::to_vector(values.getTypes())));
  function.setAllResultAttrs(attributes);
}

namespace {

class StageBuilder {
public:
  StageBuilder(const StepOnMeshes &whole, int stage, ModuleOp rank)
      : whole(whole), step(whole.ofStage(stage)), stage(stage), rank(rank),
        context(rank.getContext()), ops(step.opsOf(stage)) {}

  LogicalResult build() {
    addArguments();
    if (failed(addInboxes()))
      return failure();
    int chunk = step.chunkOf(stage);
    std::string name = step.trains() ? "stage" : kForward.str();
    if (chunk > 0)
      name += "_" + std::to_string(chunk);
    func::FuncOp function = createFunction(rank, name, step.getJoint().getLoc(), signature);
    setRuns(function, Cadence::Microbatch,
            step.trains() ? Passes::Forward | Passes::Backward : Passes::Forward, chunk);
    mapping.map(arguments, function.getArguments());
    OpBuilder builder = OpBuilder::atBlockEnd(&function.front());
    for (Operation *op : ops)
      builder.clone(*op, mapping)->removeAttr(dist::DistDialect::kStage);
    addSums(builder);
    if (failed(addOutboxes()))
      return failure();
    finishFunction(function, results, resultAttrs);
    return success();
  }

private:
  /// The sum to which this stage adds its terms in an argument; null: none.
  const ReturnedSum *addedUpIn(BlockArgument argument) const {
    auto sum = llvm::find_if(step.getReturned(), [&](const ReturnedSum &sum) {
      return sum.accumulator == argument && llvm::is_contained(sum.stages, stage);
    });
    return sum == step.getReturned().end() ? nullptr : &*sum;
  }

  /// What is said of a sum, with the role of this stage's terms.
  DictionaryAttr termAttributes(DictionaryAttr attributes, const ReturnedSum &sum) const {
    return withRole(attributes, step.termRole(sum.role, sum.stages, stage));
  }

  /// What is returned as it came is an output of the first stage.
  bool isOutput(BlockArgument argument) const {
    return stage == 0 && !step.trains() &&
           llvm::is_contained(step.getJoint().front().getTerminator()->getOperands(), argument);
  }

  /// Arguments in their order. What nobody reads is held by the first stage.
  void addArguments() {
    DenseSet<Value> read;
    for (Operation *op : ops)
      read.insert_range(op->getOperands());
    for (BlockArgument argument : step.getJoint().getArguments()) {
      bool isUnread = stage == 0 && argument.use_empty();
      DictionaryAttr own = argumentAttributes(step.getJoint(), argument.getArgNumber());
      if (const ReturnedSum *sum = addedUpIn(argument))
        add(argument, termAttributes(own, *sum));
      else if (read.contains(argument) || isUnread || isOutput(argument))
        add(argument, own);
    }
  }

  void add(Value value, DictionaryAttr attributes) {
    arguments.push_back(value);
    signature.add(value.getType(), attributes);
  }

  /// The n-th value of the message to stage `to`. Both ends have it under the same name. Between
  /// stages of one rank it is kept: nothing is sent.
  FailureOr<DictionaryAttr> messageAttributes(RoleKind end, int to, size_t n, Passes pass,
                                              Value value) {
    const int from = pass == Passes::Forward ? to - 1 : to + 1;
    const RoleKind kind = step.rankOf(from) == step.rankOf(to) ? RoleKind::Kept : end;
    FailureOr<dist::ShardingAttr> sharding = step.crossingSharding(value);
    if (failed(sharding))
      return failure();
    // Each stage gets two messages: of activations and of gradients.
    StringRef what = pass == Passes::Forward ? "activation " : "gradient ";
    std::string name = (what + std::to_string(n) + " to stage " + std::to_string(to)).str();
    Builder builder(context);
    NamedAttrList attributes;
    attributes.append(GraphDialect::kRole,
                      RoleAttr::get(context, kind, name, std::nullopt, std::nullopt));
    if (step.trains()) // the function will be split into passes
      attributes.append(GraphDialect::kRuns, RunsAttr::get(context, Cadence::Microbatch, pass, 0));
    attributes.append(dist::DistDialect::kSharding, *sharding);
    if (whole.meshOfStage[from] != whole.meshOfStage[to] &&
        failed(addTransfer(from, to, n, end, attributes)))
      return failure();
    return attributes.getDictionary(context);
  }

  /// The n-th value of a message, as the step of a stage's mesh has it.
  static Value valueOf(const StepGraph &other, int from, int to, size_t n) {
    return (from < to ? other.activationsTo(to) : other.gradientsTo(to))[n];
  }

  /// What of the value this end sends or receives, and who is on the other one.
  LogicalResult addTransfer(int from, int to, size_t n, RoleKind end, NamedAttrList &attributes) {
    const StepGraph &sender = whole.ofStage(from), &receiver = whole.ofStage(to);
    Value sent = valueOf(sender, from, to, n);
    auto left = sender.shardingOf(sent);
    auto wanted = receiver.shardingOf(valueOf(receiver, from, to, n));
    if (failed(left) || failed(wanted))
      return failure();
    std::optional<MeshTransfer> transfer =
        transferBetween(shapeOf(sent), {*left, sender.getShape(), sender.devicesOf(from)},
                        {*wanted, receiver.getShape(), receiver.devicesOf(to)});
    if (!transfer)
      return sent.getDefiningOp()->emitOpError("can't be sent from the mesh of stage ")
             << from << " to that of stage " << to
             << ": what ranks have of it overlaps in more than " << kMostPieces << " pieces";
    Builder builder(context);
    const bool sends = end == RoleKind::Outbox;
    auto role = cast<RoleAttr>(attributes.get(GraphDialect::kRole));
    attributes.append(dist::crossing::kMessage, builder.getStringAttr(role.getName()));
    attributes.append(dist::crossing::kPieces,
                      builder.getDenseI64ArrayAttr(sends ? transfer->sent : transfer->received));
    SmallVector<Attribute> begins, lists;
    for (const auto &list : sends ? transfer->sentBegins : transfer->receivedBegins)
      begins.push_back(builder.getDenseI64ArrayAttr(list));
    attributes.append(dist::crossing::kBegins, builder.getArrayAttr(begins));
    for (const auto &list : sends ? transfer->receivers : transfer->senders)
      lists.push_back(builder.getDenseI32ArrayAttr(list));
    attributes.append(sends ? dist::crossing::kReceivers : dist::crossing::kSenders,
                      builder.getArrayAttr(lists));
    return success();
  }

  LogicalResult addInboxes() {
    for (auto [pass, values] : {std::pair(Passes::Forward, step.activationsTo(stage)),
                                {Passes::InputGrad, step.gradientsTo(stage)}})
      for (auto [n, value] : llvm::enumerate(values)) {
        auto attributes = messageAttributes(RoleKind::Inbox, stage, n, pass, value);
        if (failed(attributes))
          return failure();
        add(value, *attributes);
      }
    return success();
  }

  LogicalResult addOutboxes() {
    auto addTo = [&](Passes pass, int to, ArrayRef<Value> values) -> LogicalResult {
      for (auto [n, value] : llvm::enumerate(values)) {
        auto attributes = messageAttributes(RoleKind::Outbox, to, n, pass, value);
        if (failed(attributes))
          return failure();
        results.push_back(mapping.lookup(value));
        resultAttrs.push_back(*attributes);
      }
      return success();
    };
    if (stage + 1 < step.numStages() &&
        failed(addTo(Passes::Forward, stage + 1, step.activationsTo(stage + 1))))
      return failure();
    return stage == 0 ? success()
                      : addTo(Passes::InputGrad, stage - 1, step.gradientsTo(stage - 1));
  }

  /// The loss, gradients and outputs. Of a tied weight's, the terms of this stage.
  void addSums(OpBuilder &builder) {
    for (const ReturnedSum &sum : step.getReturned()) {
      if (!llvm::is_contained(sum.stages, stage))
        continue;
      Value whole = step.getJoint().front().getTerminator()->getOperand(sum.index);
      results.push_back(sum.isTied() ? ownSum(builder, sum) : mapping.lookup(whole));
      resultAttrs.push_back(termAttributes(resultAttributes(step.getJoint(), sum.index), sum));
    }
  }

  Value ownSum(OpBuilder &builder, const ReturnedSum &sum) {
    SmallVector<Value> terms;
    for (Value term : sum.terms)
      if (llvm::is_contained(ops, term.getDefiningOp()))
        terms.push_back(mapping.lookup(term));
    Value total = terms.size() == 1 ? terms.front() : sumOf(builder, sum, terms);
    if (!sum.accumulator)
      return total;
    return sumOf(builder, sum, {mapping.lookup(Value(sum.accumulator)), total});
  }

  static Value sumOf(OpBuilder &builder, const ReturnedSum &like, ArrayRef<Value> terms) {
    Operation *model = like.sums.back();
    auto sum = SumOp::create(builder, model->getLoc(), terms.front().getType(), terms);
    sum->setDiscardableAttrs(model->getDiscardableAttrDictionary());
    sum->removeAttr(dist::DistDialect::kStage);
    moveBehindTerms(sum);
    return sum;
  }

  /// The terms are spent there, where the sum of all stages' may come much later.
  static void moveBehindTerms(SumOp sum) {
    Operation *last = nullptr;
    for (Value term : sum.getInputs())
      if (Operation *made = term.getDefiningOp(); made && (!last || last->isBeforeInBlock(made)))
        last = made;
    if (last)
      sum->moveAfter(last);
  }

  const StepOnMeshes &whole;
  const StepGraph &step; ///< as the stage's mesh has it
  int stage;
  ModuleOp rank;
  MLIRContext *context;
  SmallVector<Operation *> ops;
  Signature signature;
  SmallVector<Value> arguments; ///< values of the step that are arguments here
  IRMapping mapping;
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> resultAttrs;
};

} // namespace

LogicalResult buildStage(const StepOnMeshes &whole, int stage, ModuleOp rank) {
  return StageBuilder(whole, stage, rank).build();
}

} // namespace dtc::stages
