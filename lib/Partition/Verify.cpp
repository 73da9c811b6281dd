// The contract at the end of partitioning.
#include "dtc/Partition/Partition.h"

#include "Roles.h"

#include "dtc/Dialect/Dist/StageOps.h"
#include "dtc/Dialect/Graph/StepOps.h"

#include <bit>
#include <map>

using namespace mlir;
using namespace dtc::sharding;
using dtc::graph::RoleKind;

namespace dtc::partition {

static constexpr StringLiteral kSharding = dist::DistDialect::kSharding;

namespace {

/// Axes along which ranks may hold different values, one bit each.
using AxisSet = uint64_t;

AxisSet setOf(const AxisList &axes) {
  AxisSet set = 0;
  for (AxisId axis : axes)
    set |= AxisSet{1} << axis;
  return set;
}

/// Where the shards of a tensor differ: along what splits it and what it pends over.
AxisSet variesOver(const TensorSharding &sharding) {
  AxisSet set = 0;
  for (const AxisList &axes : sharding.dims)
    set |= setOf(axes);
  for (const Partial &partial : sharding.partial)
    set |= AxisSet{1} << partial.axis;
  return set;
}

/// Follows through a local function along which axes each value may differ
/// between ranks, and compares with what its results claim.
class FunctionVerifier {
public:
  FunctionVerifier(func::FuncOp func, const Mesh &mesh) : func(func), mesh(mesh) {}

  LogicalResult run() {
    for (BlockArgument argument : func.getArguments()) {
      FailureOr<AxisSet> set = variesOver(
          func.getArgAttr(argument.getArgNumber(), kSharding),
          graph::getArgRole(func, argument.getArgNumber()), "argument", argument.getArgNumber());
      if (failed(set))
        return failure();
      varies[argument] = *set;
    }
    for (Operation &op : func.getBody().front()) {
      if (op.hasAttr(dist::DistDialect::kOp))
        return op.emitOpError("is still to be partitioned");
      if (isa<graph::StepVectorOp>(op))
        return op.emitOpError("is still to be summed over all ranks");
      if (isa<UnrealizedConversionCastOp>(op))
        return op.emitOpError("was left over by the partitioner");
      if (auto sum = dyn_cast<dist::StageSumOp>(op); sum && sum.getApart())
        if (failed(verifyApart(sum)))
          return failure();
      if (isa<dist::AllReduceOp, dist::AllGatherOp, dist::ReduceScatterOp, dist::StageSumOp>(
              op)) { // a bucket: each for itself
        for (auto [input, output] : llvm::zip_equal(op.getOperands(), op.getResults()))
          varies[output] = ofBucket(&op, varies.lookup(input));
        continue;
      }
      AxisSet set = transfer(&op);
      for (Value result : op.getResults())
        varies[result] = set;
    }
    return verifyResults();
  }

private:
  FailureOr<AxisSet> variesOver(Attribute attr, graph::RoleAttr role, StringRef what,
                                unsigned index) {
    auto [it, isNew] = known.try_emplace(attr);
    if (isNew)
      if (auto sharding = dyn_cast_or_null<dist::ShardingAttr>(attr))
        it->second = dist::toSharding(sharding, mesh);
    const std::optional<TensorSharding> &value = it->second;
    if (!value)
      return func.emitOpError() << what << " has no sharding: " << index;
    if (!value->partial.empty() && !graph::isSummedUp(role))
      return func.emitOpError() << what << " " << index
                                << " is pending, but neither gradient nor loss: " << attr;
    return partition::variesOver(*value);
  }

  AxisSet axesOf(dist::AxesAttr attr) {
    std::optional<AxisList> axes = dist::toAxes(attr, mesh);
    return axes ? setOf(*axes) : 0;
  }

  AxisSet ofBucket(Operation *op, AxisSet set) {
    if (auto reduce = dyn_cast<dist::AllReduceOp>(op))
      return set & ~axesOf(reduce.getAxes());
    if (auto gather = dyn_cast<dist::AllGatherOp>(op))
      return set & ~axesOf(gather.getAxes());
    if (auto scatter = dyn_cast<dist::ReduceScatterOp>(op))
      return set | axesOf(scatter.getAxes());
    auto sum = cast<dist::StageSumOp>(op);
    if (sum.getApart())
      return 0;
    if (dist::AxesAttr axes = sum.getAxesAttr())
      return set & ~axesOf(axes);
    return set; // on all positions alike
  }

  /// What several ranks have alike would count several times.
  LogicalResult verifyApart(dist::StageSumOp sum) {
    for (Value input : sum.getInputs())
      for (AxisId axis = 0; axis < static_cast<AxisId>(mesh.axes.size()); ++axis)
        if (mesh.axes[axis].size > 1 && !(varies.lookup(input) & setOf({axis})))
          return sum.emitOpError("adds up what is the same along an axis: ")
                 << mesh.axes[axis].name;
    return success();
  }

  AxisSet transfer(Operation *op) {
    AxisSet set = 0;
    for (Value operand : op->getOperands())
      set |= varies.lookup(operand);
    if (auto slice = dyn_cast<dist::SliceOp>(op))
      return set | axesOf(slice.getAxes());
    if (auto exchange = dyn_cast<dist::AllToAllOp>(op))
      return set | axesOf(exchange.getAxes());
    if (auto index = dyn_cast<dist::AxisIndexOp>(op))
      return axesOf(index.getAxes());
    if (auto permute = dyn_cast<dist::PermuteOp>(op))
      return afterPermute(permute, set);
    return set;
  }

  /// An axis of the group matters afterwards if moving along it changes where
  /// the sender stands on an axis that mattered before.
  AxisSet afterPermute(dist::PermuteOp op, AxisSet before) {
    std::optional<AxisList> axes = dist::toAxes(op.getAxes(), mesh);
    if (!axes)
      return before;
    AxisSet inside = setOf(*axes), after = before & ~inside;
    AxisList mattered;
    for (AxisId axis : *axes)
      if (before >> axis & 1)
        mattered.push_back(axis);
    std::vector<int64_t> group = mesh.group(0, *axes);
    for (AxisId axis : *axes)
      for (int64_t rank : group) {
        std::map<int64_t, bool> seen;
        for (int64_t neighbour : mesh.group(rank, {axis})) {
          int64_t source = op.getSources()[mesh.position(neighbour, *axes)];
          seen[mesh.position(group[source], mattered)] = true;
        }
        if (seen.size() > 1)
          after |= AxisSet{1} << axis;
      }
    return after;
  }

  LogicalResult verifyResults() {
    Operation *terminator = func.getBody().front().getTerminator();
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      FailureOr<AxisSet> set = variesOver(func.getResultAttr(i, kSharding),
                                          graph::getResultRole(func, i), "result", i);
      if (failed(set))
        return failure();
      AxisSet excess = varies.lookup(value) & ~*set;
      if (excess)
        return func.emitOpError("result ")
               << i << " is said to be the same along an axis along which it differs: "
               << mesh.axes[std::countr_zero(excess)].name;
    }
    return success();
  }

  func::FuncOp func;
  const Mesh &mesh;
  DenseMap<Value, AxisSet> varies;
  DenseMap<Attribute, std::optional<TensorSharding>> known; ///< by their attributes
};

} // namespace

/// Everything of one role must be laid out alike wherever it appears.
static LogicalResult verifyRoles(ModuleOp module) {
  DenseMap<std::pair<unsigned, StringRef>, Attribute> seen;
  LogicalResult result = success();
  auto look = [&](func::FuncOp func, graph::RoleAttr role, Attribute sharding) {
    if (!role || role.getKind() == RoleKind::Scalar || role.getKind() == RoleKind::Target ||
        role.getKind() == RoleKind::Input || role.getKind() == RoleKind::Output)
      return;
    auto key = std::make_pair(static_cast<unsigned>(role.getKind()), role.getName());
    auto [it, added] = seen.try_emplace(key, sharding);
    if (!added && it->second != sharding)
      result = func.emitOpError() << role << " is laid out in two ways: " << it->second << " and "
                                  << sharding;
  };
  for (auto func : module.getOps<func::FuncOp>()) {
    for (unsigned i = 0; i < func.getNumArguments(); ++i)
      look(func, graph::getArgRole(func, i), func.getArgAttr(i, kSharding));
    for (unsigned i = 0; i < func.getNumResults(); ++i) {
      graph::RoleAttr role = graph::getResultRole(func, i);
      bool mean = role && role.getKind() == RoleKind::Loss && !returnsSums(func);
      if (!mean) // the update takes the sum and returns the mean
        look(func, role, func.getResultAttr(i, kSharding));
    }
  }
  return result;
}

LogicalResult verifyPartition(ModuleOp module) {
  auto meshes = module.getOps<dist::MeshOp>();
  if (!llvm::hasSingleElement(meshes))
    return module.emitError("a partitioned module has one dist.mesh, this one: ")
           << std::distance(meshes.begin(), meshes.end());
  Mesh mesh = dist::toMesh(*meshes.begin());
  if (mesh.axes.size() > 64)
    return module.emitError("a mesh has at most 64 axes, this one: ") << mesh.axes.size();
  for (auto func : module.getOps<func::FuncOp>()) {
    if (!func->hasAttr(dist::DistDialect::kLocal) || func.isExternal())
      return func.emitOpError("is not local: it was not partitioned");
    if (failed(FunctionVerifier(func, mesh).run()))
      return failure();
  }
  return verifyRoles(module);
}

} // namespace dtc::partition
