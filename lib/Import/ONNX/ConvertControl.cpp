// If with a condition, Loop with a number of rounds, Scan: all known while importing.
#include "Subgraphs.h"
#include "dtc/Import/Build/Movement.h"

using namespace mlir;

namespace dtc::import {

/// The graph of an attribute, with a diagnostic where there is none.
static const onnx::GraphProto *graphOf(NodeConverter &node, StringRef name) {
  const auto *attribute = node.attribute(name);
  if (attribute && attribute->has_g())
    return &attribute->g();
  node.error() << "lacks its graph " << name;
  return nullptr;
}

static LogicalResult defineAll(NodeConverter &node, ArrayRef<Tensor> outputs) {
  if (int(outputs.size()) < node.numOutputs())
    return node.error() << "its graph has too few outputs: " << outputs.size();
  for (int i = 0; i < node.numOutputs(); ++i)
    if (failed(node.define(i, outputs[i])))
      return failure();
  return success();
}

static FailureOr<bool> truth(NodeConverter &node, const Tensor &tensor) {
  if (tensor.host && tensor.host->size() == 1 && tensor.element().isInteger(1))
    return tensor.host->ints[0] != 0;
  return LogicalResult(node.error() << "needs a condition known while compiling");
}

static LogicalResult convertIf(NodeConverter &node) {
  auto condition = truth(node, node.input(0));
  if (failed(condition))
    return failure();
  const auto *branch = graphOf(node, *condition ? "then_branch" : "else_branch");
  if (!branch)
    return failure();
  auto outputs = convertGraph(node, *branch, {});
  return failed(outputs) ? failure() : defineAll(node, *outputs);
}

/// Parts that each round gives, as one tensor along `axis`, the last one first if asked.
static FailureOr<Tensor> stack(NodeConverter &node, std::vector<Tensor> parts, int64_t axis,
                               bool reverse) {
  if (parts.empty())
    return LogicalResult(node.error() << "makes no rounds, so that nothing says the shape of what "
                                         "they give");
  auto at = node.axis(axis, parts[0].rank() + 1);
  if (failed(at))
    return failure();
  for (Tensor &part : parts) {
    if (part.isSequence)
      return LogicalResult(node.error() << "gives a sequence in each round");
    Shape shape = part.shape();
    if (int64_t(shape.size()) < *at)
      return LogicalResult(node.error() << "gives tensors of different ranks");
    shape.insert(shape.begin() + *at, 1);
    part = reshapeTensor(node, part, shape);
  }
  if (reverse)
    std::reverse(parts.begin(), parts.end());
  return concatTensors(node, parts, *at);
}

namespace {
/// The rounds of a Loop: what is carried from one to the next, and what each gives.
struct Rounds {
  std::vector<Tensor> carried;
  std::vector<std::vector<Tensor>> given;
};
} // namespace

/// Loop's body takes the round's number, the condition and what is carried.
static FailureOr<Rounds> runLoop(NodeConverter &node, const onnx::GraphProto &body) {
  Rounds rounds;
  for (int i = 2; i < node.numInputs(); ++i)
    rounds.carried.push_back(node.input(i));
  const int64_t numCarried = rounds.carried.size();
  if (body.output_size() < numCarried + 1)
    return LogicalResult(node.error() << "its body has too few outputs");
  rounds.given.resize(body.output_size() - 1 - numCarried);
  int64_t most = INT64_MAX;
  if (node.has(0)) {
    auto given = node.scalarInt(0, "the number of rounds");
    if (failed(given))
      return failure();
    most = *given;
  }
  Tensor condition(HostTensor::splat(node.emit.getI1Type(), {}, true));
  if (node.has(1))
    condition = node.input(1);
  for (int64_t round = 0; round < most; ++round) {
    auto goesOn = truth(node, condition);
    if (failed(goesOn) || failed(node.chargeNodes(1)))
      return failure();
    if (!*goesOn)
      break;
    std::vector<Tensor> inputs = {Tensor(HostTensor::ofInts(node.emit.getI64Type(), {}, {round})),
                                  condition};
    inputs.insert(inputs.end(), rounds.carried.begin(), rounds.carried.end());
    auto outputs = convertGraph(node, body, inputs);
    if (failed(outputs))
      return failure();
    condition = outputs->front();
    for (size_t i = 1; i < outputs->size(); ++i)
      if (int64_t(i) <= numCarried)
        rounds.carried[i - 1] = (*outputs)[i];
      else
        rounds.given[i - 1 - numCarried].push_back((*outputs)[i]);
  }
  return rounds;
}

static LogicalResult convertLoop(NodeConverter &node) {
  const auto *body = graphOf(node, "body");
  if (!body)
    return failure();
  auto rounds = runLoop(node, *body);
  if (failed(rounds))
    return failure();
  std::vector<Tensor> outputs = rounds->carried;
  for (auto [i, parts] : llvm::enumerate(rounds->given)) {
    if (!node.hasOutput(outputs.size())) {
      outputs.emplace_back();
      continue;
    }
    auto joined = stack(node, std::move(parts), 0, false);
    if (failed(joined))
      return failure();
    outputs.push_back(*joined);
  }
  return defineAll(node, outputs);
}

/// A number of an optional list, one for each scanned input or output.
static int64_t numberOf(const std::optional<Shape> &list, size_t i) {
  return list && i < list->size() ? (*list)[i] : 0;
}

namespace {
/// What a Scan goes along: each scanned input's axis, and whether from its end.
struct Scanned {
  Tensor tensor;
  int64_t axis;
  bool reverse;
};
} // namespace

static FailureOr<std::vector<Scanned>> scannedInputs(NodeConverter &node,
                                                     ArrayRef<Tensor> tensors) {
  const auto axes = node.attrInts("scan_input_axes"),
             ends = node.attrInts(node.opset < 9 ? "directions" : "scan_input_directions");
  std::vector<Scanned> scanned;
  for (auto [i, tensor] : llvm::enumerate(tensors)) {
    auto axis = node.axis(numberOf(axes, i), tensor.rank());
    if (failed(axis))
      return failure();
    scanned.push_back({tensor, *axis, numberOf(ends, i) != 0});
    if (tensor.shape()[*axis] != scanned[0].tensor.shape()[scanned[0].axis])
      return LogicalResult(node.error() << "goes along inputs of different lengths");
  }
  return scanned;
}

/// One element of a scanned input, without its axis.
static Tensor elementAt(NodeConverter &node, const Scanned &scanned, int64_t round) {
  Shape shape = scanned.tensor.shape();
  const int64_t at = scanned.reverse ? shape[scanned.axis] - 1 - round : round;
  Tensor part = sliceTensor(node, scanned.tensor, scanned.axis, at, 1);
  shape.erase(shape.begin() + scanned.axis);
  return reshapeTensor(node, part, shape);
}

/// What a Scan gives for `inputs`: its states, then the tensors that it goes along.
static FailureOr<std::vector<Tensor>> scan(NodeConverter &node, const onnx::GraphProto &body,
                                           ArrayRef<Tensor> inputs) {
  const int64_t numScanned = node.attrInt("num_scan_inputs", 0);
  const int64_t numCarried = int64_t(inputs.size()) - numScanned;
  if (numScanned < 1 || numCarried < 0 || body.output_size() < numCarried)
    return LogicalResult(node.error() << "has a bad number of scanned inputs: " << numScanned);
  auto scanned = scannedInputs(node, inputs.drop_front(numCarried));
  if (failed(scanned))
    return failure();
  std::vector<Tensor> carried = inputs.take_front(numCarried).vec();
  std::vector<std::vector<Tensor>> given(body.output_size() - numCarried);
  const int64_t length = scanned->front().tensor.shape()[scanned->front().axis];
  for (int64_t round = 0; round < length; ++round) {
    if (failed(node.chargeNodes(1 + 2 * numScanned)))
      return failure();
    std::vector<Tensor> taken = carried;
    for (const Scanned &each : *scanned)
      taken.push_back(elementAt(node, each, round));
    auto outputs = convertGraph(node, body, taken);
    if (failed(outputs))
      return failure();
    for (size_t i = 0; i < outputs->size(); ++i)
      if (int64_t(i) < numCarried)
        carried[i] = (*outputs)[i];
      else
        given[i - numCarried].push_back((*outputs)[i]);
  }
  const auto axes = node.attrInts("scan_output_axes"),
             ends = node.attrInts("scan_output_directions");
  for (size_t i = 0; i < given.size(); ++i) {
    auto joined = stack(node, given[i], numberOf(axes, i), numberOf(ends, i) != 0);
    if (failed(joined))
      return failure();
    carried.push_back(*joined);
  }
  return carried;
}

/// Scan of opset 8 goes along each sample by itself: all its tensors begin with the batch.
static FailureOr<std::vector<Tensor>> scanSamples(NodeConverter &node,
                                                  const onnx::GraphProto &body) {
  if (node.has(0))
    return LogicalResult(node.error() << "of opset 8 is supported without lengths only");
  std::vector<std::vector<Tensor>> samples;
  for (int64_t sample = 0, batch = 1; sample < batch; ++sample) {
    std::vector<Tensor> inputs;
    for (int i = 1; i < node.numInputs(); ++i) {
      const Tensor &whole = node.input(i);
      if (whole.rank() < 1 || (i > 1 && whole.shape()[0] != batch))
        return LogicalResult(node.error() << "needs a batch as the first dimension");
      batch = whole.shape()[0];
      inputs.push_back(elementAt(node, {whole, 0, false}, sample));
    }
    auto outputs = scan(node, body, inputs);
    if (failed(outputs))
      return failure();
    samples.resize(outputs->size());
    for (auto [all, output] : llvm::zip_equal(samples, *outputs))
      all.push_back(output);
  }
  std::vector<Tensor> outputs;
  for (auto &all : samples) {
    auto joined = stack(node, all, 0, false);
    if (failed(joined))
      return failure();
    outputs.push_back(*joined);
  }
  return outputs;
}

static LogicalResult convertScan(NodeConverter &node) {
  const auto *body = graphOf(node, "body");
  if (!body)
    return failure();
  if (node.opset < 9) {
    auto outputs = scanSamples(node, *body);
    return failed(outputs) ? failure() : defineAll(node, *outputs);
  }
  if (node.numInputs() > 0 && !node.has(0)) // which opset 8 alone may leave out
    return node.error() << "lacks its input 0";
  std::vector<Tensor> inputs;
  for (int i = 0; i < node.numInputs(); ++i)
    inputs.push_back(node.input(i));
  auto outputs = scan(node, *body, inputs);
  return failed(outputs) ? failure() : defineAll(node, *outputs);
}

void addControlConverters(ConverterTable &table) {
  table["If"] = convertIf;
  table["Loop"] = Operator(convertLoop, 0).listsFrom(2).withSequences();
  table["Scan"] = Operator(convertScan, 0).listsFrom(1);
}

} // namespace dtc::import
