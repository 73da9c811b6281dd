// Walks a module's forward as it would run: calls are followed, conditions decided, loops repeated.
#pragma once

#include "Operators.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <unordered_map>

namespace dtc::torchscript {

class Walk {
public:
  Walk(Values &values, const std::shared_ptr<torch::jit::CompilationUnit> &unit)
      : values(values), operators(values), unit(unit) {}

  c10::IValue call(torch::jit::Function &function, std::vector<c10::IValue> arguments);

private:
  using Frame = std::unordered_map<const torch::jit::Value *, c10::IValue>;

  void runBlock(const torch::jit::Block &block, Frame &frame);
  void runNode(const torch::jit::Node &node, Frame &frame);
  bool runControl(const torch::jit::Node &node, Frame &frame);
  bool runAttribute(const torch::jit::Node &node, Frame &frame);
  bool runConstruction(const torch::jit::Node &node, Frame &frame);
  bool runUnpacking(const torch::jit::Node &node, Frame &frame);
  void runIf(const torch::jit::Node &node, Frame &frame);
  void runLoop(const torch::jit::Node &node, Frame &frame);
  void runCall(const torch::jit::Node &node, Frame &frame);
  void runSetAttribute(const torch::jit::Node &node, Frame &frame);
  c10::IValue attribute(const c10::IValue &object, const std::string &name);
  const c10::IValue &input(const torch::jit::Node &node, size_t i, const Frame &frame) const;
  std::string sourceOf(const torch::jit::Node &node) const;

  Values &values;
  Operators operators;
  std::shared_ptr<torch::jit::CompilationUnit> unit;
  std::map<std::pair<const c10::ivalue::Object *, size_t>, c10::IValue> attributes;
  std::vector<const torch::jit::Node *> calls; ///< that are being followed
  int64_t steps = 0;
};

} // namespace dtc::torchscript
