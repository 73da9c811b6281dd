#include "StoredTensors.h"

#include "InPlace.h"

#include "dtc-io/CheckedSize.h"
#include "dtc/Import/Build/Host.h"
#include "dtc/Import/Unsupported.h"

using namespace mlir;

namespace dtc::import {

/// Whether elements lie one after the other, the last dimension's first.
static bool isRowMajor(const std::vector<int64_t> &shape, const std::vector<int64_t> &strides) {
  io::CheckedSize step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && (!step || strides[i] != *step))
      return false;
    step = step * io::CheckedSize(shape[i]);
  }
  return true;
}

/// Both parts of a complex number lie side by side: they are one more dimension.
static Payload withParts(Payload payload) {
  auto twice = [](int64_t &count) {
    if (__builtin_mul_overflow(count, 2, &count))
      count = -1;
  };
  TensorMeta &meta = payload.meta;
  meta.dims.push_back({2, ""});
  for (int64_t &stride : meta.strides)
    twice(stride);
  meta.strides.push_back(1);
  twice(meta.offset);
  return payload;
}

/// Finds the bytes. A storage without any bytes is of a fake tensor: there is no data.
LogicalResult StoredTensors::locate(const Payload &payload, const std::string &folder,
                                    FileTensor &tensor) const {
  if (payload.bytes) {
    if (payload.bytes->size() != tensor.weight.size)
      return refuse() << "the tensor " << tensor.name << " needs " << tensor.weight.size
                      << " bytes, and has " << payload.bytes->size();
    tensor.weight.data = reinterpret_cast<const std::byte *>(payload.bytes->data());
    tensor.weight.owner = payload.bytes;
    return success();
  }
  const std::string member = root + folder + payload.member;
  auto found = zip.members().find(member);
  if (found == zip.members().end())
    return refuse() << "the tensor " << tensor.name
                    << " lies in a member that is not there: " << member;
  if (!found->second.stored)
    return refuse() << "the tensor " << tensor.name << " is compressed: " << member;
  if (found->second.size == 0)
    return success();
  const TensorMeta &meta = payload.meta;
  if (meta.strides.size() != tensor.weight.shape.size() || meta.offset < 0 ||
      !isRowMajor(tensor.weight.shape, meta.strides))
    return refuse() << "the tensor " << tensor.name
                    << " is not stored row by row; make it contiguous before the export";
  const io::CheckedSize begin = io::CheckedSize(meta.offset) * elementBytes(tensor.element);
  const io::CheckedSize end = begin + io::CheckedSize(int64_t(tensor.weight.size));
  if (!end.isAtMost(int64_t(found->second.size)))
    return refuse() << "the tensor " << tensor.name << " needs more bytes than the "
                    << found->second.size << " of " << member;
  tensor.weight.data =
      reinterpret_cast<const std::byte *>(zip.bytes(found->second).data()) + *begin;
  tensor.weight.owner = owner;
  return success();
}

/// Floats of parameters train as the module says; small integers and single numbers are computed
/// with while importing, but for buffers that change.
static void decideKind(FileTensor &tensor, bool requiresGrad, bool changes) {
  const bool isFloat = isa<FloatType>(tensor.element);
  const bool small = tensor.weight.size <= uint64_t(kConstantLimit);
  const bool single = tensor.weight.shape.empty();
  tensor.kindRecorded = tensor.kind != TensorKind::Constant;
  const bool known = tensor.weight.data || tensor.weight.size == 0; // such as an empty cache
  const bool folds = known && small && tensor.kind != TensorKind::Parameter &&
                     !(changes && tensor.kind == TensorKind::Buffer) &&
                     (!isFloat || single || tensor.kind == TensorKind::Constant);
  if (folds)
    tensor.kind = TensorKind::Constant;
  else if (tensor.kind == TensorKind::Constant || !isFloat)
    tensor.kind = TensorKind::Buffer;
  tensor.trainable = tensor.kind == TensorKind::Parameter && requiresGrad;
}

FailureOr<AtenTensor> StoredTensors::read(const NamedTensor &named, const Payloads &payloads,
                                          const std::string &folder, bool changes) const {
  auto found = payloads.find(named.name);
  if (found == payloads.end())
    return LogicalResult(refuse() << "does not say where the tensor " << named.name << " lies");
  const Payload payload = found->second.meta.isComplex ? withParts(found->second) : found->second;
  if (payload.pickled)
    return LogicalResult(refuse() << "the tensor " << named.name
                                  << " is a pickle of a class of its own, which is not read");
  AtenTensor result{named.value, {}, "", payload.meta.isComplex};
  FileTensor &tensor = result.tensor;
  tensor.name = named.name;
  tensor.kind = named.kind;
  tensor.element = payload.meta.element;
  if (!tensor.element)
    return LogicalResult(unsupported(refuse())
                         << "the tensor " << named.name << " has an unsupported type");
  if (payload.meta.isComplex && (named.kind == TensorKind::Parameter || changes))
    return LogicalResult(unsupported(refuse())
                         << "the tensor " << named.name << " is complex and changes in training");
  for (const FileDim &dim : payload.meta.dims)
    tensor.weight.shape.push_back(dim.size.value_or(-1));
  if (const std::string wrong = describeBadShape(tensor.weight.shape); !wrong.empty())
    return LogicalResult(refuse() << "the tensor " << named.name << " " << wrong);
  tensor.weight.dtype = safetensorsName(tensor.element);
  tensor.weight.size =
      *(io::CheckedSize::product(tensor.weight.shape) * elementBytes(tensor.element));
  if (failed(locate(payload, folder, tensor)))
    return failure();
  decideKind(tensor, payload.meta.requiresGrad, changes);
  return result;
}

/// Tensors that are one storage are one tensor. Which name it has: the one that the program reads.
LogicalResult StoredTensors::tie(const AtenGraph &graph) const {
  std::vector<const AtenTensor *> order;
  for (const AtenTensor &each : graph.tensors)
    if (each.tensor.weight.data && each.tensor.weight.size > 0)
      order.push_back(&each);
  llvm::stable_sort(order, [](const AtenTensor *a, const AtenTensor *b) {
    return a->tensor.weight.data < b->tensor.weight.data;
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const Weight &before = order[i - 1]->tensor.weight, &weight = order[i]->tensor.weight;
    const bool same =
        before.data == weight.data && before.shape == weight.shape && before.dtype == weight.dtype;
    if (!same && weight.data < before.data + before.size)
      return refuse() << "the tensors " << order[i - 1]->tensor.name << " and "
                      << order[i]->tensor.name << " share some of their elements";
  }
  return success();
}

LogicalResult StoredTensors::tieAs(const Ties &ties, AtenGraph &graph) const {
  std::map<std::string, AtenTensor *> byName;
  for (AtenTensor &each : graph.tensors)
    byName.emplace(each.tensor.name, &each);
  for (const std::vector<std::string> &names : ties) {
    const AtenTensor *first = nullptr;
    for (const std::string &name : names) {
      auto found = byName.find(name);
      if (found == byName.end())
        continue; // nothing reads it
      AtenTensor &each = *found->second;
      first = first ? first : &each;
      const Weight &weight = each.tensor.weight, &other = first->tensor.weight;
      if (weight.data || !each.tiedTo.empty() || weight.shape != other.shape ||
          weight.dtype != other.dtype)
        return refuse() << "ties the tensors " << first->tensor.name << " and " << name
                        << ", which can't be one";
      each.tiedTo = first->tensor.name;
    }
  }
  return success();
}

LogicalResult
StoredTensors::readAll(Program &program,
                       llvm::function_ref<Source(const NamedTensor &)> sourceOf) const {
  const llvm::StringSet<> changed = changedValues(program.graph);
  for (const NamedTensor &named : program.tensors) {
    const Source source = sourceOf(named);
    auto tensor = read(named, source.payloads, source.folder, changed.contains(named.value));
    if (failed(tensor))
      return failure();
    program.graph.tensors.push_back(std::move(*tensor));
  }
  return tie(program.graph);
}

} // namespace dtc::import
