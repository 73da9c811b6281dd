// Sequences with constant positions, as aten.split and aten.chunk are exported.
#include "GraphBuilder.h"
#include "dtc/Import/Build/Movement.h"

using namespace mlir;

namespace dtc::import {

static Tensor sequenceOf(std::vector<Tensor> elements) {
  Tensor sequence;
  sequence.isSequence = true;
  sequence.sequence = std::move(elements);
  return sequence;
}

static LogicalResult convertSplitToSequence(NodeConverter &node) {
  const Tensor &tensor = node.input(0);
  auto axis = node.axis(node.attrInt("axis", 0), tensor.rank());
  if (failed(axis))
    return failure();
  const int64_t size = tensor.shape()[*axis];
  Shape sizes;
  bool keep = true;
  if (!node.has(1)) {
    if (failed(node.chargeNodes(size)))
      return failure();
    sizes.assign(size, 1);
    keep = node.attrInt("keepdims", 1);
  } else {
    auto split = node.ints(1, "split");
    if (failed(split))
      return failure();
    if (node.input(1).rank() == 1) {
      sizes = *split;
    } else {
      const int64_t each = split->front();
      if (each < 1)
        return node.error() << "splits into parts of size " << each;
      if (failed(node.chargeNodes((size - 1) / each + 1)))
        return failure();
      for (int64_t at = 0; at < size; at += each)
        sizes.push_back(std::min(each, size - at));
    }
  }
  std::vector<Tensor> parts;
  int64_t offset = 0;
  for (int64_t part : sizes) {
    if (part < 1 || part > size - offset)
      return node.error() << "splits beyond the size " << size;
    Tensor piece = sliceTensor(node, tensor, *axis, offset, part);
    if (!keep) {
      Shape shape = piece.shape();
      shape.erase(shape.begin() + *axis);
      piece = reshapeTensor(node, piece, shape);
    }
    parts.push_back(piece);
    offset += part;
  }
  return node.define(sequenceOf(std::move(parts)));
}

static LogicalResult convertSequenceConstruct(NodeConverter &node) {
  std::vector<Tensor> parts;
  for (int i = 0; i < node.numInputs(); ++i)
    parts.push_back(node.input(i));
  return node.define(sequenceOf(std::move(parts)));
}

static LogicalResult convertSequenceAt(NodeConverter &node) {
  auto at = node.scalarInt(1, "the position");
  if (failed(at))
    return failure();
  if (!node.input(0).isSequence)
    return node.error() << "needs a sequence";
  auto position = node.axis(*at, node.input(0).sequence.size());
  return failed(position) ? failure() : node.define(node.input(0).sequence[*position]);
}

static LogicalResult convertSequenceLength(NodeConverter &node) {
  return node.define(Tensor(HostTensor::ofInts(node.emit.getI64Type(), {},
                                               {int64_t(node.input(0).sequence.size())})));
}

static LogicalResult convertConcatFromSequence(NodeConverter &node) {
  std::vector<Tensor> parts = node.input(0).sequence;
  if (parts.empty())
    return node.error() << "joins no tensors";
  const bool stack = node.attrInt("new_axis", 0);
  auto axis = node.axis(node.attrInt("axis", 0), parts[0].rank() + stack);
  if (failed(axis))
    return failure();
  if (stack)
    for (Tensor &part : parts) {
      Shape shape = part.shape();
      shape.insert(shape.begin() + *axis, 1);
      part = reshapeTensor(node, part, shape);
    }
  auto result = concatTensors(node, parts, *axis);
  return failed(result) ? failure() : node.define(*result);
}

void addSequenceConverters(ConverterTable &table) {
  table["SplitToSequence"] = convertSplitToSequence;
  table["SequenceConstruct"] = Operator(convertSequenceConstruct, 0).listsFrom(0);
  table["SequenceAt"] = Operator(convertSequenceAt, 2).withSequences();
  table["SequenceLength"] = Operator(convertSequenceLength).withSequences();
  table["ConcatFromSequence"] = Operator(convertConcatFromSequence).withSequences();
}

} // namespace dtc::import
