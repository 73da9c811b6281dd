#include "TrainedNorms.h"

#include "Parameters.h"
#include "Subgraphs.h"

#include "mlir/IR/Diagnostics.h"

#include <set>

using namespace mlir;

namespace dtc::import {

static constexpr int kRunning[] = {3, 4}; // inputs: mean and variance

static bool isBatchNorm(const onnx::NodeProto &node) {
  return isDefaultDomain(node.domain()) && node.op_type() == "BatchNormalization" &&
         node.input_size() == 5;
}

bool isTrainingNorm(const onnx::NodeProto &node) {
  for (const auto &attribute : node.attribute())
    if (attribute.name() == "training_mode" && attribute.i() != 0)
      return true;
  return node.output_size() > 1 && !node.output(1).empty();
}

LogicalResult findTrainedNorms(Model &model, BatchNormMode mode) {
  const auto stored = initializers(model);
  std::set<std::string> read, changed;
  for (const onnx::NodeProto *node : model.nodes)
    for (const std::string &name : readNames(*node))
      read.insert(name);
  for (const auto &output : model.graph().output())
    read.insert(output.name());
  for (const onnx::NodeProto *node : model.nodes) {
    if (!isBatchNorm(*node) || (mode != BatchNormMode::Train && !isTrainingNorm(*node)))
      continue;
    auto refuse = [&](const Twine &why) {
      return emitError(model.location)
             << "node " << node->name() << " (BatchNormalization): in training mode " << why.str();
    };
    for (int i : kRunning) {
      const std::string &name = node->input(i);
      if (!stored.contains(name))
        return refuse("its running statistics must be tensors of the file: " + name);
      if (!changed.insert(name).second)
        return refuse("it needs running statistics of its own, but others change them too: " +
                      name);
    }
    for (int i = 1; i < node->output_size(); ++i)
      if (read.contains(node->output(i)))
        return refuse("its statistics can't be read as values: " + node->output(i));
    model.trainedNorms.insert(node);
  }
  return success();
}

std::vector<std::string> changedBuffers(const Model &model, const llvm::StringMap<bool> &live) {
  std::vector<std::string> names;
  for (const onnx::NodeProto *node : model.nodes)
    if (model.trainedNorms.contains(node) && live.contains(node->output(0)))
      for (int i : kRunning)
        names.push_back(node->input(i));
  return names;
}

} // namespace dtc::import
