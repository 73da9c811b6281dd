// Losses that a model computes itself: trained with --loss output:NAME.
#include "GraphBuilder.h"
#include "dtc/Import/Build/Loss.h"
#include "dtc/Import/Build/Reduction.h"

using namespace mlir;

namespace dtc::import {

/// The loss that a node computes, but for what it is of.
static FailureOr<ClassLoss> readLoss(NodeConverter &node) {
  ClassLoss loss;
  if (node.has(2))
    loss.weights = node.input(2);
  if (node.attribute("ignore_index"))
    loss.ignore = node.attrInt("ignore_index", 0);
  const std::string reduction = node.attrString("reduction", "mean");
  if (reduction != "none" && reduction != "mean" && reduction != "sum")
    return LogicalResult(node.error() << "has an unknown reduction: " << reduction);
  loss.reduction = reduction == "none"  ? LossReduction::None
                   : reduction == "sum" ? LossReduction::Sum
                                        : LossReduction::Mean;
  return loss;
}

static LogicalResult convertCrossEntropy(NodeConverter &node) {
  auto loss = readLoss(node);
  if (failed(loss) || failed(node.define(crossEntropy(node, node.input(0), node.input(1), *loss))))
    return failure();
  if (!node.hasOutput(1))
    return success();
  return node.define(1, Tensor(logSoftmax(node.emit, node.value(0), 1)));
}

static LogicalResult convertLogLikelihood(NodeConverter &node) {
  auto loss = readLoss(node);
  return failed(loss) ? failure()
                      : node.define(logLikelihood(node, node.input(0), node.input(1), *loss));
}

void addLossConverters(ConverterTable &table) {
  table["SoftmaxCrossEntropyLoss"] = {convertCrossEntropy, 2};
  table["NegativeLogLikelihoodLoss"] = {convertLogLikelihood, 2};
}

} // namespace dtc::import
