#include "StepRunner.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace dtc::graph;
using dtc::interpreter::Tensor;

namespace dtc::test {

StepRunner::Key StepRunner::keyOf(RoleAttr role) {
  // The prologue's count is what the others read as a scalar.
  if (role.getKind() == RoleKind::Count && role.getName().empty())
    return {RoleKind::Scalar, "", static_cast<int>(ScalarKind::Count)};
  int detail = role.getState()    ? static_cast<int>(*role.getState())
               : role.getScalar() ? static_cast<int>(*role.getScalar())
                                  : 0;
  return {role.getKind(), role.getName().str(), detail};
}

StepRunner::StepRunner(ModuleOp module, const WeightStore &weights, int64_t numMicrobatches)
    : module(module), numMicrobatches(numMicrobatches) {
  load(module.lookupSymbol<func::FuncOp>("loss_and_grads"), weights);
  load(module.lookupSymbol<func::FuncOp>("update"), weights);
}

void StepRunner::load(func::FuncOp func, const WeightStore &weights) {
  for (BlockArgument argument : func.getArguments()) {
    RoleAttr role = getArgRole(func, argument.getArgNumber());
    auto type = cast<RankedTensorType>(argument.getType());
    bool fromFile = role.getKind() == RoleKind::Parameter ||
                    role.getKind() == RoleKind::Buffer || role.getKind() == RoleKind::Master;
    if (!fromFile) {
      values.emplace(keyOf(role), Tensor(type));
      continue;
    }
    auto weight = weights.find(role.getName().str());
    if (weight == weights.end() || !weight->second.data) {
      ADD_FAILURE() << "no data: " << role.getName().str();
      continue;
    }
    values.emplace(keyOf(role),
                   tensorFromBytes(type, weight->second.dtype,
                                   reinterpret_cast<const char *>(weight->second.data)));
  }
}

/// Rows [first, first + type's) of an array, as `type`.
static Tensor rowsOf(const Tensor &array, RankedTensorType type, int64_t first) {
  Tensor part(type);
  int64_t start = first * (array.size() / array.shape()[0]);
  if (start + part.size() > array.size()) {
    ADD_FAILURE() << "the model takes another batch than asked for";
    return part;
  }
  for (int64_t i = 0; i < part.size(); ++i)
    if (part.isFloat())
      part.floats[i] = array.floats[start + i];
    else
      part.ints[i] = array.ints[start + i];
  return part;
}

LogicalResult StepRunner::call(StringRef name) {
  auto func = module.lookupSymbol<func::FuncOp>(name);
  interpreter::Tensors operands;
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    operands.push_back(values.at(keyOf(getArgRole(func, i))));
  FailureOr<interpreter::Tensors> results = interpreter::evaluate(func, operands);
  if (failed(results))
    return failure();
  for (auto [i, result] : llvm::enumerate(*results))
    values.insert_or_assign(keyOf(getResultRole(func, i)), std::move(result));
  return success();
}

FailureOr<StepResult> StepRunner::step(const Arrays &batch, double learningRate) {
  auto bind = [&](StringRef function, int64_t microbatch) {
    auto func = module.lookupSymbol<func::FuncOp>(function);
    for (BlockArgument argument : func.getArguments()) {
      RoleAttr role = getArgRole(func, argument.getArgNumber());
      if (role.getKind() != RoleKind::Input && role.getKind() != RoleKind::Target)
        continue;
      auto type = cast<RankedTensorType>(argument.getType());
      values.insert_or_assign(keyOf(role), rowsOf(batch.at(role.getName().str()), type,
                                                  microbatch * type.getShape()[0]));
    }
  };
  auto setScalar = [&](ScalarKind kind, double value) {
    Key key{RoleKind::Scalar, "", static_cast<int>(kind)};
    values.at(key).floats[0] = value;
  };
  setScalar(ScalarKind::LearningRate, learningRate);
  setScalar(ScalarKind::Step, static_cast<double>(++steps));
  bind("prologue", 0);
  if (failed(call("prologue")))
    return failure();
  for (auto &[key, value] : values)
    if (auto kind = std::get<0>(key); kind == RoleKind::Loss || kind == RoleKind::Gradient)
      value = Tensor(value.type);
  for (int64_t microbatch = 0; microbatch < numMicrobatches; ++microbatch) {
    bind("loss_and_grads", microbatch);
    if (failed(call("loss_and_grads")))
      return failure();
  }
  if (failed(call("update")))
    return failure();
  return StepResult{values.at({RoleKind::Loss, "", 0}).floats[0],
                    values.at({RoleKind::GradNorm, "", 0}).floats[0]};
}

const Tensor *StepRunner::parameter(const std::string &name) const {
  for (RoleKind kind : {RoleKind::Master, RoleKind::Parameter})
    if (auto value = values.find({kind, name, 0}); value != values.end())
      return &value->second;
  return nullptr;
}

} // namespace dtc::test
