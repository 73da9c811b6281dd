#include "OpForms.h"

using namespace mlir;
using namespace dtc::sharding;

namespace dtc::partition {

void dropTrivialAxes(AxisList &axes, const Mesh &mesh) {
  llvm::erase_if(axes, [&](AxisId axis) { return mesh.axes[axis].size == 1; });
}

void dropTrivialAxes(TensorSharding &sharding, const Mesh &mesh) {
  for (AxisList &axes : sharding.dims)
    dropTrivialAxes(axes, mesh);
  llvm::erase_if(sharding.partial,
                 [&](const Partial &p) { return mesh.axes[p.axis].size == 1; });
}

//===----------------------------------------------------------------------===//
// Which ops are alike
//===----------------------------------------------------------------------===//

static dist::OpShardingAttr givenChoice(Operation *op) {
  for (NamedAttribute attr : op->getDiscardableAttrDictionary())
    if (auto choice = dyn_cast<dist::OpShardingAttr>(attr.getValue()))
      if (attr.getName() == dist::DistDialect::kOp)
        return choice;
  return {};
}

unsigned OpForms::Alike::getHashValue(Operation *op) {
  return llvm::hash_combine(AlikeOps::getHashValue(op), givenChoice(op));
}

static bool numbers(NamedAttribute attr) {
  return (isa<IntegerAttr>(attr.getValue()) && attr.getName() == graph::GraphDialect::kId) ||
         (isa<graph::BackwardAttr>(attr.getValue()) &&
          attr.getName() == graph::GraphDialect::kBackward);
}

static bool haveEqualAttributes(Operation *a, Operation *b) {
  DictionaryAttr attrsOfA = a->getDiscardableAttrDictionary(),
                 attrsOfB = b->getDiscardableAttrDictionary();
  if (attrsOfA == attrsOfB)
    return true;
  auto told = [](DictionaryAttr attrs) {
    return llvm::make_filter_range(attrs, [](NamedAttribute attr) { return !numbers(attr); });
  };
  auto ofA = told(attrsOfA), ofB = told(attrsOfB);
  return std::equal(ofA.begin(), ofA.end(), ofB.begin(), ofB.end());
}

bool OpForms::Alike::isEqual(Operation *a, Operation *b) {
  return AlikeOps::isEqual(a, b) && (a == b || haveEqualAttributes(a, b));
}

//===----------------------------------------------------------------------===//
// What they have in common
//===----------------------------------------------------------------------===//

FailureOr<OpClass *> OpForms::classOf(Operation *op) {
  std::unique_ptr<OpClass> &known = classes[op];
  if (known)
    return known.get();
  auto fresh = std::make_unique<OpClass>();
  fresh->rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
  if (dist::OpShardingAttr attr = givenChoice(op)) {
    std::optional<OpSharding> choice = dist::toOpSharding(attr, mesh.mesh);
    if (!choice)
      return op->emitOpError("sharding names an axis that the mesh lacks: ") << attr;
    if (std::string error = check(fresh->rule, *choice, mesh.mesh); !error.empty())
      return op->emitOpError(error) << ": " << attr;
    for (AxisList &axes : choice->factors)
      dropTrivialAxes(axes, mesh.mesh);
    fresh->given = std::move(choice);
  }
  known = std::move(fresh);
  return known.get();
}

const OpForm &OpForms::formOf(OpClass &alike, Operation *op, const OpSharding &choice) {
  for (const std::unique_ptr<OpForm> &known : alike.forms)
    if (known->choice == choice)
      return *known;
  auto form = std::make_unique<OpForm>();
  form->choice = choice;
  form->ring = ringOf(alike.rule, choice);
  form->rounds = !form->ring && needsRounds(alike.rule, choice);
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    form->operands.push_back(pool.keep(operandSharding(alike.rule, choice, i)));
  for (auto [i, type] : llvm::enumerate(op->getResultTypes())) {
    const TensorSharding *result = pool.keep(resultSharding(alike.rule, choice, i));
    form->results.push_back(result);
    form->types.push_back(localType(cast<RankedTensorType>(type), *result, mesh.mesh));
  }
  alike.forms.push_back(std::move(form));
  return *alike.forms.back();
}

} // namespace dtc::partition
