// Operators that rearrange elements: reshapes, slices, joins, padding.
#include "GraphBuilder.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Build/Padding.h"
#include "dtc/Import/Unsupported.h"

#include "dtc-io/CheckedSize.h"

#include "llvm/ADT/StringSwitch.h"

#include <climits>

using namespace mlir;

namespace dtc::import {

/// The sizes that ONNX's Reshape means: 0 copies, -1 is what remains.
static FailureOr<Shape> resolveReshape(NodeConverter &node, const Shape &from,
                                       const Shape &requested) {
  const bool allowZero = node.attrInt("allowzero", 0);
  Shape shape;
  int64_t known = 1, unknown = -1;
  for (size_t i = 0; i < requested.size(); ++i) {
    int64_t size = requested[i];
    if (size == 0 && !allowZero) {
      if (i >= from.size())
        return LogicalResult(node.error() << "copies a size that its input lacks: " << i);
      size = from[i];
    }
    if (size < -1 || (size == -1 && unknown >= 0))
      return LogicalResult(node.error() << "has a bad size in its shape: " << size);
    if (size == -1)
      unknown = i;
    else if (__builtin_mul_overflow(known, size, &known))
      return LogicalResult(node.error() << "has too large a shape");
    shape.push_back(size);
  }
  const int64_t count = product(from);
  if (unknown >= 0 && known != 0)
    shape[unknown] = count / known;
  if (unknown >= 0 && known == 0)
    shape[unknown] = 0;
  if (const auto elements = io::CheckedSize::product(shape); !elements || *elements != count)
    return LogicalResult(node.error() << "cannot give " << count << " elements the shape "
                                      << listed(requested));
  return shape;
}

static LogicalResult convertReshape(NodeConverter &node) {
  auto requested = node.ints(1, "the shape");
  if (failed(requested))
    return failure();
  auto shape = resolveReshape(node, node.input(0).shape(), *requested);
  return failed(shape) ? failure() : node.define(reshapeTensor(node, node.input(0), *shape));
}

static LogicalResult convertFlatten(NodeConverter &node) {
  const Shape shape = node.input(0).shape();
  int64_t axis = node.attrInt("axis", 1);
  if (axis < 0)
    axis += shape.size();
  if (axis < 0 || axis > int64_t(shape.size()))
    return node.error() << "axis out of range: " << axis;
  return node.define(reshapeTensor(node, node.input(0),
                                   {product(ArrayRef(shape).take_front(axis)),
                                    product(ArrayRef(shape).drop_front(axis))}));
}

static LogicalResult convertSqueeze(NodeConverter &node) {
  const Shape shape = node.input(0).shape();
  auto axes = node.axes(1, shape.size(), false);
  if (failed(axes))
    return failure();
  Shape kept;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool named = llvm::is_contained(*axes, int64_t(i));
    if (named && shape[i] != 1)
      return node.error() << "removes a dimension of size " << shape[i];
    if (!(named || (axes->empty() && !node.has(1) && !node.attribute("axes") && shape[i] == 1)))
      kept.push_back(shape[i]);
  }
  return node.define(reshapeTensor(node, node.input(0), kept));
}

static LogicalResult convertUnsqueeze(NodeConverter &node) {
  Shape shape = node.input(0).shape();
  auto list = node.listed(1, "axes");
  if (failed(list))
    return failure();
  auto axes = node.axes(1, shape.size() + list->size(), false);
  if (failed(axes))
    return failure();
  for (int64_t axis : *axes)
    shape.insert(shape.begin() + axis, 1);
  return node.define(reshapeTensor(node, node.input(0), shape));
}

static LogicalResult convertTranspose(NodeConverter &node) {
  const int64_t rank = node.input(0).rank();
  Shape perm;
  if (auto given = node.attrInts("perm"))
    perm = *given;
  else
    for (int64_t i = rank; i-- > 0;)
      perm.push_back(i);
  Shape sorted = perm;
  llvm::sort(sorted);
  for (int64_t i = 0; i < rank; ++i)
    if (int64_t(sorted.size()) != rank || sorted[i] != i)
      return node.error() << "perm is no permutation of its " << rank << " dimensions";
  return node.define(transposeTensor(node, node.input(0), perm));
}

static LogicalResult convertExpand(NodeConverter &node) {
  auto requested = node.ints(1, "the shape");
  if (failed(requested))
    return failure();
  auto shape = broadcastShapes({node.input(0).shape(), *requested});
  if (failed(shape))
    return node.error() << "cannot broadcast to the shape "
                        << listed(*requested);
  if (failed(node.checkShape(*shape)))
    return failure();
  return node.define(expandTensor(node, node.input(0), *shape));
}

static LogicalResult convertTile(NodeConverter &node) {
  auto repeats = node.ints(1, "repeats");
  if (failed(repeats))
    return failure();
  Tensor tensor = node.input(0);
  if (repeats->size() != tensor.shape().size())
    return node.error() << "needs one repeat per dimension";
  for (size_t i = 0; i < repeats->size(); ++i) {
    if ((*repeats)[i] < 1)
      return node.error() << "repeats must be positive: " << (*repeats)[i];
    if ((*repeats)[i] == 1)
      continue;
    Shape shape = tensor.shape(), merged = shape;
    const io::CheckedSize repeated = io::CheckedSize(merged[i]) * (*repeats)[i];
    merged[i] = repeated ? *repeated : -1;
    if (failed(node.checkShape(merged)))
      return failure();
    shape.insert(shape.begin() + i, 1);
    Tensor lifted = reshapeTensor(node, tensor, shape);
    shape[i] = (*repeats)[i];
    tensor = reshapeTensor(node, expandTensor(node, lifted, shape), merged);
  }
  return node.define(tensor);
}

static LogicalResult convertConcat(NodeConverter &node) {
  SmallVector<Tensor> parts;
  for (int i = 0; i < node.numInputs(); ++i)
    parts.push_back(node.input(i));
  auto axis = node.axis(node.attrInt("axis", 0), parts[0].rank());
  if (failed(axis))
    return failure();
  auto result = concatTensors(node, parts, *axis);
  return failed(result) ? failure() : node.define(*result);
}

/// Offset and number of the elements that start:end:step takes out of `size`.
static void clampRange(int64_t size, int64_t start, int64_t end, int64_t step, int64_t &offset,
                       int64_t &count) {
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  auto clamp = [&](int64_t at) {
    if (at < 0)
      at = at < -size ? low : at + size;
    return std::clamp(at, low, high);
  };
  offset = step > 0 ? clamp(start) : std::max<int64_t>(clamp(start), low);
  const int64_t last = clamp(end);
  const int64_t span = step > 0 ? last - offset : offset - last;
  const int64_t stride = step > 0 ? step : -step;
  count = span <= 0 ? 0 : (span - 1) / stride + 1;
}

static LogicalResult convertSlice(NodeConverter &node) {
  Tensor tensor = node.input(0);
  auto starts = node.listed(1, "starts"), ends = node.listed(2, "ends");
  if (failed(starts) || failed(ends))
    return failure();
  const size_t count = starts->size();
  Shape axes, steps(count, 1);
  for (size_t i = 0; i < count; ++i)
    axes.push_back(i);
  auto take = [&](int index, StringRef what, Shape &into) -> LogicalResult {
    if (!node.has(index) && !node.attribute(what))
      return success();
    auto list = node.listed(index, what);
    if (failed(list))
      return failure();
    into = *list;
    return success();
  };
  if (failed(take(3, "axes", axes)) || failed(take(4, "steps", steps)))
    return failure();
  if (ends->size() != count || axes.size() != count || steps.size() != count)
    return node.error() << "starts, ends, axes and steps differ in length";
  for (size_t i = 0; i < count; ++i) {
    auto axis = node.axis(axes[i], tensor.rank());
    if (failed(axis))
      return failure();
    if (steps[i] == 0 || steps[i] == INT64_MIN)
      return node.error() << "has a bad step: " << steps[i];
    const int64_t size = tensor.shape()[*axis];
    int64_t offset, taken;
    clampRange(size, (*starts)[i], (*ends)[i], steps[i], offset, taken);
    if (taken == size && steps[i] == 1)
      continue;
    // A descending slice of a value becomes one operation for each element.
    if (!tensor.host && steps[i] < 0 && failed(node.chargeNodes(taken)))
      return failure();
    tensor = sliceTensor(node, tensor, *axis, offset, taken, steps[i]);
  }
  return node.define(tensor);
}

static LogicalResult convertSplit(NodeConverter &node) {
  const Tensor &tensor = node.input(0);
  auto axis = node.axis(node.attrInt("axis", 0), tensor.rank());
  if (failed(axis))
    return failure();
  const int64_t size = tensor.shape()[*axis];
  Shape sizes;
  if (node.has(1) || node.attribute("split")) {
    auto given = node.listed(1, "split");
    if (failed(given))
      return failure();
    sizes = *given;
  } else {
    const int64_t parts = node.attrInt("num_outputs", node.numOutputs());
    if (parts < 1 || parts > std::max(node.numOutputs(), 1))
      return node.error() << "splits into " << parts << " parts and has " << node.numOutputs()
                          << " outputs";
    const int64_t each = (size + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i)
      sizes.push_back(std::clamp<int64_t>(size - i * each, 0, each));
  }
  int64_t offset = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || sizes[i] > size - offset)
      return node.error() << "splits beyond the size " << size;
    if (node.hasOutput(i) &&
        failed(node.define(i, sliceTensor(node, tensor, *axis, offset, sizes[i]))))
      return failure();
    offset += sizes[i];
  }
  return success();
}

/// None where the pads are a constant, or where there is no such mode.
static std::optional<PadMode> padModeOf(StringRef mode) {
  return llvm::StringSwitch<std::optional<PadMode>>(mode)
      .Case("edge", PadMode::Edge)
      .Case("reflect", PadMode::Reflect)
      .Case("wrap", PadMode::Wrap)
      .Default(std::nullopt);
}

static LogicalResult convertPad(NodeConverter &node) {
  const int64_t rank = node.input(0).rank();
  auto pads = node.listed(1, "pads");
  auto axes = node.axes(3, rank, true);
  if (failed(pads) || failed(axes))
    return failure();
  const std::string mode = node.attrString("mode", "constant");
  const auto fromElements = padModeOf(mode);
  if (mode != "constant" && !fromElements)
    return unsupported(node.error()) << "has an unsupported mode: " << mode;
  if (pads->size() != 2 * axes->size())
    return node.error() << "needs two pads per axis";
  double fill = node.attrFloat("value", 0); // an input from opset 11 on
  if (node.has(2)) {
    auto value = node.scalarFloat(2, "the value");
    if (failed(value))
      return failure();
    fill = *value;
  }
  Shape low(rank, 0), high(rank, 0);
  for (size_t i = 0; i < axes->size(); ++i) {
    for (auto [pad, into] : {std::pair((*pads)[i], &low), {(*pads)[i + axes->size()], &high}}) {
      if (pad < -Budget::kMostElements || pad > Budget::kMostElements)
        return node.error() << "pads by too much: " << pad;
      (*into)[(*axes)[i]] = pad;
    }
  }
  Value value = node.value(0);
  for (int64_t i = 0; i < rank; ++i) { // negative padding crops
    const int64_t before = std::max<int64_t>(-low[i], 0), after = std::max<int64_t>(-high[i], 0);
    const int64_t left = tensorType(value).getDimSize(i) - before - after;
    if (left < 1)
      return node.error() << "crops away dimension " << i;
    value = sliceDim(node.emit, value, i, before, left);
    low[i] = std::max<int64_t>(low[i], 0);
    high[i] = std::max<int64_t>(high[i], 0);
  }
  Shape padded(tensorType(value).getShape());
  for (int64_t i = 0; i < rank; ++i)
    padded[i] += low[i] + high[i];
  if (failed(node.checkShape(padded)))
    return failure();
  if (!fromElements)
    return node.define(pad(node.emit, value, low, high, fill));
  auto result = padFromElements(node, value, low, high, *fromElements);
  return failed(result) ? failure() : node.define(*result);
}

void addMovementConverters(ConverterTable &table) {
  table["Reshape"] = {convertReshape, 2};
  table["Flatten"] = convertFlatten;
  table["Squeeze"] = convertSqueeze;
  table["Unsqueeze"] = convertUnsqueeze;
  table["Transpose"] = convertTranspose;
  table["Expand"] = {convertExpand, 2};
  table["Tile"] = {convertTile, 2};
  table["Concat"] = Operator(convertConcat).listsFrom(0);
  table["Slice"] = convertSlice;
  table["Split"] = convertSplit;
  table["Pad"] = convertPad;
}

} // namespace dtc::import
