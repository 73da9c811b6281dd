#include "Emulator/Cudnn/AttentionGraph.h"

#include "Emulator/Device/DeviceMemory.h"
#include "Emulator/Device/Fault.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace dtc::emulator {

using namespace dtc::cuda;

namespace {

template <typename... Part> void requireSupport(bool condition, const Part &...parts) {
  require(condition, CUDNN_STATUS_NOT_SUPPORTED, parts...);
}

/// The graphs that have an engine and were seen to give right results: with each mask, with a bias
/// or none, and heads that share keys or don't. A bias goes with no window, and with no diagonal
/// that begins within the keys.
std::set<std::string> knownGraphs() {
  const std::string causal[] = {" index index ge select", " index index add sub ge select"};
  const std::string window = " index index add gt select";
  const std::string masks[] = {"", causal[0], causal[1], causal[0] + window, causal[1] + window};
  std::set<std::string> known;
  for (const std::string &mask : masks)
    for (const std::string scores : {"product mul", "product mul add"}) {
      if (scores.ends_with("add") && !mask.empty() && mask != causal[0])
        continue;
      known.insert(scores + mask + " max sub exp sum log add div product");
      for (const std::string heads : {"", " sum"})
        known.insert("mul sum mul " + scores + " sub" + mask + " exp reshape product" + heads +
                     " product sub mul mul reshape product" + heads + " reshape product identity");
    }
  return known;
}

/// The operation that makes scores, of a graph that makes gradients.
constexpr size_t kScoresOfGradient = 3;
/// The lowest number of fp32 has no product with log2 e. A softmax whose row had it would be no
/// number.
constexpr double kLeastBias = -2e38;

bool isHalf(const CudnnTensor &tensor) {
  return !tensor.isInteger && (tensor.kind == FloatKind::BF16 || tensor.kind == FloatKind::F16);
}

bool isDense(const CudnnTensor &tensor) {
  int64_t stride = 1;
  for (size_t dim = tensor.dims.size(); dim-- > 0; stride *= tensor.dims[dim])
    if (tensor.dims[dim] != 1 && tensor.strides[dim] != stride)
      return false;
  return true;
}

/// Of inputs: sizes of one are repeated.
bool fits(const CudnnTensor &input, const CudnnTensor &output) {
  for (size_t dim = 0; dim < 4; ++dim)
    if (input.dims[dim] != 1 && input.dims[dim] != output.dims[dim])
      return false;
  return true;
}

bool isProduct(const std::vector<int64_t> &a, const std::vector<int64_t> &b,
               const std::vector<int64_t> &c) {
  return a[0] == c[0] && b[0] == c[0] && a[1] == c[1] && c[1] % b[1] == 0 && a[2] == c[2] &&
         a[3] == b[2] && b[3] == c[3];
}

/// What a pointwise operation computes of each element. An index has no function of its inputs.
struct PointwiseMode {
  cudnnPointwiseMode_t mode;
  const char *name;
  size_t inputs;
  double (*apply)(const double *in);
};

const PointwiseMode &pointwiseMode(cudnnPointwiseMode_t mode) {
  using In = const double *;
  static const PointwiseMode modes[] = {
      {CUDNN_POINTWISE_ADD, "add", 2, [](In in) { return in[0] + in[1]; }},
      {CUDNN_POINTWISE_MUL, "mul", 2, [](In in) { return in[0] * in[1]; }},
      {CUDNN_POINTWISE_DIV, "div", 2, [](In in) { return in[0] / in[1]; }},
      {CUDNN_POINTWISE_SUB, "sub", 2, [](In in) { return in[0] - in[1]; }},
      {CUDNN_POINTWISE_EXP, "exp", 1, [](In in) { return std::exp(in[0]); }},
      {CUDNN_POINTWISE_LOG, "log", 1, [](In in) { return std::log(in[0]); }},
      {CUDNN_POINTWISE_IDENTITY, "identity", 1, [](In in) { return in[0]; }},
      {CUDNN_POINTWISE_CMP_GT, "gt", 2, [](In in) { return double(in[0] > in[1]); }},
      {CUDNN_POINTWISE_CMP_GE, "ge", 2, [](In in) { return double(in[0] >= in[1]); }},
      {CUDNN_POINTWISE_GEN_INDEX, "index", 1, nullptr},
      {CUDNN_POINTWISE_BINARY_SELECT, "select", 3,
       [](In in) { return in[2] != 0 ? in[0] : in[1]; }},
  };
  const auto *found = std::ranges::find(modes, mode, &PointwiseMode::mode);
  requireSupport(found != std::end(modes), "the emulator lacks a mode of pointwise operations");
  return *found;
}

using Numbers = std::vector<double>;
using Index = std::array<int64_t, 4>;

/// Places of elements in dense order.
struct Shape {
  explicit Shape(const CudnnTensor &tensor) { std::copy_n(tensor.dims.begin(), 4, dims.begin()); }
  int64_t at(const Index &index) const {
    int64_t place = 0;
    for (size_t i = 0; i < 4; ++i)
      place = place * dims[i] + (dims[i] == 1 ? 0 : index[i]);
    return place;
  }
  Index dims;
};

template <typename Visit> void forEach(const Index &dims, Visit &&visit) {
  Index at;
  for (at[0] = 0; at[0] < dims[0]; ++at[0])
    for (at[1] = 0; at[1] < dims[1]; ++at[1])
      for (at[2] = 0; at[2] < dims[2]; ++at[2])
        for (at[3] = 0; at[3] < dims[3]; ++at[3])
          visit(at);
}

/// What the operations of a graph compute: the elements of tensors in dense order, by id.
class GraphValues {
public:
  explicit GraphValues(const CudnnCall &call) : call(call) {}

  /// Rounds to the tensor's type.
  void put(const CudnnTensor &tensor, Numbers numbers) {
    if (!tensor.isInteger)
      for (double &number : numbers)
        number = rounded(number, tensor.kind);
    values[tensor.id] = std::move(numbers);
  }
  const Numbers &of(const CudnnTensor &tensor) {
    if (tensor.isOfHost)
      values[tensor.id] = {call.hostNumbers.at(tensor.id)};
    return values.at(tensor.id);
  }
  void compute(const GraphStep &step) {
    switch (step.kind) {
    case GraphStep::Kind::Pointwise:
      return put(step.output, pointwise(step));
    case GraphStep::Kind::Product:
      return put(step.output, product(step));
    case GraphStep::Kind::Reduction:
      return put(step.output, reduction(step));
    case GraphStep::Kind::Reshape:
      return put(step.output, reshape(step));
    }
  }

private:
  Numbers pointwise(const GraphStep &step) {
    const PointwiseMode &mode = pointwiseMode(step.mode);
    Numbers result;
    std::vector<const Numbers *> numbers;
    std::vector<Shape> shapes;
    for (const CudnnTensor &input : step.inputs) {
      numbers.push_back(&of(input));
      shapes.emplace_back(input);
    }
    forEach(Shape(step.output).dims, [&](const Index &at) {
      std::array<double, 3> in = {};
      for (size_t i = 0; i < numbers.size(); ++i)
        in[i] = (*numbers[i])[shapes[i].at(at)];
      result.push_back(mode.apply ? mode.apply(in.data()) : static_cast<double>(at[step.axis]));
    });
    return result;
  }

  /// Heads of the second operand are shared by neighbours of the first.
  Numbers product(const GraphStep &step) {
    const Numbers &a = of(step.inputs[0]), &b = of(step.inputs[1]);
    Shape left(step.inputs[0]), right(step.inputs[1]);
    int64_t inner = left.dims[3], shared = left.dims[1] / right.dims[1], columns = right.dims[3];
    Numbers result;
    forEach(Shape(step.output).dims, [&](const Index &at) {
      const double *row = &a[left.at({at[0], at[1], at[2], 0})];
      const double *column = &b[right.at({at[0], at[1] / shared, 0, at[3]})];
      double sum = 0;
      for (int64_t k = 0; k < inner; ++k)
        sum += row[k] * column[k * columns];
      result.push_back(sum);
    });
    return result;
  }

  Numbers reduction(const GraphStep &step) {
    Shape from(step.inputs[0]), to(step.output);
    bool isMax = step.reduction == CUDNN_REDUCE_TENSOR_MAX;
    const Numbers &input = of(step.inputs[0]);
    Numbers result(step.output.elements(), isMax ? -std::numeric_limits<double>::infinity() : 0.0);
    size_t number = 0;
    forEach(from.dims, [&](Index at) {
      for (size_t dim = 0; dim < 4; ++dim)
        at[dim] /= from.dims[dim] / to.dims[dim];
      double &sum = result[to.at(at)], value = input[number++];
      sum = isMax ? std::max(sum, value) : sum + value;
    });
    return result;
  }

  /// Another view of the same places.
  Numbers reshape(const GraphStep &step) {
    const CudnnTensor &from = step.inputs[0];
    const Numbers &input = of(from);
    Numbers places(from.extent() / bytesOf(from.kind)), result;
    forEachElement(from, [&](int64_t number, int64_t place) { places[place] = input[number]; });
    forEachElement(step.output,
                   [&](int64_t, int64_t place) { result.push_back(places.at(place)); });
    return result;
  }

  const CudnnCall &call;
  std::map<int64_t, Numbers> values;
};

} // namespace

std::string GraphStep::name() const {
  switch (kind) {
  case Kind::Product:
    return "product";
  case Kind::Reshape:
    return "reshape";
  case Kind::Reduction:
    return reduction == CUDNN_REDUCE_TENSOR_MAX ? "max" : "sum";
  case Kind::Pointwise:
    break;
  }
  return pointwiseMode(mode).name;
}

void GraphStep::check() const {
  require(kind != Kind::Pointwise || inputs.size() == pointwiseMode(mode).inputs,
          "a pointwise operation has another number of inputs");
  std::string shapes = name();
  for (const CudnnTensor &input : inputs)
    shapes += " " + input.text();
  shapes += " -> " + output.text();
  for (const CudnnTensor &input : inputs)
    require(input.dims.size() == 4 && output.dims.size() == 4,
            "attention takes tensors of four dimensions: ", shapes);
  const CudnnTensor &first = inputs.front();
  bool isFine = true;
  switch (kind) {
  case Kind::Product:
    isFine = isProduct(first.dims, inputs[1].dims, output.dims);
    break;
  case Kind::Reshape:
    isFine = first.elements() == output.elements() &&
             first.extent() / bytesOf(first.kind) == output.extent() / bytesOf(output.kind);
    break;
  case Kind::Reduction:
    for (size_t dim = 0; dim < 4; ++dim)
      isFine &= first.dims[dim] % output.dims[dim] == 0;
    break;
  case Kind::Pointwise:
    for (const CudnnTensor &input : inputs)
      isFine &= fits(input, output);
  }
  require(isFine, "operands of attention don't fit: ", shapes);
}

std::string AttentionGraph::names() const {
  std::string all;
  for (const GraphStep &step : steps)
    all += (all.empty() ? "" : " ") + step.name();
  return all;
}

std::set<int64_t> AttentionGraph::biases() const {
  std::set<int64_t> ids;
  for (const GraphStep &step : steps)
    if (step.kind == GraphStep::Kind::Pointwise && step.mode == CUDNN_POINTWISE_ADD &&
        !step.inputs[1].isVirtual && !step.inputs[1].isOfHost)
      ids.insert(step.inputs[1].id);
  return ids;
}

std::set<int64_t> AttentionGraph::made() const {
  std::set<int64_t> ids;
  for (const GraphStep &step : steps)
    ids.insert(step.output.id);
  return ids;
}

void AttentionGraph::checkBias(const CudnnTensor &tensor) const {
  const CudnnTensor &scores = steps.front().kind == GraphStep::Kind::Product
                                  ? steps.front().output
                                  : steps[kScoresOfGradient].output;
  const std::vector<int64_t> ofSample = {1, scores.dims[1], scores.dims[2], scores.dims[3]};
  require(isDense(tensor), "a bias of attention is dense");
  requireSupport(
      tensor.dims == ofSample && isHalf(tensor),
      "of attention with a bias, true gradients are known to be right only where it has a "
      "number of halves for each score of a sample");
}

void AttentionGraph::checkOperand(const CudnnTensor &tensor) const {
  constexpr int64_t kMultiple = 8, kMost = 128;
  require(tensor.alignment % 16 == 0, "a tensor of attention has to be aligned to 16 bytes");
  if (biases().contains(tensor.id))
    return checkBias(tensor);
  if (!isHalf(tensor)) {
    requireSupport(tensor.kind == FloatKind::F32 &&
                       (tensor.dims[3] == 1 || made().contains(tensor.id)),
                   "cuDNN's attention takes operands of one type, bf16 or fp16");
    return require(isDense(tensor), "sums and statistics of attention are dense");
  }
  int64_t head = tensor.strides[3] == 1 ? 3 : 2; // of keys and values also turned over
  require(tensor.strides[head] == 1, "the elements of a head don't follow each other");
  requireSupport(tensor.dims[head] % kMultiple == 0 && tensor.dims[head] <= kMost,
                 "cuDNN has no attention of heads of ", tensor.dims[head]);
  for (int64_t stride : tensor.strides)
    requireSupport(stride == 1 || stride % kMultiple == 0, "a head doesn't begin at 16 bytes");
}

void AttentionGraph::check() const {
  static const std::set<std::string> known = knownGraphs();
  requireSupport(known.contains(names()), "cuDNN has no engine for the graph: ", names());
  std::set<int64_t> there;
  const std::set<int64_t> all = made();
  std::set<FloatKind> kinds;
  for (const GraphStep &step : steps) {
    step.check();
    for (const CudnnTensor &input : step.inputs)
      require(there.contains(input.id) || (!all.contains(input.id) && !input.isVirtual),
              "an operation reads what none before it makes: ", input.id);
    require(there.insert(step.output.id).second && !step.output.isOfHost,
            "a tensor is made twice: ", step.output.id);
    if (step.kind == GraphStep::Kind::Product)
      for (const CudnnTensor &input : step.inputs)
        if (!input.isVirtual)
          kinds.insert(input.kind);
  }
  for (const CudnnTensor &tensor : tensors())
    if (!tensor.isOfHost)
      checkOperand(tensor);
  requireSupport(kinds.size() == 1 && !kinds.contains(FloatKind::F32),
                 "cuDNN's attention takes operands of one type, bf16 or fp16");
}

std::vector<CudnnTensor> AttentionGraph::tensors() const {
  std::vector<CudnnTensor> all;
  std::set<int64_t> known;
  auto add = [&](const CudnnTensor &tensor) {
    if (!tensor.isVirtual && known.insert(tensor.id).second)
      all.push_back(tensor);
  };
  for (const GraphStep &step : steps) {
    std::ranges::for_each(step.inputs, add);
    add(step.output);
  }
  return all;
}

/// That of the most demanding engine: it sums up what the last product makes once more.
uint64_t AttentionGraph::workspaceBytes() const {
  uint64_t bytes = 256;
  bool isBackward = steps.back().kind == GraphStep::Kind::Pointwise;
  if (isBackward)
    bytes += 4 * steps.back().output.elements();
  for (const GraphStep &step : steps)
    if (step.kind == GraphStep::Kind::Product && isBackward && step.output.isVirtual &&
        isHalf(step.output))
      bytes += 2 * step.output.elements();
  return bytes;
}

std::string AttentionGraph::text() const {
  bool isBackward = steps.back().kind == GraphStep::Kind::Pointwise;
  const CudnnTensor &result = steps.back().output;
  return (isBackward ? "gradient of attention " : "attention ") + result.text();
}

void AttentionGraph::checkNumbers(const CudnnCall &call) const {
  auto numberOf = [&](const GraphStep &step) { return call.hostNumbers.at(step.inputs[1].id); };
  for (const GraphStep &step : steps) {
    if (step.kind != GraphStep::Kind::Pointwise)
      continue;
    if (step.mode == CUDNN_POINTWISE_BINARY_SELECT)
      require(numberOf(step) == -std::numeric_limits<double>::infinity(),
              "masked scores aren't -infinity");
    if (!step.output.isInteger || step.inputs.size() < 2 || !step.inputs[1].isOfHost)
      continue;
    int64_t size = step.output.dims[step.mode == CUDNN_POINTWISE_ADD ? 3 : 2];
    require(numberOf(step) == static_cast<double>(size),
            "the numbers of queries and keys aren't those of the tensors");
  }
}

Accesses AttentionGraph::run(const CudnnCall &call, const DeviceMemory &memory) const {
  Accesses accesses;
  GraphValues values(call);
  const std::set<int64_t> all = made();
  for (const CudnnTensor &tensor : tensors()) {
    if (tensor.isOfHost)
      continue;
    uint64_t address = call.addresses.at(tensor.id);
    memory.translate(address, tensor.extent());
    bool isMade = all.contains(tensor.id);
    tensor.addTo(isMade ? accesses.writes : accesses.reads, address);
    if (!isMade)
      values.put(tensor, loadDense(tensor, address, memory));
    if (biases().contains(tensor.id))
      for (double number : values.of(tensor))
        if (!(std::abs(number) < -kLeastBias))
          throw Fault(CUDNN_STATUS_EXECUTION_FAILED, "a bias of attention is too large: ", number);
  }
  overwriteWorkspace(call, memory, accesses);
  for (const GraphStep &step : steps)
    values.compute(step);
  for (const CudnnTensor &tensor : tensors())
    if (!tensor.isOfHost && all.contains(tensor.id))
      storeDense(tensor, values.of(tensor), call.addresses.at(tensor.id), memory);
  sortByAddress(accesses);
  return accesses;
}

} // namespace dtc::emulator
