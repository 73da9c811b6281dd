#include "StepValues.h"

#include <cmath>

using namespace mlir;

namespace dtc::interpreter {

using graph::RoleAttr;
using graph::RoleKind;

Key keyOf(RoleAttr role) {
  bool isCount = role.getKind() == RoleKind::Scalar && role.getScalar() &&
                 *role.getScalar() == graph::ScalarKind::Count;
  if (isCount)
    return {RoleKind::Count, "", -1};
  int detail = role.getState() ? int(*role.getState()) : -1;
  if (role.getKind() == RoleKind::Scalar && role.getScalar())
    detail = int(*role.getScalar());
  return {role.getKind(), graph::weightOf(role).str(), detail};
}

std::string describe(const Key &key, bool isUpdate) {
  const auto &[kind, name, detail] = key;
  std::string after = isUpdate ? " after the update" : "";
  switch (kind) {
  case RoleKind::Loss:
    return "loss" + after;
  case RoleKind::Gradient:
    return "gradient of " + name;
  case RoleKind::State:
    return graph::stringifyStateKind(graph::StateKind(detail)).str() + " of " + name + after;
  case RoleKind::Master:
    return "master copy of " + name + after;
  case RoleKind::GradNorm:
    return "norm of the gradient";
  case RoleKind::Count:
    if (name.empty())
      return "count of targets";
    return name == graph::kNonFinite ? "count of gradients that aren't finite"
                                     : "count of rows without a slot (" + name + ")";
  case RoleKind::Parameter:
  case RoleKind::Buffer:
    return name + after;
  case RoleKind::Output:
    return "output " + name;
  case RoleKind::Input:
  case RoleKind::Target:
  case RoleKind::Scalar:
  case RoleKind::Kept:
  case RoleKind::Inbox:
  case RoleKind::Outbox:
    return name;
  }
  return name;
}

bool isData(RoleKind kind) { return kind == RoleKind::Input || kind == RoleKind::Target; }

double Draws::drawScalar(graph::ScalarKind kind) const {
  if (kind == graph::ScalarKind::Evaluation)
    return options.evaluates ? 1 : 0;
  return kind == graph::ScalarKind::LearningRate ? 0.01 : 3;
}

/// Parameters such that activations keep their size through layers, states that an
/// optimizer may have (second moments aren't negative), samples below their limits.
Tensor Draws::draw(func::FuncOp func, unsigned index, RoleAttr role) {
  auto type = cast<RankedTensorType>(func.getArgumentTypes()[index]);
  auto limit = func.getArgAttrOfType<IntegerAttr>(index, graph::GraphDialect::kLimit);
  Tensor tensor = randomTensor(type, options.seed + 1000 * drawn++, limit ? limit.getInt() : 8);
  RoleKind kind = role.getKind();
  if (kind == RoleKind::Parameter && type.getRank() > 1)
    for (double &value : tensor.floats)
      value *= std::sqrt(3.0) / std::pow(double(type.getNumElements()), 0.25);
  if (kind == RoleKind::State || kind == RoleKind::Buffer) // variances
    for (double &value : tensor.floats)
      value = std::fabs(value) + 0.05;
  if (kind == RoleKind::Scalar && role.getScalar())
    for (double &value : tensor.floats)
      value = drawScalar(*role.getScalar());
  if (graph::isSummedUp(role)) // nothing is yet
    for (double &value : tensor.floats)
      value = 0;
  // Integers that are no indices are masks: mostly ones, each first column.
  if (!limit && type.getElementType().isInteger() && type.getRank() > 0)
    for (auto [i, value] : llvm::enumerate(tensor.ints))
      value = value > 0 || i % type.getShape().back() == 0;
  if (kind == RoleKind::Target && options.ignoreIndex)
    for (size_t i = 2; i < tensor.ints.size(); i += 5)
      tensor.ints[i] = *options.ignoreIndex;
  return tensor;
}

/// The part of an input or target that one call gets. What the prologue has seen
/// whole is cut; of the rest each call has its own.
FailureOr<Tensor> Draws::samples(func::FuncOp func, unsigned index, RoleAttr role,
                                 int64_t microbatch) {
  auto type = cast<RankedTensorType>(func.getArgumentTypes()[index]);
  auto found = data.find(role.getName().str());
  if (found == data.end()) {
    Tensor drawn = draw(func, index, role);
    if (options.microbatches == 1 || microbatch < 0)
      data.emplace(role.getName().str(), drawn);
    return drawn;
  }
  const Tensor &all = found->second;
  int64_t size = type.getNumElements(), calls = microbatch < 0 ? 1 : options.microbatches;
  if (type.getRank() == 0 || all.size() != calls * size)
    return func.emitError() << "argument " << index << " is no microbatch of '" << role.getName()
                            << "'";
  Tensor part(type);
  auto copy = [&](auto &out, const auto &in) {
    if (!in.empty())
      std::copy_n(in.begin() + std::max<int64_t>(microbatch, 0) * size, size, out.begin());
  };
  copy(part.floats, all.floats);
  copy(part.ints, all.ints);
  return part;
}

} // namespace dtc::interpreter
