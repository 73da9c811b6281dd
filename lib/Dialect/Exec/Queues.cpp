// What is started on queues: values in flight, messages, spaces.
#include "VerifyAttributes.h"

#include "dtc/Dialect/Dist/Groups.h"
#include "dtc/Dialect/Exec/LastOf.h"
#include "dtc/Dialect/Exec/Part.h"
#include "dtc/Dialect/Exec/Queue.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::exec;

#define GET_ATTRDEF_CLASSES
#include "dtc/Dialect/Exec/ExecAttrs.cpp.inc"

void ExecDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dtc/Dialect/Exec/ExecAttrs.cpp.inc"
      >();
}

QueueKind exec::queueOf(Operation *op) {
  auto queue = op->getAttrOfType<QueueKindAttr>(ExecDialect::kQueue);
  return queue ? queue.getValue() : QueueKind::Compute;
}

Queue Queue::of(Operation *op) {
  Queue result;
  result.kind = queueOf(op);
  if (result.kind == QueueKind::Collective)
    result.axes = dist::axesOf(op);
  return result;
}

Operation *exec::startedBy(Value value) {
  Operation *op = value.getDefiningOp();
  return op && isStarted(op) ? op : nullptr;
}

bool exec::isView(Operation *op) {
  return isa<graph::ReshapeOp, graph::BarrierOp, WaitOp>(op) || partOf(op);
}

Value exec::bufferRoot(Value value) {
  Operation *op = value.getDefiningOp();
  for (; op && isView(op); op = value.getDefiningOp())
    value = op->getOperand(0);
  return value;
}

namespace {

/// Whether a queue may carry out the op beside the one that computes.
bool mayStart(Operation *op, QueueKind queue) {
  switch (queue) {
  case QueueKind::Collective:
    return isa<dist::AllReduceOp, dist::AllGatherOp, dist::ReduceScatterOp, dist::AllToAllOp,
               dist::PermuteOp>(op);
  case QueueKind::Send:
    return isa<SendOp>(op);
  case QueueKind::Receive:
    return isa<ReceiveOp>(op);
  case QueueKind::Copy:
    return isa<CopyOp>(op);
  case QueueKind::Compute:
    return false;
  }
  return false;
}

/// True where the operand of a function's return has a role.
bool isReturnedAs(OpOperand &use, graph::RoleKind kind) {
  auto function = dyn_cast<func::FuncOp>(use.getOwner()->getParentOp());
  if (!function || !isa<func::ReturnOp>(use.getOwner()))
    return false;
  graph::RoleAttr role = graph::getResultRole(function, use.getOperandNumber());
  return role && role.getKind() == kind;
}

/// Results of a started op: nothing may use them but who waits, the op's own queue, collectives,
/// whose queues wait by themselves, and, of a receive, an inbox.
LogicalResult verifyFlight(Operation *op) {
  for (OpResult result : op->getResults())
    for (OpOperand &use : result.getUses()) {
      Operation *user = use.getOwner();
      bool arrives = isa<ReceiveOp>(op) && isReturnedAs(use, graph::RoleKind::Inbox);
      const Queue own = Queue::of(op), its = Queue::of(user);
      bool follows = own == its || (own.kind == QueueKind::Collective && its.kind == own.kind);
      if (!isa<WaitOp>(user) && !follows && !arrives)
        return user->emitOpError("uses a value in flight without exec.wait, operand: ")
               << use.getOperandNumber();
    }
  return success();
}

bool isInbox(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto function =
      argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
  graph::RoleAttr role =
      function ? graph::getArgRole(function, argument.getArgNumber()) : graph::RoleAttr();
  return role && role.getKind() == graph::RoleKind::Inbox;
}

/// A message that is started may be on its way when the function is over, so its operands must
/// outlive the call.
LogicalResult verifyOutlives(SendOp op) {
  for (Value input : op.getInputs()) {
    Value root = bufferRoot(input);
    bool outlives = llvm::any_of(root.getUses(), [](OpOperand &use) {
      return isReturnedAs(use, graph::RoleKind::Outbox);
    });
    if (auto argument = dyn_cast<BlockArgument>(root))
      if (auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp())) {
        graph::RoleAttr role = graph::getArgRole(function, argument.getArgNumber());
        outlives |= role && role.getKind() == graph::RoleKind::Outbox;
      }
    if (!outlives)
      return op.emitOpError("is started with an operand that is no outbox");
  }
  return success();
}

LogicalResult verifyPeers(Operation *op, ArrayRef<int32_t> peers, int64_t channel) {
  for (int32_t peer : peers)
    if (peer < -1)
      return op->emitOpError("no rank has the number: ") << peer;
  return channel < 0 ? op->emitOpError("channel is negative: ") << channel : success();
}

/// Of an argument or result.
LogicalResult verifyPlace(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() == ExecDialect::kSpace && !isa<SpaceAttr>(attribute.getValue()))
    return op->emitOpError("exec.space must be a #exec.space, got: ") << attribute.getValue();
  if (attribute.getName() == kRoom) {
    auto type = dyn_cast<TypeAttr>(attribute.getValue());
    auto room = type ? dyn_cast<RankedTensorType>(type.getValue()) : RankedTensorType();
    if (!room || !room.hasStaticShape())
      return op->emitOpError("exec.room must be a tensor type of static shape, got: ")
             << attribute.getValue();
  }
  return success();
}

} // namespace

LogicalResult ExecDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() == kRanks && !isa<DenseI32ArrayAttr>(attribute.getValue()))
    return op->emitOpError("exec.ranks must be an array of i32, got: ") << attribute.getValue();
  if (attribute.getName() == kLastOf)
    return verifyLastOf(op, attribute.getValue());
  if (attribute.getName() == kPart)
    return verifyPart(op, attribute.getValue());
  if (attribute.getName() != kQueue)
    return success();
  auto queue = dyn_cast<QueueKindAttr>(attribute.getValue());
  if (!queue)
    return op->emitOpError("exec.queue must be a #exec.queue, got: ") << attribute.getValue();
  if (!mayStart(op, queue.getValue()))
    return op->emitOpError("can't be started on the queue: ")
           << stringifyQueueKind(queue.getValue());
  return verifyFlight(op);
}

LogicalResult ExecDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned,
                                                    NamedAttribute attribute) {
  return verifyPlace(op, attribute);
}

LogicalResult ExecDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned,
                                                       NamedAttribute attribute) {
  return verifyPlace(op, attribute);
}

LogicalResult WaitOp::verify() {
  if (!startedBy(getInput()) && !isInbox(getInput()))
    return emitOpError("waits for what is not in flight");
  return success();
}

LogicalResult SendOp::verify() {
  if (getInputs().empty())
    return emitOpError("sends nothing");
  if (isStarted(*this) && failed(verifyOutlives(*this)))
    return failure();
  return verifyPeers(*this, getPeers(), getChannel());
}

LogicalResult ReceiveOp::verify() {
  if (getResults().empty())
    return emitOpError("receives nothing");
  return verifyPeers(*this, getPeers(), getChannel());
}
