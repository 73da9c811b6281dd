// Numbers dropouts and gives them the keys of the samples.
#include "BatchTrace.h"
#include "dtc/Dialect/Graph/RandomOps.h"
#include "dtc/Dialect/Graph/StepFunctions.h"
#include "dtc/Raise/Passes.h"

using namespace mlir;
using dtc::graph::DropoutOp;

namespace dtc::raise {

#define GEN_PASS_DEF_KEYDROPOUT
#include "dtc/Raise/Passes.h.inc"

static LogicalResult checkName(func::FuncOp func) {
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    if (auto role = graph::getArgRole(func, i); role && role.getName() == DropoutOp::kKeys)
      return func.emitError() << "the model has an input with the name of dropout's own: "
                              << DropoutOp::kKeys;
  return success();
}

static Value addKeys(func::FuncOp func, int64_t samples) {
  MLIRContext *context = func.getContext();
  auto type = RankedTensorType::get({samples}, IntegerType::get(context, 64));
  Value keys = func.getBody().front().addArgument(type, func.getLoc());
  SmallVector<Attribute> roles(func.getNumArguments()); // those stay as they are
  roles.push_back(graph::RoleAttr::get(context, graph::RoleKind::Input, DropoutOp::kKeys,
                                       std::nullopt, std::nullopt));
  func.setType(
      FunctionType::get(context, func.getBody().getArgumentTypes(), func.getResultTypes()));
  graph::setArgAttrs(func, graph::GraphDialect::kRole, roles);
  return keys;
}

/// Where the batch is a part of a dimension, it becomes one of its own for the op.
static void attach(DropoutOp op, const BatchPlace &place, Value keys, int64_t number) {
  Emitter emit(op.getLoc(), OpBuilder(op));
  Shape whole(graph::shapeOf(op.getInput())), split = whole;
  const int64_t batch = tensorType(keys).getDimSize(0);
  int64_t dim = place.dim;
  if (place.inner != 1) {
    split[dim] = place.inner;
    split.insert(split.begin() + dim, batch);
  } else {
    split[dim] = batch;
  }
  if (place.outer != 1)
    split.insert(split.begin() + dim++, place.outer);
  Value input = reshape(emit, op.getInput(), split);
  Value drawn = DropoutOp::create(emit, input.getType(), input, keys, op.getRatioAttr(),
                                  emit.getI64IntegerAttr(number), emit.getI64IntegerAttr(dim));
  op.replaceAllUsesWith(reshape(emit, drawn, whole));
  op.erase();
}

static LogicalResult keyDropouts(func::FuncOp func) {
  SmallVector<DropoutOp> ops;
  for (DropoutOp op : func.getBody().getOps<DropoutOp>())
    if (!op.getKeys())
      ops.push_back(op);
  if (ops.empty())
    return success();
  BatchTrace trace(func, BatchTrace::Ends::Allowed, "cannot follow the batch to a dropout");
  if (failed(checkName(func)) || failed(trace.start()) || failed(trace.propagate()))
    return failure();
  SmallVector<BatchPlace> places;
  for (DropoutOp op : ops) {
    auto place = trace.size() > 0 ? trace.placeIn(op.getInput()) : std::nullopt;
    if (!place)
      return op.emitError() << "dropout in training mode is not supported on values without a "
                               "dimension of samples, here "
                            << op.getType();
    places.push_back(*place);
  }
  Value keys = addKeys(func, trace.size());
  for (auto [number, op] : llvm::enumerate(ops))
    attach(op, places[number], keys, static_cast<int64_t>(number));
  return success();
}

namespace {
struct KeyDropout : impl::KeyDropoutBase<KeyDropout> {
  void runOnOperation() override {
    auto func = graph::findFunction(getOperation(), graph::kForward);
    if (func && !func.isExternal() && failed(keyDropouts(func)))
      signalPassFailure();
  }
};
} // namespace

} // namespace dtc::raise
