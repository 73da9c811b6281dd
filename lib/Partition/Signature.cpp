// Arguments and results of a function that is made local.
#include "Localizer.h"

#include "Zigzag.h"

#include "dtc/Dialect/Graph/StepOps.h"

using namespace mlir;
using namespace dtc::sharding;

namespace dtc::partition {

FailureOr<const TensorSharding *> Localizer::shardingFrom(Attribute attr, const Twine &what) {
  if (!attr)
    return static_cast<const TensorSharding *>(nullptr);
  const TensorSharding *&known = knownShardings[attr];
  if (known)
    return known;
  auto sharding = dyn_cast<dist::ShardingAttr>(attr);
  std::optional<TensorSharding> result =
      sharding ? dist::toSharding(sharding, mesh.mesh) : std::nullopt;
  if (!result)
    return func.emitOpError() << what << " has a sharding that does not fit the mesh: " << attr;
  dropTrivialAxes(*result, mesh.mesh);
  return known = pool.keep(*result);
}

FailureOr<RankedTensorType> Localizer::checkedLocalType(RankedTensorType type,
                                                        const TensorSharding *sharding,
                                                        const Twine &what) {
  RankedTensorType &known = knownTypes[{type, sharding}];
  if (known)
    return known;
  std::vector<int64_t> shape(type.getShape().begin(), type.getShape().end());
  if (std::string error = sharding->check(shape, mesh.mesh); !error.empty())
    return func.emitOpError() << what << ": " << error;
  return known = localType(type, *sharding, mesh.mesh);
}

/// Whether all that is done with an argument is to add something to it.
static bool isAccumulator(func::FuncOp func, BlockArgument argument) {
  graph::RoleAttr role = graph::getArgRole(func, argument.getArgNumber());
  if (!graph::isSummedUp(role) || !argument.hasOneUse() ||
      !isa<graph::SumOp>(*argument.user_begin()))
    return false;
  for (unsigned i = 0; i < func.getNumResults(); ++i)
    if (graph::getResultRole(func, i) == role)
      return true;
  return false;
}

/// Whether what enters or leaves may lie so. Who loads and saves tensors knows nothing of zig-zag
/// parts. What goes from a stage to another, or waits for a later call, is seen by ranks alone.
bool Localizer::mayCross(graph::RoleAttr role, const Sharding &sharding) const {
  if (role &&
      (role.getKind() == graph::RoleKind::Inbox || role.getKind() == graph::RoleKind::Outbox ||
       role.getKind() == graph::RoleKind::Kept))
    return true;
  return llvm::none_of(sharding.dims,
                       [&](const AxisList &axes) { return areInZigzag(axes, mesh); });
}

LogicalResult Localizer::addArguments(OpBuilder &builder) {
  Block *block = builder.getInsertionBlock();
  for (BlockArgument argument : func.getArguments()) {
    unsigned index = argument.getArgNumber();
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || !type.hasStaticShape())
      return func.emitOpError("cannot be partitioned with an argument of type: ")
             << argument.getType();
    auto sharding = shardingFrom(func.getArgAttr(index, dist::DistDialect::kSharding),
                                 "argument " + Twine(index));
    if (failed(sharding))
      return failure();
    bool deferred = isAccumulator(func, argument);
    if (!*sharding && !deferred)
      sharding = pool.keep(TensorSharding::replicated(type.getRank()));
    argumentShardings.push_back(*sharding);
    if (*sharding && !mayCross(graph::getArgRole(func, index), **sharding))
      return func.emitOpError() << "argument " << index
                                << " must be whole over the axis whose parts are in zig-zag";
    if (deferred) {
      accumulators[argument] = block->addArgument(type, argument.getLoc());
      continue;
    }
    FailureOr<RankedTensorType> local =
        checkedLocalType(type, *sharding, "argument " + Twine(index));
    if (failed(local))
      return failure();
    define(argument, *sharding, block->addArgument(*local, argument.getLoc()));
  }
  return success();
}

/// Sums that come in pending are resolved at once and together: whatever reads
/// them would otherwise carry its own pending part along.
LogicalResult Localizer::resolveArguments(OpBuilder &builder) {
  for (BlockArgument argument : func.getArguments()) {
    if (accumulators.contains(argument) || argument.use_empty())
      continue;
    const TensorSharding &sharding = *shards[argument].front().sharding;
    if (sharding.partial.empty() ||
        llvm::all_of(argument.getUsers(), llvm::IsaPred<graph::SumOp>))
      continue;
    if (failed(fetch(builder, argument, {sharding.dims, {}}, func)))
      return failure();
  }
  return success();
}

/// How a result has to leave the function.
FailureOr<const TensorSharding *> Localizer::wantedResult(unsigned index, Value value) {
  auto given = shardingFrom(func.getResultAttr(index, dist::DistDialect::kSharding),
                            "result " + Twine(index));
  if (failed(given))
    return failure();
  graph::RoleAttr role = graph::getResultRole(func, index);
  if (graph::isSummedUp(role)) {
    // What the attribute pends over is a wish; what the value pends over counts.
    TensorSharding natural = *shards.find(value)->second.front().sharding;
    const TensorSharding *wish = *given;
    bool chosen = wish && !wish->partial.empty();
    llvm::erase_if(natural.partial, [&](const Partial &p) {
      return p.kind != sharding::ReduceKind::Sum || (wish && wish->splits(p.axis)) ||
             (chosen && !wish->isPartial(p.axis));
    });
    if (wish)
      natural.dims = wish->dims;
    return pool.keep(natural);
  }
  if (*given)
    return *given;
  // A result that replaces an argument has its layout.
  for (unsigned i = 0; role && i < func.getNumArguments(); ++i)
    if (graph::getArgRole(func, i) == role && argumentShardings[i] &&
        func.getArgument(i).getType() == value.getType())
      return argumentShardings[i];
  TensorSharding natural{current(value).sharding->dims, {}};
  if (!mayCross(role, natural)) // in its own order
    for (AxisList &axes : natural.dims)
      if (areInZigzag(axes, mesh))
        axes.erase(llvm::find(axes, *mesh.zigzag), axes.end());
  return pool.keep(natural);
}

LogicalResult Localizer::localizeReturn(OpBuilder &builder, func::ReturnOp op) {
  SmallVector<Value> results;
  MLIRContext *context = builder.getContext();
  SmallVector<const TensorSharding *> shardings;
  for (auto [i, value] : llvm::enumerate(op.getOperands())) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type)
      return func.emitOpError("cannot be partitioned with a result of type: ")
             << value.getType();
    if (accumulators.contains(value) && !shards.contains(value))
      return func.emitOpError("returns an accumulator to which nothing is added: result ") << i;
    FailureOr<const TensorSharding *> wanted = wantedResult(i, value);
    if (failed(wanted) || failed(checkedLocalType(type, *wanted, "result " + Twine(i))))
      return failure();
    if (!mayCross(graph::getResultRole(func, i), **wanted))
      return func.emitOpError() << "result " << i
                                << " must be whole over the axis whose parts are in zig-zag";
    FailureOr<Value> local = fetch(builder, value, **wanted, op);
    if (failed(local))
      return failure();
    results.push_back(*local);
    shardings.push_back(*wanted);
  }
  func::ReturnOp::create(builder, op.getLoc(), results);
  SmallVector<Type> argumentTypes(builder.getInsertionBlock()->getArgumentTypes());
  func.setFunctionType(FunctionType::get(context, argumentTypes, TypeRange(ValueRange(results))));
  DenseMap<const TensorSharding *, Attribute> known;
  auto toAttr = [&](const TensorSharding *sharding) {
    Attribute &attr = known[sharding];
    if (!attr)
      attr = dist::toAttr(context, mesh.name, *sharding, mesh.mesh);
    return attr;
  };
  graph::setArgAttrs(func, dist::DistDialect::kSharding,
                     llvm::map_to_vector(argumentShardings, toAttr));
  graph::setResultAttrs(func, dist::DistDialect::kSharding,
                        llvm::map_to_vector(shardings, toAttr));
  return success();
}

} // namespace dtc::partition
