// Registration, and verification of the dialect's attributes on other ops.
#include "dtc/Dialect/Dist/StageOps.h"
#include "dtc/Dialect/Dist/Zigzag.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::dist;

#include "dtc/Dialect/Dist/DistDialect.cpp.inc"
#include "dtc/Dialect/Dist/DistEnums.cpp.inc"

void DistDialect::initialize() {
  registerAttributes();
  registerOperations();
}

/// The mesh that an attribute on `op` names, or null with an error.
static MeshOp meshOf(Operation *op, FlatSymbolRefAttr name) {
  auto mesh = SymbolTable::lookupNearestSymbolFrom<MeshOp>(op, name);
  if (!mesh)
    op->emitOpError("mesh is not declared: ") << name;
  return mesh;
}

/// Whether the sharding names no axis: all ranks have the whole tensor.
static bool isReplicated(ShardingAttr attr) {
  auto isEmpty = [](AxesAttr axes) { return axes.getNames().empty(); };
  return llvm::all_of(attr.getDims(), isEmpty) && isEmpty(attr.getSum()) &&
         isEmpty(attr.getMax()) && isEmpty(attr.getMin());
}

/// `dist.flat` on an argument or result of type `type`.
static LogicalResult verifyFlat(Operation *op, Type type, Attribute value) {
  auto flat = dyn_cast<FlatAttr>(value);
  if (!flat || flat.getShape().size() != flat.getDims().size())
    return op->emitOpError("dist.flat must be a #dist.flat with axes for each dimension, got: ")
           << value;
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getRank() != 1 || !op->hasAttr(DistDialect::kLocal))
    return op->emitOpError("dist.flat belongs to parts of one dimension, got: ") << type;
  return success();
}

/// A stage or a block.
static LogicalResult verifyNumber(Operation *op, NamedAttribute attribute) {
  auto number = dyn_cast<IntegerAttr>(attribute.getValue());
  return number && number.getInt() >= 0 ? success()
                                        : op->emitOpError()
                                              << attribute.getName().getValue()
                                              << " must be a number, got: " << attribute.getValue();
}

/// Whether it is about what crosses between meshes, and in the form that is asked for.
static bool isCrossing(NamedAttribute attribute) {
  Attribute value = attribute.getValue();
  auto areLists = [&]<typename T>(T) {
    auto lists = dyn_cast<ArrayAttr>(value);
    return lists && llvm::all_of(lists, llvm::IsaPred<T>);
  };
  if (attribute.getName() == crossing::kMessage)
    return isa<StringAttr>(value);
  if (attribute.getName() == crossing::kPieces)
    return isa<DenseI64ArrayAttr>(value);
  if (attribute.getName() == crossing::kBegins)
    return areLists(DenseI64ArrayAttr());
  return (attribute.getName() == crossing::kReceivers ||
          attribute.getName() == crossing::kSenders) &&
         areLists(DenseI32ArrayAttr());
}

/// `dist.sharding` on an argument or result of type `type`.
static LogicalResult verifySharding(Operation *op, Type type, NamedAttribute attribute) {
  if (attribute.getName() == DistDialect::kStorage)
    return isa<AxesAttr>(attribute.getValue())
               ? success()
               : op->emitOpError("dist.storage must be #dist.axes, got: ") << attribute.getValue();
  if (attribute.getName() == DistDialect::kBlock)
    return verifyNumber(op, attribute);
  if (attribute.getName() == DistDialect::kOnHost)
    return isa<UnitAttr>(attribute.getValue())
               ? success()
               : op->emitOpError("dist.on_host takes no value, got: ") << attribute.getValue();
  if (attribute.getName() == DistDialect::kFlat)
    return verifyFlat(op, type, attribute.getValue());
  if (isCrossing(attribute))
    return success();
  if (attribute.getName() != DistDialect::kSharding)
    return op->emitOpError("unknown attribute: ") << attribute.getName();
  auto attr = dyn_cast<ShardingAttr>(attribute.getValue());
  if (!attr)
    return op->emitOpError("dist.sharding must be a #dist.sharding, got: ")
           << attribute.getValue();
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return op->emitOpError("dist.sharding needs a tensor of static shape, got: ") << type;
  MeshOp meshOp = meshOf(op, attr.getMesh());
  if (!meshOp)
    return failure();
  if (isReplicated(attr) && static_cast<int64_t>(attr.getDims().size()) == tensor.getRank())
    return success();
  sharding::Mesh mesh = toMesh(meshOp);
  std::optional<sharding::TensorSharding> sharding = toSharding(attr, mesh);
  if (!sharding)
    return op->emitOpError("sharding names an axis that the mesh lacks: ") << attr;
  std::vector<int64_t> shape(tensor.getShape().begin(), tensor.getShape().end());
  if (op->hasAttr(DistDialect::kLocal)) // the type is a shard already
    for (auto [size, axes] : llvm::zip(shape, sharding->dims))
      size *= mesh.size(axes);
  std::string error = sharding->check(shape, mesh);
  return error.empty() ? success() : op->emitOpError(error) << ": " << attr;
}

LogicalResult DistDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned index,
                                                    NamedAttribute attribute) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return op->emitOpError("dist attributes belong to functions and ops");
  return verifySharding(op, function.getArgumentTypes()[index], attribute);
}

LogicalResult DistDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned index,
                                                       NamedAttribute attribute) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return op->emitOpError("dist attributes belong to functions and ops");
  return verifySharding(op, function.getResultTypes()[index], attribute);
}

/// A device for each rank of each stage. Stages may have meshes of other sizes, but one at least
/// has this one.
static LogicalResult verifyDevices(Operation *op, Attribute value) {
  auto mesh = dyn_cast<MeshOp>(op);
  auto stages = dyn_cast<ArrayAttr>(value);
  if (!mesh || !stages)
    return op->emitOpError("dist.devices belongs to a mesh and is an array, got: ") << value;
  bool isUsed = stages.empty();
  for (Attribute stage : stages) {
    auto devices = dyn_cast<DenseI64ArrayAttr>(stage);
    if (!devices)
      return op->emitOpError("needs a list of devices for each stage, got: ") << stage;
    isUsed |= devices.size() == toMesh(mesh).devices();
  }
  if (!isUsed)
    return op->emitOpError("needs a device for each of ")
           << toMesh(mesh).devices() << " ranks of a stage, got: " << value;
  return success();
}

/// `dist.zigzag` on a mesh.
static LogicalResult verifyZigzag(Operation *op, Attribute value) {
  auto mesh = dyn_cast<MeshOp>(op);
  auto names = dyn_cast<AxesAttr>(value);
  auto axes = mesh && names ? toAxes(names, toMesh(mesh)) : std::nullopt;
  return axes && axes->size() == 1
             ? success()
             : op->emitOpError("dist.zigzag must name one axis of a mesh, got: ") << value;
}

LogicalResult DistDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() == kLocal)
    return isa<UnitAttr>(attribute.getValue())
               ? success()
               : op->emitOpError("dist.local takes no value, got: ") << attribute.getValue();
  if (attribute.getName() == kStage || attribute.getName() == kBlock)
    return verifyNumber(op, attribute);
  if (attribute.getName() == kRecompute)
    return isa<RecomputeAttr>(attribute.getValue())
               ? success()
               : op->emitOpError("dist.recompute must be a #dist.recompute, got: ")
                     << attribute.getValue();
  if (attribute.getName() == kDevices)
    return verifyDevices(op, attribute.getValue());
  if (attribute.getName() == kZigzag)
    return verifyZigzag(op, attribute.getValue());
  if (attribute.getName() != kOp)
    return op->emitOpError("unknown attribute: ") << attribute.getName();
  auto attr = dyn_cast<OpShardingAttr>(attribute.getValue());
  if (!attr)
    return op->emitOpError("dist.op must be a #dist.op_sharding, got: ") << attribute.getValue();
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  if (!ruled)
    return op->emitOpError("has no sharding rule, so no dist.op may be given: ") << attr;
  MeshOp meshOp = meshOf(op, attr.getMesh());
  if (!meshOp)
    return failure();
  sharding::Mesh mesh = toMesh(meshOp);
  std::optional<sharding::OpSharding> sharding = toOpSharding(attr, mesh);
  if (!sharding)
    return op->emitOpError("sharding names an axis that the mesh lacks: ") << attr;
  // Attributes are verified before the op itself, and rules trust verified ops.
  if (failed(op->getRegisteredInfo()->verifyInvariants(op)))
    return failure();
  std::string error = check(ruled.getShardingRule(), *sharding, mesh);
  return error.empty() ? success() : op->emitOpError(error) << ": " << attr;
}
