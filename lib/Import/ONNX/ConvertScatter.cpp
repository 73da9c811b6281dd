// Elements and rows written at positions.
#include "GraphBuilder.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Build/Scatter.h"

using namespace mlir;

namespace dtc::import {

static FailureOr<Write> readReduction(NodeConverter &node) {
  static const std::map<std::string, Write> kReductions = {{"none", Write::Replace},
                                                           {"add", Write::Add},
                                                           {"mul", Write::Multiply},
                                                           {"max", Write::Max},
                                                           {"min", Write::Min}};
  const std::string reduction = node.attrString("reduction", "none");
  auto known = kReductions.find(reduction);
  if (known == kReductions.end())
    return LogicalResult(node.error() << "has an unknown reduction: " << reduction);
  return known->second;
}

/// PyTorch's exporter writes a mean, which ONNX lacks, as if nothing were combined.
static LogicalResult refuseMeans(const NodeConverter &node) {
  const std::string text = metadata(node.node.metadata_props(), "pkg.torch.onnx.fx_node");
  const StringRef call = text;
  if (call.contains("aten.scatter_reduce") && call.contains(", mean)"))
    return node.error() << "was scatter_reduce(\"mean\"), which the exporter has made a write that "
                           "keeps one value of each place; export a program with "
                           "torch.export.save(torch.export.export(model, (input,)), \"model.pt2\")";
  return success();
}

/// The standard leaves open what happens where two values go to one place.
static void warnOfEqualPositions(const NodeConverter &node, Write write) {
  const Host at = node.host(1), updates = node.host(2);
  if (write == Write::Replace && !at && !(updates && updates->isSplat()))
    emitWarning(node.tensors.model.location)
        << node.op() << ": of values that are written to one place the last one stays; positions "
        << "are computed, and ONNX leaves open which one stays";
}

/// The components of positions are the last dimension.
static LogicalResult convertScatterND(NodeConverter &node) {
  const Tensor &data = node.input(0), &indices = node.input(1);
  const int64_t depth = indices.rank() < 1 ? 0 : indices.shape().back();
  if (depth < 1 || depth > data.rank() || !isa<IntegerType>(indices.element()))
    return node.error() << "has bad indices";
  auto write = readReduction(node);
  if (failed(write))
    return failure();
  warnOfEqualPositions(node, *write);
  const Shape lead(ArrayRef(indices.shape()).drop_back());
  SmallVector<Tensor> components;
  for (int64_t k = 0; k < depth; ++k)
    components.push_back(reshapeTensor(node, sliceTensor(node, indices, lead.size(), k, 1), lead));
  return node.define(scatterSlices(node, data, components, node.input(2), *write));
}

static LogicalResult convertScatterElements(NodeConverter &node) {
  const Tensor &data = node.input(0);
  auto axis = node.axis(node.attrInt("axis", 0), data.rank());
  auto write = readReduction(node);
  if (failed(axis) || failed(write) || failed(refuseMeans(node)))
    return failure();
  warnOfEqualPositions(node, *write);
  return node.define(scatterElements(node, data, node.input(1), node.input(2), *axis, *write));
}

/// A cache's positions from write_indices of run time on.
static LogicalResult scatterFromRunTime(NodeConverter &node, int64_t axis, bool circular) {
  Emitter &emit = node.emit;
  const Tensor &data = node.input(0), &updates = node.input(1);
  if (node.input(2).shape() != Shape{data.shape()[0]} || !isa<IntegerType>(node.input(2).element()))
    return node.error() << "needs a write index for each sample";
  Value start = castTo(emit, node.value(2), emit.getI64Type());
  start = broadcastAlong(emit, start, updates.shape(), {0});
  Value size = splatLike(emit, start, data.shape()[axis]);
  Value at =
      arith::AddIOp::create(emit, start, graph::IotaOp::create(emit, tensorType(start), axis));
  if (circular)
    at = arith::RemSIOp::create(emit, at, size);
  // Negative ones are outside: they don't count from the end.
  Value isNegative =
      arith::CmpIOp::create(emit, arith::CmpIPredicate::slt, start, splatLike(emit, start, 0));
  at = arith::SelectOp::create(emit, isNegative, size, at);
  return node.define(scatterAlong(node, data, at, updates, axis, Write::Replace));
}

/// A cache's positions from write_indices on, for each sample.
static LogicalResult convertTensorScatter(NodeConverter &node) {
  const Tensor &data = node.input(0), &updates = node.input(1);
  const Shape shape = data.shape(), wanted = updates.shape();
  auto axis = node.axis(node.attrInt("axis", -2), data.rank());
  if (failed(axis))
    return failure();
  const bool circular = node.attrString("mode", "linear") == "circular";
  Shape starts(shape.empty() ? 0 : shape[0], 0);
  const bool isComputed = node.has(2) && !node.input(2).host;
  if (node.has(2) && !isComputed) {
    auto given = node.ints(2, "write_indices");
    if (failed(given))
      return failure();
    starts = *given;
  }
  Shape expected = shape;
  if (wanted.size() == shape.size())
    expected[*axis] = std::min(wanted[*axis], shape[*axis]);
  if (*axis == 0 || wanted != expected || updates.element() != data.element() ||
      int64_t(starts.size()) != shape[0])
    return node.error() << "needs an update of each sample, and where it goes";
  if (isComputed)
    return scatterFromRunTime(node, *axis, circular);
  Shape stored(wanted.size(), 1);
  stored[0] = shape[0];
  stored[*axis] = wanted[*axis];
  if (!fitsConstant(node.emit.getI64Type(), stored))
    return node.error() << "writes single rows into too many: " << product(stored);
  auto at = std::make_shared<HostTensor>(node.emit.getI64Type(), wanted, stored);
  for (int64_t i = 0; i < product(stored); ++i) {
    const int64_t begin = starts[i / wanted[*axis]], to = begin + i % wanted[*axis];
    at->ints[i] = circular && begin >= 0 ? to % shape[*axis] : to;
    if (to < 0 || at->ints[i] >= shape[*axis])
      return node.error() << "writes beyond the " << shape[*axis] << " positions there are";
  }
  return node.define(scatterElements(node, data, Host(at), updates, *axis, Write::Replace));
}

void addScatterConverters(ConverterTable &table) {
  table["ScatterND"] = {convertScatterND, 3};
  table["ScatterElements"] = {convertScatterElements, 3};
  table["Scatter"] = {convertScatterElements, 3}; // its name before opset 11
  table["TensorScatter"] = {convertTensorScatter, 2};
}

} // namespace dtc::import
