// Arguments and results of a function that is made local.
#include "Localizer.h"

using namespace mlir;
using namespace dtc::sharding;
using dtc::graph::RoleKind;

namespace dtc::partition {

/// Gradients and the loss may leave a function pending.
static bool mayPend(graph::RoleAttr role) {
  return role && (role.getKind() == RoleKind::Gradient || role.getKind() == RoleKind::Loss);
}

FailureOr<std::optional<TensorSharding>> Localizer::shardingFrom(Attribute attr,
                                                                 const Twine &what) {
  if (!attr)
    return std::optional<TensorSharding>();
  auto sharding = dyn_cast<dist::ShardingAttr>(attr);
  std::optional<TensorSharding> result =
      sharding ? dist::toSharding(sharding, mesh.mesh) : std::nullopt;
  if (!result)
    return func.emitOpError() << what << " has a sharding that does not fit the mesh: " << attr;
  dropTrivialAxes(*result, mesh.mesh);
  return result;
}

/// Whether all that is done with an argument is to add something to it.
static bool isAccumulator(func::FuncOp func, BlockArgument argument) {
  graph::RoleAttr role = graph::getArgRole(func, argument.getArgNumber());
  if (!mayPend(role) || !argument.hasOneUse() || !isa<graph::SumOp>(*argument.user_begin()))
    return false;
  for (unsigned i = 0; i < func.getNumResults(); ++i)
    if (graph::getResultRole(func, i) == role)
      return true;
  return false;
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
      *sharding = TensorSharding::replicated(type.getRank());
    argumentShardings.push_back(*sharding);
    if (deferred) {
      accumulators[argument] = block->addArgument(type, argument.getLoc());
      continue;
    }
    std::vector<int64_t> shape(type.getShape().begin(), type.getShape().end());
    if (std::string error = (*sharding)->check(shape, mesh.mesh); !error.empty())
      return func.emitOpError("argument ") << index << ": " << error;
    Value local = block->addArgument(localType(type, **sharding, mesh.mesh), argument.getLoc());
    define(argument, **sharding, local);
  }
  return success();
}

/// Sums that come in pending are resolved at once and together: whatever reads
/// them would otherwise carry its own pending part along.
LogicalResult Localizer::resolveArguments(OpBuilder &builder) {
  for (BlockArgument argument : func.getArguments()) {
    if (accumulators.contains(argument) || argument.use_empty())
      continue;
    TensorSharding sharding = layouts[argument].front().sharding;
    if (sharding.partial.empty() ||
        llvm::all_of(argument.getUsers(), llvm::IsaPred<graph::SumOp>))
      continue;
    sharding.partial.clear();
    if (failed(fetch(builder, argument, sharding, func)))
      return failure();
  }
  return success();
}

/// How a result has to leave the function.
FailureOr<TensorSharding> Localizer::wantedResult(unsigned index, Value value) {
  auto given = shardingFrom(func.getResultAttr(index, dist::DistDialect::kSharding),
                            "result " + Twine(index));
  if (failed(given))
    return failure();
  graph::RoleAttr role = graph::getResultRole(func, index);
  if (mayPend(role)) {
    // What the attribute pends over is a wish; what the value pends over counts.
    TensorSharding natural = layouts.find(value)->second.front().sharding;
    bool chosen = *given && !(*given)->partial.empty();
    llvm::erase_if(natural.partial, [&](const Partial &p) {
      return p.kind != sharding::ReduceKind::Sum || (*given && (*given)->splits(p.axis)) ||
             (chosen && !(*given)->isPartial(p.axis));
    });
    if (*given)
      natural.dims = (*given)->dims;
    return natural;
  }
  if (*given)
    return **given;
  // A result that replaces an argument has its layout.
  for (unsigned i = 0; role && i < func.getNumArguments(); ++i)
    if (graph::getArgRole(func, i) == role && argumentShardings[i] &&
        func.getArgument(i).getType() == value.getType())
      return *argumentShardings[i];
  TensorSharding natural = current(value).sharding;
  natural.partial.clear();
  return natural;
}

LogicalResult Localizer::localizeReturn(OpBuilder &builder, func::ReturnOp op) {
  SmallVector<Value> results;
  MLIRContext *context = builder.getContext();
  std::vector<TensorSharding> shardings;
  for (auto [i, value] : llvm::enumerate(op.getOperands())) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type)
      return func.emitOpError("cannot be partitioned with a result of type: ")
             << value.getType();
    if (accumulators.contains(value) && !layouts.contains(value))
      return func.emitOpError("returns an accumulator to which nothing is added: result ") << i;
    FailureOr<TensorSharding> wanted = wantedResult(i, value);
    if (failed(wanted))
      return failure();
    std::vector<int64_t> shape(type.getShape().begin(), type.getShape().end());
    if (std::string error = wanted->check(shape, mesh.mesh); !error.empty())
      return func.emitOpError("result ") << i << ": " << error;
    FailureOr<Value> local = fetch(builder, value, *wanted, op);
    if (failed(local))
      return failure();
    results.push_back(*local);
    shardings.push_back(std::move(*wanted));
  }
  func::ReturnOp::create(builder, op.getLoc(), results);
  SmallVector<Type> argumentTypes(builder.getInsertionBlock()->getArgumentTypes());
  func.setFunctionType(FunctionType::get(context, argumentTypes, TypeRange(ValueRange(results))));
  std::vector<std::pair<TensorSharding, Attribute>> known; // a handful, however deep the model
  auto toAttr = [&](const TensorSharding &sharding) {
    for (const auto &[other, attr] : known)
      if (other == sharding)
        return attr;
    known.emplace_back(sharding, dist::toAttr(context, mesh.name, sharding, mesh.mesh));
    return known.back().second;
  };
  auto ofArguments = llvm::map_to_vector(
      argumentShardings, [&](const std::optional<TensorSharding> &s) { return toAttr(*s); });
  graph::setArgAttrs(func, dist::DistDialect::kSharding, ofArguments);
  graph::setResultAttrs(func, dist::DistDialect::kSharding,
                        llvm::map_to_vector(shardings, toAttr));
  return success();
}

} // namespace dtc::partition
