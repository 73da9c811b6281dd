#include "MessageFunctions.h"

#include "dtc/Dialect/Dist/StageOps.h"

using namespace mlir;

namespace dtc::lower {

using graph::Passes;
using graph::RoleKind;

static bool covers(Passes all, Passes some) { return (all & some) == some; }

MessageFunctions::MessageFunctions(ModuleOp module, const schedule::Schedule &schedule,
                                   ArrayRef<func::FuncOp> functions)
    : module(module), schedule(schedule), functions(functions) {
  for (auto mesh : module.getOps<dist::MeshOp>())
    devices = mesh->getAttrOfType<ArrayAttr>(dist::DistDialect::kDevices);
}

LogicalResult MessageFunctions::prepare() {
  bool hasMessages = false;
  for (func::FuncOp function : functions) {
    for (BlockArgument argument : function.getArguments()) {
      graph::RoleAttr role = graph::getArgRole(function, argument.getArgNumber());
      if (!role || role.getKind() != RoleKind::Inbox)
        continue;
      hasMessages = true;
      if (argument.use_empty())
        continue;
      OpBuilder builder = OpBuilder::atBlockBegin(&function.front());
      auto wait = exec::WaitOp::create(builder, argument.getLoc(), argument.getType(), argument);
      argument.replaceAllUsesExcept(wait, wait);
    }
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      graph::RoleAttr role = graph::getResultRole(function, i);
      hasMessages |= role && role.getKind() == RoleKind::Outbox;
    }
  }
  if (!hasMessages)
    return success();
  if (!devices || static_cast<int64_t>(devices.size()) != schedule.shape.stages())
    return module.emitError("sends messages, but its mesh doesn't say where the ")
           << schedule.shape.stages() << " stages of the schedule lie (dist.devices)";
  return success();
}

MessageFunctions::Ends MessageFunctions::endsOf(int64_t chunk, bool isForward, bool sends) {
  Ends ends;
  for (func::FuncOp function : functions) {
    graph::RunsAttr runs = graph::getRuns(function);
    // What makes both passes receives in the first and sends in the second.
    Passes pass = isForward ? Passes::Forward : Passes::InputGrad;
    if (runs.getChunk() != chunk || !covers(runs.getPasses(), pass))
      continue;
    ArrayRef<Type> types = sends ? function.getResultTypes() : function.getArgumentTypes();
    for (auto [i, type] : llvm::enumerate(types)) {
      graph::RoleAttr role =
          sends ? graph::getResultRole(function, i) : graph::getArgRole(function, i);
      if (!role || role.getKind() != (sends ? RoleKind::Outbox : RoleKind::Inbox))
        continue;
      ends.attributes.push_back(sends ? function.getResultAttrDict(i) : function.getArgAttrDict(i));
      ends.types.push_back(type);
    }
  }
  return ends;
}

SmallVector<int32_t> MessageFunctions::ranksOf(int64_t stage) const {
  return llvm::map_to_vector(cast<DenseI64ArrayAttr>(devices[stage]).asArrayRef(),
                             [](int64_t rank) { return static_cast<int32_t>(rank); });
}

SmallVector<ArrayRef<int32_t>> MessageFunctions::peersOf(DictionaryAttr attributes) {
  SmallVector<ArrayRef<int32_t>> lists;
  for (StringRef name : {dist::crossing::kReceivers, dist::crossing::kSenders})
    if (auto named = attributes.getAs<ArrayAttr>(name))
      for (auto list : named.getAsRange<DenseI32ArrayAttr>())
        lists.push_back(list.asArrayRef());
  return lists;
}

/// Sends or receives values in one go.
static Operation *createEnd(OpBuilder &builder, Location loc, ValueRange sent, TypeRange received,
                            ArrayRef<int32_t> peers) {
  const bool sends = !sent.empty();
  Operation *op;
  if (sends)
    op = exec::SendOp::create(builder, loc, sent, peers, /*channel=*/0);
  else
    op = exec::ReceiveOp::create(builder, loc, received, peers, /*channel=*/0);
  op->setAttr(exec::ExecDialect::kQueue,
              exec::QueueKindAttr::get(builder.getContext(),
                                       sends ? exec::QueueKind::Send : exec::QueueKind::Receive));
  return op;
}

func::FuncOp MessageFunctions::functionOf(const schedule::Message &message, bool sends) {
  int64_t stage = sends ? message.fromStage : message.toStage;
  auto [entry, isNew] = known.try_emplace({stage, message.isForward(), sends});
  if (isNew)
    entry->second = build(message, sends);
  return entry->second;
}

func::FuncOp MessageFunctions::build(const schedule::Message &message, bool sends) {
  int64_t stage = sends ? message.fromStage : message.toStage;
  int64_t chunk = schedule.placement.place(stage).chunk;
  Ends ends = endsOf(chunk, message.isForward(), sends);
  if (ends.types.empty())
    return nullptr;
  std::string name = std::string(sends ? "send_" : "receive_") +
                     (message.isForward() ? "activations" : "gradients") +
                     (chunk == 0 ? "" : "_" + std::to_string(chunk));
  func::FuncOp first = functions.front();
  OpBuilder builder(first);
  Location loc = first.getLoc();
  TypeRange none, types(ends.types);
  auto function = func::FuncOp::create(
      builder, loc, name, builder.getFunctionType(sends ? types : none, sends ? none : types));
  if (first->hasAttr(dist::DistDialect::kLocal))
    function->setAttr(dist::DistDialect::kLocal, builder.getUnitAttr());
  graph::setRuns(function, graph::Cadence::Microbatch,
                 message.isForward() ? Passes::Forward : Passes::InputGrad, chunk);
  builder.setInsertionPointToStart(function.addEntryBlock());
  if (sends)
    function.setAllArgAttrs(ends.attributes);
  else
    function.setAllResultAttrs(ends.attributes);
  SmallVector<Value> received;
  if (peersOf(ends.attributes.front()).empty()) { // all to the same position
    Operation *op = createEnd(builder, loc, function.getArguments(), sends ? none : types,
                              ranksOf(sends ? message.toStage : message.fromStage));
    received.append(op->result_begin(), op->result_end());
  } else {
    for (auto [i, attributes] : llvm::enumerate(ends.attributes))
      for (ArrayRef<int32_t> peers : peersOf(attributes)) {
        ValueRange sent = function.getArguments();
        Operation *op =
            createEnd(builder, loc, sends ? sent.slice(i, 1) : ValueRange(),
                      sends ? none : TypeRange(ArrayRef(ends.types).slice(i, 1)), peers);
        received.append(op->result_begin(), op->result_end());
      }
  }
  func::ReturnOp::create(builder, loc, received);
  return function;
}

} // namespace dtc::lower
