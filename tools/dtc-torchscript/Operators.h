// One operator of the module: what it gives, and what of it is recorded.
//
// LibTorch computes everything that isn't a tensor's elements: numbers, lists, texts, shapes. It
// also computes the elements of small tensors that depend on no input, since sizes come from them.
#pragma once

#include "Values.h"

#include <torch/csrc/jit/ir/ir.h>

namespace dtc::torchscript {

class Operators {
public:
  explicit Operators(Values &values) : values(values) {}

  /// Takes the inputs from the stack and puts the outputs there.
  void run(const torch::jit::Node &node, torch::jit::Stack &stack, const std::string &source);
  bool tracksGradients = true;

private:
  void runOnTensors(const torch::jit::Operator &op, const torch::jit::Node &node,
                    torch::jit::Stack &stack, const std::string &source);
  void runOnHost(const torch::jit::Operator &op, const torch::jit::Node &node,
                 torch::jit::Stack &stack);
  void change(const std::shared_ptr<Application> &application, const at::Tensor &self,
              torch::jit::Stack &stack, const std::vector<at::Tensor> &known,
              const std::vector<at::Tensor> &results);
  std::string changedValue(const Application &application, const at::Tensor &self);
  std::string maskedValue(const Application &application, const at::Tensor &self);
  void checkIndices(const Application &application) const;

  Values &values;
};

} // namespace dtc::torchscript
