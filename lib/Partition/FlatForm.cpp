#include "FlatForm.h"

#include "OpForms.h"

#include "dtc/Dialect/Graph/StepOps.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"

#include <cmath>

using namespace mlir;
using namespace dtc::sharding;

namespace dtc::partition {

static int64_t alignUp(int64_t size, int64_t to) { return (size + to - 1) / to * to; }

FlatForm::FlatForm(RankedTensorType type, dist::ShardingAttr sharding, AxisList list, int64_t block,
                   const NamedMesh &mesh)
    : shard(type.getShape()), sharding(sharding), axes(std::move(list)), mesh(mesh), block(block),
      elements(type.getNumElements()), ranks(mesh.mesh.size(axes)) {
  partElements = alignUp(elements, ranks) / ranks;
  if (partElements > kFineElements)
    partElements = alignUp(partElements, kPartElements);
}

RankedTensorType FlatForm::partType(Type element) const {
  return RankedTensorType::get({partElements}, element);
}

dist::AxesAttr FlatForm::toAttr(const AxisList &list) const {
  return dist::toAttr(sharding.getContext(), list, mesh.mesh);
}

dist::ShardingAttr FlatForm::partSharding(const AxisList &pending) const {
  SmallVector<StringAttr> names;
  for (dist::AxesAttr dim : sharding.getDims())
    llvm::append_range(names, dim.getNames());
  llvm::append_range(names, toAttr(axes).getNames());
  dist::AxesAttr none = toAttr({});
  return dist::ShardingAttr::get(sharding.getContext(), sharding.getMesh(),
                                 dist::AxesAttr::get(sharding.getContext(), names), toAttr(pending),
                                 none, none);
}

dist::FlatAttr FlatForm::description() const {
  SmallVector<int64_t> shape = shard;
  for (auto [size, dim] : llvm::zip_equal(shape, sharding.getDims()))
    size *= mesh.mesh.size(*dist::toAxes(dim, mesh.mesh));
  return dist::FlatAttr::get(sharding.getContext(), shape, sharding.getDims(), toAttr(axes));
}

Value FlatForm::flatten(OpBuilder &builder, Value whole) const {
  graph::TensorBuilder b(builder, whole.getLoc());
  Value flat = b.reshape(whole, {elements});
  int64_t padded = partElements * ranks;
  if (padded == elements)
    return flat;
  Type type = RankedTensorType::get({padded}, getElementTypeOrSelf(whole));
  return graph::PadOp::create(builder, whole.getLoc(), type, flat, ArrayRef<int64_t>{0},
                              ArrayRef<int64_t>{0}, APFloat(0.0));
}

Value FlatForm::cut(OpBuilder &builder, Value whole) const {
  return dist::SliceOp::create(builder, whole.getLoc(), partType(getElementTypeOrSelf(whole)),
                               flatten(builder, whole), mesh.name.getValue(), toAttr(axes), 0);
}

Value FlatForm::allReduce(OpBuilder &builder, Value value, const AxisList &over) const {
  return dist::AllReduceOp::create(builder, value.getLoc(), TypeRange{value.getType()},
                                   ValueRange{value}, mesh.name.getValue(), toAttr(over),
                                   graph::ReduceKind::Sum)
      .getResult(0);
}

Value FlatForm::inBlock(Operation *collective) const {
  Builder builder(collective->getContext());
  collective->setAttr(dist::DistDialect::kBlock, builder.getI64IntegerAttr(block));
  return collective->getResult(0);
}

Value FlatForm::scatter(OpBuilder &builder, Value whole, AxisList &pending) const {
  AxisList both;
  for (AxisId axis : axes)
    if (llvm::is_contained(pending, axis))
      both.push_back(axis);
  llvm::erase_if(pending, [&](AxisId axis) { return llvm::is_contained(both, axis); });
  if (both != axes) // along some of them all ranks have the same already
    return cut(builder, both.empty() ? whole : allReduce(builder, whole, both));
  return inBlock(dist::ReduceScatterOp::create(
      builder, whole.getLoc(), TypeRange{partType(getElementTypeOrSelf(whole))},
      ValueRange{flatten(builder, whole)}, mesh.name.getValue(), toAttr(axes),
      graph::ReduceKind::Sum, 0));
}

Value FlatForm::gather(OpBuilder &builder, Value part) const {
  Type element = getElementTypeOrSelf(part);
  int64_t padded = partElements * ranks;
  Type type = RankedTensorType::get({padded}, element);
  Value flat =
      inBlock(dist::AllGatherOp::create(builder, part.getLoc(), TypeRange{type}, ValueRange{part},
                                        mesh.name.getValue(), toAttr(axes), 0));
  if (padded != elements)
    flat =
        graph::SliceOp::create(builder, part.getLoc(), RankedTensorType::get({elements}, element),
                               flat, ArrayRef<int64_t>{0}, ArrayRef<int64_t>{1});
  return graph::TensorBuilder(builder, part.getLoc()).reshape(flat, shard);
}

/// Rows first, as rounding grows with the number of terms of a sum.
Value FlatForm::sum(OpBuilder &builder, Value part) const {
  graph::TensorBuilder b(builder, part.getLoc());
  auto rows = static_cast<int64_t>(std::sqrt(static_cast<double>(partElements)));
  while (rows > 1 && partElements % rows != 0)
    --rows;
  return b.sum(b.sum(b.reshape(part, {rows, partElements / rows}), {1}), {0});
}

//===----------------------------------------------------------------------===//
// StoredFunction
//===----------------------------------------------------------------------===//

StoredFunction::StoredFunction(func::FuncOp func, const StorageTable &table, const NamedMesh &mesh)
    : func(func), mesh(mesh), table(table) {
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    arguments.emplace_back(func.getArgAttrDict(i));
    addForm(graph::getArgRole(func, i), func.getArgumentTypes()[i],
            func.getArgAttr(i, dist::DistDialect::kSharding), table);
  }
  for (unsigned i = 0; i < func.getNumResults(); ++i) {
    results.emplace_back(func.getResultAttrDict(i));
    addForm(graph::getResultRole(func, i), func.getResultTypes()[i],
            func.getResultAttr(i, dist::DistDialect::kSharding), table);
  }
}

void StoredFunction::addForm(graph::RoleAttr role, Type type, Attribute attr,
                             const StorageTable &table) {
  auto sharding = dyn_cast_or_null<dist::ShardingAttr>(attr);
  auto known = role ? table.find(graph::weightOf(role)) : table.end();
  bool isStored =
      known != table.end() && sharding &&
      (role.getKind() == graph::RoleKind::Parameter || role.getKind() == graph::RoleKind::Gradient);
  if (isStored)
    forms.try_emplace(graph::weightOf(role), cast<RankedTensorType>(type), sharding,
                      known->second.ofUpdate(), known->second.block, mesh);
}

const FlatForm *StoredFunction::updatedAs(StringRef name) const {
  auto form = forms.find(name);
  return form == forms.end() ? nullptr : &form->second;
}

const FlatForm *StoredFunction::storedAs(graph::RoleAttr role) const {
  using graph::RoleKind;
  if (!role)
    return nullptr;
  auto axes = table.find(graph::weightOf(role));
  if (axes == table.end())
    return nullptr;
  RoleKind kind = role.getKind();
  const ParameterAxes &own = axes->second;
  bool isStored = (kind == RoleKind::Parameter && !own.parameter.empty()) ||
                  (kind == RoleKind::Gradient && !own.gradient.empty()) ||
                  ((kind == RoleKind::State || kind == RoleKind::Master) && !own.state.empty());
  return isStored ? updatedAs(graph::weightOf(role)) : nullptr;
}

AxisList StoredFunction::pendingOf(Attribute attr) const {
  AxisList pending;
  if (auto sharding = dyn_cast_or_null<dist::ShardingAttr>(attr))
    pending = axesOf(sharding.getSum());
  return pending;
}

static void describe(NamedAttrList &attributes, const FlatForm &form, const AxisList &pending) {
  attributes.set(dist::DistDialect::kSharding, form.partSharding(pending));
  attributes.set(dist::DistDialect::kFlat, form.description());
}

void StoredFunction::setArgument(unsigned index, const FlatForm &form, const AxisList &pending) {
  BlockArgument argument = func.getArgument(index);
  argument.setType(form.partType(getElementTypeOrSelf(argument)));
  describe(arguments[index], form, pending);
}

void StoredFunction::setResult(unsigned index, const FlatForm &form, const AxisList &pending) {
  describe(results[index], form, pending);
}

void StoredFunction::finish() {
  auto write = [&](MutableArrayRef<NamedAttrList> lists) {
    return llvm::map_to_vector(lists, [&](NamedAttrList &list) {
      list.erase(dist::DistDialect::kStorage);
      list.erase(dist::DistDialect::kBlock);
      return list.getDictionary(func.getContext());
    });
  };
  Block &body = func.getBody().front();
  func.setFunctionType(FunctionType::get(func.getContext(), body.getArgumentTypes(),
                                         body.getTerminator()->getOperandTypes()));
  func.setAllArgAttrs(write(arguments));
  func.setAllResultAttrs(write(results));
}

} // namespace dtc::partition
