// Normalizations.
#include "ExportHint.h"
#include "GraphBuilder.h"
#include "dtc/Import/Build/Norms.h"

using namespace mlir;

namespace dtc::import {

/// Layer and RMS normalization over the dimensions from `axis` on.
static LogicalResult convertTrailingNorm(NodeConverter &node) {
  auto axis = node.axis(node.attrInt("axis", -1), node.input(0).rank());
  if (failed(axis))
    return failure();
  const Tensor *scale = node.has(1) ? &node.input(1) : nullptr;
  const Tensor *bias = node.has(2) ? &node.input(2) : nullptr;
  const double epsilon = node.attrFloat("epsilon", 1e-5f);
  if (node.op() == "RMSNormalization")
    return node.define(rmsNorm(node, node.input(0), *axis, scale, epsilon));
  auto norm = layerNorm(node, node.input(0), *axis, scale, bias, epsilon);
  if (failed(norm) || failed(node.define(1, norm->mean)) || failed(node.define(2, norm->rstd)))
    return failure();
  return node.define(norm->result);
}

static LogicalResult convertGroupNorm(NodeConverter &node) {
  const Shape shape = node.input(0).shape();
  const bool each = node.op() == "InstanceNormalization" && shape.size() > 1;
  return node.define(groupNorm(node, node.input(0), each ? shape[1] : node.attrInt("num_groups", 1),
                               &node.input(1), &node.input(2), node.attrFloat("epsilon", 1e-5f)));
}

static LogicalResult convertBatchNorm(NodeConverter &node) {
  if (node.attrInt("training_mode", 0) || node.hasOutput(1))
    return node.error() << kTrainingBatchNorm << ": " << kExport;
  BatchStatistics statistics = {&node.input(3), &node.input(4), node.attrFloat("epsilon", 1e-5f)};
  return node.define(batchNorm(node, node.input(0), &node.input(1), &node.input(2), statistics));
}

void addNormConverters(ConverterTable &table) {
  table["LayerNormalization"] = convertTrailingNorm;
  table["RMSNormalization"] = convertTrailingNorm;
  table["GroupNormalization"] = convertGroupNorm;
  table["InstanceNormalization"] = convertGroupNorm;
  table["BatchNormalization"] = convertBatchNorm;
}

} // namespace dtc::import
