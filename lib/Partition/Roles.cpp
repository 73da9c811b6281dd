#include "Roles.h"

#include "dtc/Dialect/Graph/StepOps.h"

using namespace mlir;
using dtc::graph::RoleKind;

namespace dtc::partition {

static constexpr StringLiteral kSharding = dist::DistDialect::kSharding;

/// A tensor that several functions see. The state is not part of it: both
/// moments of a parameter are laid out alike.
using Key = std::pair<unsigned, StringRef>;
using KnownShardings = DenseMap<Key, dist::ShardingAttr>;

static Key keyOf(RoleKind kind, graph::RoleAttr role) {
  return {static_cast<unsigned>(kind), graph::weightOf(role)};
}

/// Roles whose arguments and results are one tensor throughout the module.
static bool isShared(RoleKind kind) {
  switch (kind) {
  case RoleKind::Parameter:
  case RoleKind::Buffer:
  case RoleKind::Gradient:
  case RoleKind::State:
  case RoleKind::Master:
    return true;
  default:
    return false;
  }
}

static bool isFixed(RoleKind kind) {
  return kind == RoleKind::Parameter || kind == RoleKind::Buffer;
}

static bool followsParameter(RoleKind kind) {
  return kind == RoleKind::Gradient || kind == RoleKind::State || kind == RoleKind::Master;
}

/// A parameter or buffer of which nothing is said is whole on every rank.
static void replicateTheRest(func::FuncOp func, FlatSymbolRefAttr mesh,
                             KnownShardings &known) {
  auto none = dist::AxesAttr::get(func.getContext(), {});
  for (BlockArgument argument : func.getArguments()) {
    graph::RoleAttr role = graph::getArgRole(func, argument.getArgNumber());
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!role || !isFixed(role.getKind()) || !type)
      continue;
    SmallVector<dist::AxesAttr> dims(type.getRank(), none);
    known.try_emplace(keyOf(role.getKind(), role),
                      dist::ShardingAttr::get(func.getContext(), mesh, dims, none, none, none));
  }
}

/// Calls `visit(role, attribute)` for each argument and result that is shared and gives it
/// the sharding that this returns, if any.
template <typename Visit>
static void forEachShared(func::FuncOp func, Visit visit) {
  SmallVector<Attribute> arguments(func.getNumArguments()), results(func.getNumResults());
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    if (graph::RoleAttr role = graph::getArgRole(func, i); role && isShared(role.getKind()))
      arguments[i] = visit(role, func.getArgAttrOfType<dist::ShardingAttr>(i, kSharding));
  for (unsigned i = 0; i < func.getNumResults(); ++i)
    if (graph::RoleAttr role = graph::getResultRole(func, i); role && isShared(role.getKind()))
      results[i] = visit(role, func.getResultAttrOfType<dist::ShardingAttr>(i, kSharding));
  graph::setArgAttrs(func, kSharding, arguments);
  graph::setResultAttrs(func, kSharding, results);
}

LogicalResult unifyShardings(ModuleOp module, FlatSymbolRefAttr mesh) {
  KnownShardings known;
  LogicalResult result = success();
  for (auto func : module.getOps<func::FuncOp>())
    forEachShared(func, [&](graph::RoleAttr role, dist::ShardingAttr attr) {
      if (!attr)
        return attr;
      auto [it, added] = known.try_emplace(keyOf(role.getKind(), role), attr);
      if (!added && isFixed(role.getKind()) && it->second != attr)
        result = func.emitOpError("sharding differs from ")
                 << it->second << " for: " << role.getName();
      return attr;
    });
  if (failed(result))
    return failure();
  for (auto func : module.getOps<func::FuncOp>())
    replicateTheRest(func, mesh, known);
  for (auto func : module.getOps<func::FuncOp>())
    forEachShared(func, [&](graph::RoleAttr role, dist::ShardingAttr attr) {
      if (attr)
        return attr;
      if (auto it = known.find(keyOf(role.getKind(), role)); it != known.end())
        return it->second;
      if (followsParameter(role.getKind()))
        if (auto it = known.find(keyOf(RoleKind::Parameter, role)); it != known.end())
          return it->second;
      return dist::ShardingAttr();
    });
  return success();
}

bool returnsSums(func::FuncOp func) {
  for (unsigned i = 0; i < func.getNumResults(); ++i)
    if (graph::RoleAttr role = graph::getResultRole(func, i))
      if (graph::isSummedUp(role) &&
          (role.getKind() != RoleKind::Loss || graph::runsPerMicrobatch(func)))
        return true;
  return false;
}

void adoptResults(func::FuncOp func, func::FuncOp producer) {
  DenseMap<Attribute, Attribute> produced; // by role
  for (unsigned r = 0; r < producer.getNumResults(); ++r)
    if (graph::RoleAttr role = graph::getResultRole(producer, r))
      produced[role] = producer.getResultAttr(r, kSharding);
  SmallVector<Attribute> attrs(func.getNumArguments());
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    graph::RoleAttr role = graph::getArgRole(func, i);
    if (graph::isSummedUp(role))
      attrs[i] = produced.lookup(role);
  }
  graph::setArgAttrs(func, kSharding, attrs);
}

} // namespace dtc::partition
