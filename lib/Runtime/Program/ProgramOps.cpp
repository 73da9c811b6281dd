// Checks of what instructions do: their operands and how these fit together.
#include "ProgramChecker.h"

#include "dtc-rt/Program/TensorCalls.h"

#include "dtc-rt/Program/PackageFormat.h"
#include "dtc-rt/Reduce.h"

namespace dtc::rt {
namespace {

/// Within what the largest GPU can do; a smaller one refuses the launch itself.
bool isPossible(const fbs::Geometry &geometry) {
  constexpr uint32_t kMostBlocks = 0x7fffffff, kMostThreads = 1024, kMostShared = 227 * 1024;
  return geometry.blocks() > 0 && geometry.blocks() <= kMostBlocks && geometry.threads() > 0 &&
         geometry.threads() <= kMostThreads && geometry.shared_bytes() <= kMostShared;
}

template <typename T> bool isKnown(T value, T last) {
  return static_cast<int>(value) <= static_cast<int>(last);
}

/// Bytes from the first to behind the last element of a strided view.
std::optional<uint64_t> spanBytes(const Dims &shape, const Dims &strides, int64_t elementBytes) {
  int64_t last = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t reach;
    if (strides[i] < 0 || __builtin_mul_overflow(shape[i] - 1, strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return std::nullopt;
  }
  int64_t bytes;
  if (__builtin_add_overflow(last, int64_t(1), &last) ||
      __builtin_mul_overflow(last, elementBytes, &bytes))
    return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

} // namespace

std::string ProgramChecker::checkOp(const fbs::Instruction &instruction) const {
  switch (instruction.op_type()) {
  case fbs::Op::Launch:
    return check(*instruction.op_as_Launch());
  case fbs::Op::Matmul:
    return check(*instruction.op_as_Matmul());
  case fbs::Op::Conv:
    return check(*instruction.op_as_Conv());
  case fbs::Op::Attention:
    return check(*instruction.op_as_Attention());
  case fbs::Op::Collective:
    return check(*instruction.op_as_Collective());
  case fbs::Op::Message:
    return check(*instruction.op_as_Message());
  case fbs::Op::GroupPosition:
    return check(*instruction.op_as_GroupPosition());
  case fbs::Op::Zero:
    return checkRef(instruction.op_as_Zero()->target(), instruction.op_as_Zero()->bytes());
  case fbs::Op::Copy: {
    const fbs::Copy *op = instruction.op_as_Copy();
    Text wrong = checkRef(op->source(), op->bytes());
    return wrong.empty() ? checkRef(op->target(), op->bytes()) : wrong;
  }
  default:
    return "unknown operation";
  }
}

std::string ProgramChecker::checkView(const fbs::Tensor &tensor, bool written) const {
  if (!isKnown(tensor.dtype(), fbs::DType::MAX))
    return "unknown element type";
  Dims shape = dimsOf(tensor.shape()), strides = dimsOf(tensor.strides());
  int64_t size = sizeOf(dtypeOf(tensor.dtype()));
  CheckedSize elements = CheckedSize::product(shape) * size;
  if (!elements || *elements == 0 || strides.size() != shape.size())
    return "impossible shape: " + shapeText(shape);
  std::optional<uint64_t> bytes = spanBytes(shape, strides, size);
  if (!bytes)
    return "impossible strides: " + shapeText(strides);
  for (size_t i = 0; written && i < shape.size(); ++i)
    if (shape[i] > 1 && strides[i] == 0)
      return "a result whose elements coincide: " + shapeText(strides);
  return checkRef(tensor.ref(), *bytes, static_cast<uint64_t>(size));
}

std::string ProgramChecker::check(const fbs::Launch &op) const {
  if (op.kernel() >= program.kernels()->size())
    return "calls a kernel that does not exist: " + std::to_string(op.kernel());
  if (op.extent() > uint64_t(1) << 62)
    return "impossible extent: " + std::to_string(op.extent());
  if (op.geometry() && !isPossible(*op.geometry()))
    return "impossible geometry: " + std::to_string(op.geometry()->blocks()) + " blocks of " +
           std::to_string(op.geometry()->threads()) + " threads with " +
           std::to_string(op.geometry()->shared_bytes()) + " shared bytes";
  if ((op.geometry() != nullptr) != manifest.isForGpu())
    return manifest.isForGpu() ? "lacks the geometry of its launch" : "has the geometry of a GPU";
  for (const fbs::Ref *ref : *op.args())
    if (Text wrong = checkRef(ref, 0); !wrong.empty())
      return wrong;
  uint64_t scratch;
  if (__builtin_mul_overflow(op.scratch_per_thread(), uint64_t(program.threads()), &scratch))
    return "impossible scratch";
  return scratch ? checkRef(op.scratch(), scratch) : Text();
}

std::string ProgramChecker::check(const fbs::Matmul &op) const {
  for (const fbs::Tensor *tensor : {op.a(), op.b(), op.c()})
    if (Text wrong = checkView(*tensor, tensor == op.c()); !wrong.empty())
      return wrong;
  Dims a = dimsOf(op.a()->shape()), b = dimsOf(op.b()->shape()), c = dimsOf(op.c()->shape());
  size_t rank = c.size();
  Text shapes = shapeText(a) + " * " + shapeText(b) + " -> " + shapeText(c);
  if (rank < 2 || rank > 12 || a.size() != rank || b.size() != rank)
    return "operands of wrong rank: " + shapes;
  for (size_t i = 0; i + 2 < rank; ++i)
    if ((a[i] != 1 && a[i] != c[i]) || (b[i] != 1 && b[i] != c[i]))
      return "batch dimensions differ: " + shapes;
  if (a[rank - 2] != c[rank - 2] || b[rank - 1] != c[rank - 1] || a[rank - 1] != b[rank - 2])
    return "shapes do not fit: " + shapes;
  if (Text wrong = checkEpilogue(op); !wrong.empty())
    return wrong;
  if (Text wrong = checkAddend(op); !wrong.empty())
    return wrong;
  return op.scratch_bytes() ? checkRef(op.scratch(), op.scratch_bytes(), 64) : Text();
}

/// The result fits, and so does what lies as it does.
std::string ProgramChecker::checkAddend(const fbs::Matmul &op) const {
  using enum fbs::Epilogue;
  if (!op.addend())
    return {};
  if (!manifest.isForGpu())
    return "adds a product to a tensor, as GPUs do";
  if (op.epilogue() != None && op.epilogue() != SumA && op.epilogue() != SumB)
    return Text("adds a product to a tensor beside its epilogue: ") +
           fbs::EnumNameEpilogue(op.epilogue());
  const int64_t size = sizeOf(dtypeOf(op.c()->dtype()));
  const auto bytes = spanBytes(dimsOf(op.c()->shape()), dimsOf(op.c()->strides()), size);
  return checkRef(op.addend(), bytes.value_or(0), static_cast<uint64_t>(size));
}

/// The shapes of the product fit.
std::string ProgramChecker::checkEpilogue(const fbs::Matmul &op) const {
  using enum fbs::Epilogue;
  const fbs::Epilogue kind = op.epilogue();
  if (!isKnown(kind, fbs::Epilogue::MAX))
    return "unknown epilogue of a product";
  const bool mayKeep = kind == Gelu || kind == BiasGelu;
  if ((op.vector() != nullptr) != hasVector(kind) || (kind == GeluGrad && !op.matrix()) ||
      (op.matrix() && kind != GeluGrad && !mayKeep))
    return Text("has more or fewer operands than its epilogue: ") + fbs::EnumNameEpilogue(kind);
  if (kind == None)
    return {};
  if (!manifest.isForGpu())
    return Text("has the epilogue of a GPU: ") + fbs::EnumNameEpilogue(kind);
  Dims shape = dimsOf(op.c()->shape()), strides = dimsOf(op.c()->strides());
  if (shape.size() != 2 || strides != Dims{shape[1], 1})
    return "has an epilogue, but a result that isn't a row-major matrix: " + shapeText(strides);
  const uint64_t size = sizeOf(dtypeOf(op.c()->dtype()));
  const uint64_t rows = uint64_t(shape[0]), columns = uint64_t(shape[1]);
  if (op.vector())
    if (Text wrong = checkRef(op.vector(), (kind == SumA ? rows : columns) * size, size);
        !wrong.empty())
      return wrong;
  return op.matrix() ? checkRef(op.matrix(), rows * columns * size, size) : Text();
}

/// The gradient is in its place, or apart from it.
std::string ProgramChecker::checkAddend(const fbs::Conv &op) const {
  if (!op.addend())
    return {};
  if (!manifest.isForGpu())
    return "adds a convolution to a tensor, as GPUs do";
  if (op.kind() != fbs::ConvKind::WeightGrad)
    return Text("adds another convolution than the gradient of a weight: ") +
           fbs::EnumNameConvKind(op.kind());
  const int64_t size = sizeOf(dtypeOf(op.weight()->dtype()));
  const auto span = spanBytes(dimsOf(op.weight()->shape()), dimsOf(op.weight()->strides()), size);
  const uint64_t bytes = span.value_or(0);
  if (Text wrong = checkRef(op.addend(), bytes, static_cast<uint64_t>(size)); !wrong.empty())
    return wrong;
  return checkApart(*op.addend(), bytes, *op.weight()->ref(), bytes, /*mayBeSame=*/true);
}

std::string ProgramChecker::check(const fbs::Conv &op) const {
  bool weightGrad = op.kind() == fbs::ConvKind::WeightGrad;
  if (!isKnown(op.kind(), fbs::ConvKind::MAX))
    return "unknown kind of convolution";
  std::pair<const fbs::Tensor *, bool> views[] = {
      {op.input(), op.kind() == fbs::ConvKind::InputGrad},
      {op.weight(), weightGrad},
      {op.output(), op.kind() == fbs::ConvKind::Forward}};
  for (auto [tensor, written] : views)
    if (Text wrong = checkView(*tensor, written); !wrong.empty())
      return wrong;
  Dims in = dimsOf(op.input()->shape()), weight = dimsOf(op.weight()->shape()),
       out = dimsOf(op.output()->shape());
  Text shapes = shapeText(in) + " * " + shapeText(weight) + " -> " + shapeText(out);
  size_t spatial = in.size() - 2;
  if (in.size() < 3 || in.size() > 5 || weight.size() != in.size() || out.size() != in.size())
    return "operands of wrong rank: " + shapes;
  int64_t groups = op.groups();
  if (groups < 1 || in[1] % groups != 0 || weight[0] % groups != 0 || weight[1] != in[1] / groups ||
      out[1] != weight[0] || out[0] != in[0])
    return "shapes do not fit: " + shapes;
  for (const auto *list : {op.strides(), op.pad_low(), op.pad_high(), op.dilations()})
    if (list->size() != spatial)
      return "a list is not of the spatial rank: " + std::to_string(list->size());
  for (uint32_t i = 0; i < spatial; ++i) {
    int64_t stride = op.strides()->Get(i), dilation = op.dilations()->Get(i);
    int64_t low = op.pad_low()->Get(i), high = op.pad_high()->Get(i);
    constexpr int64_t kMost = 1 << 30;
    if (stride < 1 || dilation < 1 || stride > kMost || dilation > kMost || low < 0 || high < 0 ||
        low > kMost || high > kMost || in[i + 2] > kMost || weight[i + 2] > kMost)
      return "impossible stride, dilation or padding: " + shapes;
    int64_t window = (weight[i + 2] - 1) * dilation + 1, padded = in[i + 2] + low + high;
    if (padded < window || (padded - window) / stride + 1 != out[i + 2])
      return "shapes do not fit: " + shapes;
  }
  if (Text wrong = checkAddend(op); !wrong.empty())
    return wrong;
  return op.scratch_bytes() ? checkRef(op.scratch(), op.scratch_bytes(), 64) : Text();
}

std::string ProgramChecker::check(const fbs::Attention &op) const {
  if (!isKnown(op.kind(), fbs::AttentionKind::MAX))
    return "unknown kind of attention";
  bool backward = op.kind() == fbs::AttentionKind::Backward;
  const uint32_t count = backward ? 9 : 5, firstWritten = backward ? 6 : 3;
  const bool hasBias = op.tensors()->size() == count + 1;
  if (op.tensors()->size() != count && !hasBias)
    return "wrong number of tensors: " + std::to_string(op.tensors()->size());
  std::vector<Dims> shapes;
  Text text;
  for (uint32_t i = 0; i < op.tensors()->size(); ++i) {
    const fbs::Tensor &tensor = *op.tensors()->Get(i);
    if (Text wrong = checkView(tensor, i >= firstWritten && i < count); !wrong.empty())
      return wrong;
    shapes.push_back(dimsOf(tensor.shape()));
    text += (i ? ", " : "") + shapeText(shapes.back());
  }
  const Dims &query = shapes[0], &key = shapes[1], &value = shapes[2];
  if (query.size() != 4 || key.size() != 4 || value.size() != 4)
    return "operands of wrong rank: " + text;
  Dims output = {query[0], query[1], query[2], value[3]};
  std::vector<Dims> fitting = {query,
                               {query[0], key[1], key[2], query[3]},
                               {query[0], key[1], key[2], value[3]},
                               output,
                               {query[0], query[2], query[1]}};
  if (backward)
    fitting.insert(fitting.end(), {output, query, key, value});
  if (hasBias) {
    Dims scores = {query[0], query[2], query[1], key[1]};
    for (size_t dim = 0; dim < 3 && shapes.back().size() == 4; ++dim)
      if (shapes.back()[dim] == 1)
        scores[dim] = 1;
    fitting.push_back(scores);
  }
  if (shapes != fitting || query[2] % key[2] != 0 || (op.causal() && query[1] > key[1]))
    return "shapes do not fit: " + text;
  if (op.window() < 0 || (op.window() > 0 && !op.causal()))
    return "the window isn't one of causal attention: " + std::to_string(op.window());
  return op.scratch_bytes() ? checkRef(op.scratch(), op.scratch_bytes(), 64) : Text();
}

std::string ProgramChecker::check(const fbs::Collective &op) const {
  if (op.group() >= program.groups()->size())
    return "unknown group: " + std::to_string(op.group());
  using fbs::CollectiveKind;
  if (!isKnown(op.kind(), CollectiveKind::MAX) || !isKnown(op.reduce(), fbs::ReduceKind::MAX) ||
      !isKnown(op.dtype(), fbs::DType::MAX))
    return "unknown kind of collective";
  bool reduces =
      op.kind() == CollectiveKind::AllReduce || op.kind() == CollectiveKind::ReduceScatter;
  if (reduces && !isReducible(dtypeOf(op.dtype())))
    return std::string("cannot be reduced: ") + fbs::EnumNameDType(op.dtype());
  bool takesSeveral = reduces || op.kind() == CollectiveKind::AllGather;
  if (op.operands()->size() == 0 || (!takesSeveral && op.operands()->size() != 1))
    return "wrong number of operands: " + std::to_string(op.operands()->size());
  int64_t size = groupSize(op.group());
  if (op.kind() == CollectiveKind::Permute) {
    if (!op.sources() || static_cast<int64_t>(op.sources()->size()) != size)
      return "wrong number of sources";
    for (int64_t source : *op.sources())
      if (source < 0 || source >= size)
        return "source out of range: " + std::to_string(source);
  }
  for (const fbs::CollectiveOperand *operand : *op.operands())
    if (Text wrong = checkOperand(op, *operand, size); !wrong.empty())
      return wrong;
  return {};
}

std::string ProgramChecker::checkOperand(const fbs::Collective &op,
                                         const fbs::CollectiveOperand &operand,
                                         int64_t groupSize) const {
  using fbs::CollectiveKind;
  int64_t element = sizeOf(dtypeOf(op.dtype()));
  Dims shape = dimsOf(operand.shape());
  CheckedSize source = CheckedSize::product(shape) * element;
  if (!source)
    return "impossible shape: " + shapeText(shape);
  bool usesDim = op.kind() != CollectiveKind::AllReduce && op.kind() != CollectiveKind::Permute;
  int64_t rank = static_cast<int64_t>(shape.size());
  if (usesDim && (op.dim() < 0 || op.dim() >= rank))
    return "dimension out of range: " + std::to_string(op.dim());
  if (op.kind() == CollectiveKind::AllToAll && (op.concat_dim() < 0 || op.concat_dim() >= rank))
    return "dimension out of range: " + std::to_string(op.concat_dim());
  if (usesDim && op.kind() != CollectiveKind::AllGather && shape[op.dim()] % groupSize != 0)
    return "the group does not divide the shape: " + shapeText(shape);
  int64_t target = *source;
  if (op.kind() == CollectiveKind::AllGather && __builtin_mul_overflow(target, groupSize, &target))
    return "impossible shape: " + shapeText(shape);
  if (op.kind() == CollectiveKind::ReduceScatter || op.kind() == CollectiveKind::Slice)
    target /= groupSize;
  for (auto [ref, bytes] : {std::pair(operand.source(), *source), {operand.target(), target}})
    if (Text wrong = checkRef(ref, static_cast<uint64_t>(bytes), static_cast<uint64_t>(element));
        !wrong.empty())
      return wrong;
  return checkApart(*operand.source(), static_cast<uint64_t>(*source), *operand.target(),
                    static_cast<uint64_t>(target), op.kind() != CollectiveKind::AllToAll);
}

/// References that go by the same numbers are compared for one; others for all.
std::string ProgramChecker::checkApart(const fbs::Ref &source, uint64_t sourceBytes,
                                       const fbs::Ref &target, uint64_t targetBytes,
                                       bool mayBeSame) const {
  if (source.space() != target.space())
    return {};
  bool together = source.scope() == target.scope() &&
                  (source.scope() == fbs::Scope::Step || source.stride() == target.stride());
  auto reach = [&](const fbs::Ref &ref) -> uint64_t {
    bool moves = !together && ref.scope() != fbs::Scope::Step;
    return moves ? (*numbers)[static_cast<size_t>(ref.scope())] * ref.stride() : 0;
  };
  uint64_t from = source.offset(), to = target.offset();
  bool same = together && from == to;
  if (from + reach(source) + sourceBytes <= to || to + reach(target) + targetBytes <= from ||
      (same && mayBeSame))
    return {};
  return "source and target overlap: offset " + std::to_string(to);
}

std::string ProgramChecker::check(const fbs::Message &op) const {
  if (!isKnown(op.kind(), fbs::MessageKind::MAX))
    return "unknown kind of message";
  if (op.peers() >= program.peers()->size())
    return "unknown peers: " + std::to_string(op.peers());
  for (const fbs::MessageBuffer *buffer : *op.buffers())
    if (Text wrong = checkRef(&buffer->ref(), buffer->bytes()); !wrong.empty())
      return wrong;
  return {};
}

std::string ProgramChecker::check(const fbs::GroupPosition &op) const {
  if (op.group() >= program.groups()->size())
    return "unknown group: " + std::to_string(op.group());
  return checkRef(op.target(), 8, 8);
}

} // namespace dtc::rt
