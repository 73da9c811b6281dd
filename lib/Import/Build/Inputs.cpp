#include "dtc/Import/Build/Inputs.h"

#include "dtc/Import/Build/FileTensor.h"
#include "dtc/Import/Unsupported.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace dtc::import {

namespace {
class Binder {
public:
  Binder(Location file, const ImportOptions &options, std::optional<int64_t> batch)
      : file(file), options(options), batch(batch) {}

  FailureOr<BoundInputs> run(const std::vector<FileInput> &inputs);

private:
  FailureOr<int64_t> bindDim(const std::string &input, int64_t index, const FileDim &dim);
  /// Which dimension has the samples; none where no dimension has.
  std::optional<int64_t> batchDimOf(const std::string &input) const {
    const auto given = options.batchDims.find(input);
    return given == options.batchDims.end() ? 0 : given->second;
  }
  FailureOr<RankedTensorType> typeOf(const FileInput &input, const InputShape *given);
  LogicalResult noteBatch(const FileInput &input, ArrayRef<int64_t> shape, const InputShape *given);

  Location file;
  const ImportOptions &options;
  std::optional<int64_t> batch;
  BoundInputs bound;
};
} // namespace

/// The size of one dimension of an input.
FailureOr<int64_t> Binder::bindDim(const std::string &input, int64_t index, const FileDim &dim) {
  const auto given = options.shapes.find(input);
  const bool isBatch = batchDimOf(input) == index;
  std::optional<int64_t> wanted;
  if (given != options.shapes.end())
    wanted = given->second.dims[index];
  if (dim.size) {
    const int64_t size = *dim.size;
    if (size < 1)
      return LogicalResult(emitError(file) << "the input " << input << " has a bad size: " << size);
    if (wanted && *wanted != size && !isBatch)
      return LogicalResult(emitError(file)
                           << "the input " << input << " has the fixed size " << size
                           << " in dimension " << index << ", not " << *wanted);
    return size;
  }
  if (isBatch && batch)
    wanted = batch;
  const std::string &symbol = dim.symbol;
  if (!symbol.empty()) {
    auto [known, fresh] = bound.symbols.try_emplace(symbol, wanted.value_or(isBatch ? 1 : 0));
    if (fresh && known->second == 0) {
      bound.symbols.erase(known);
    } else {
      if (wanted && *wanted != known->second)
        return LogicalResult(emitError(file)
                             << "the dimension " << symbol
                             << " is given two sizes: " << known->second << " and " << *wanted);
      return known->second;
    }
  }
  if (!wanted && isBatch)
    wanted = 1;
  if (!wanted)
    return LogicalResult(emitError(file) << "dimension " << index << " of the input " << input
                                         << " has no size in the file; give its shape with --shape "
                                         << input << "=...");
  return *wanted;
}

static std::string typeName(Type type) {
  std::string name;
  llvm::raw_string_ostream(name) << type;
  return name;
}

/// What the file and --shape, where it gives one, say of an input.
FailureOr<RankedTensorType> Binder::typeOf(const FileInput &input, const InputShape *given) {
  auto refuse = [&] { return emitError(file) << "the input " << input.name << " has "; };
  if (!input.element || input.element.isUnsignedInteger() || input.element.isInteger(16))
    return unsupported(refuse()) << "an unsupported type";
  if (!input.dims && !given)
    return refuse() << "no shape in the file; give it with --shape " << input.name << "=...";
  if (given && !given->type.empty() && given->type != typeName(input.element))
    return refuse() << "the type " << input.element << ", --shape gives " << given->type;
  SmallVector<int64_t> shape;
  if (!input.dims) {
    shape.assign(given->dims.begin(), given->dims.end());
    const std::optional<int64_t> samples = batchDimOf(input.name);
    if (batch && samples && *samples >= 0 && *samples < int64_t(shape.size()))
      shape[*samples] = *batch;
  }
  if (given && input.dims && given->dims.size() != input.dims->size())
    return refuse() << input.dims->size() << " dimensions, --shape gives " << given->dims.size();
  for (size_t i = 0; input.dims && i < input.dims->size(); ++i) {
    auto size = bindDim(input.name, i, (*input.dims)[i]);
    if (failed(size))
      return failure();
    shape.push_back(*size);
  }
  if (const std::string wrong = describeBadShape(shape); !wrong.empty())
    return LogicalResult(emitError(file) << "the input " << input.name << " " << wrong);
  return RankedTensorType::get(shape, input.element);
}

/// The batch of an input must be that of the others, where the file fixes it.
LogicalResult Binder::noteBatch(const FileInput &input, ArrayRef<int64_t> shape,
                                const InputShape *given) {
  const std::optional<int64_t> dim = batchDimOf(input.name);
  if (dim != 0) {
    if (dim && (*dim < 0 || *dim >= int64_t(shape.size())))
      return emitError(file) << "--batch-dim names dimension " << *dim << " of the input "
                             << input.name << ", which has " << shape.size();
    bound.batchDims[input.name] = dim;
  }
  if (!dim || shape.empty())
    return success();
  const bool fixed = input.dims && !input.dims->empty() && (*input.dims)[*dim].size;
  if (bound.fileBatch > 0 && fixed && shape[*dim] != bound.fileBatch)
    return emitError(file) << "inputs have different batch sizes, the first dimension of each: "
                           << bound.batchOf << " has " << bound.fileBatch << ", " << input.name
                           << " has " << shape[*dim] << " (--batch-dim says where else it is)";
  if (bound.fileBatch < 0 || fixed) {
    bound.fileBatch = fixed ? shape[*dim] : 0;
    bound.batchOf = input.name;
  }
  if (given)
    bound.shapeBatch = given->dims[*dim];
  return success();
}

FailureOr<BoundInputs> Binder::run(const std::vector<FileInput> &inputs) {
  std::map<std::string, InputShape> unknown = options.shapes;
  std::map<std::string, RankedTensorType> types;
  for (const auto &[name, dim] : options.batchDims)
    if (llvm::none_of(inputs, [&](const FileInput &input) { return input.name == name; }))
      return LogicalResult(emitError(file) << "--batch-dim names no input of the model: " << name);
  // Inputs with a given shape come first: their symbols bind those of the others.
  for (bool withShape : {true, false})
    for (const FileInput &input : inputs) {
      const auto found = options.shapes.find(input.name);
      const InputShape *given = found == options.shapes.end() ? nullptr : &found->second;
      if ((given != nullptr) != withShape)
        continue;
      unknown.erase(input.name);
      auto type = typeOf(input, given);
      if (failed(type) || failed(noteBatch(input, type->getShape(), given)))
        return failure();
      types[input.name] = *type;
    }
  if (!unknown.empty())
    return LogicalResult(emitError(file)
                         << "--shape names no input of the model: " << unknown.begin()->first);
  for (const FileInput &input : inputs)
    bound.inputs.push_back({input.name, types.at(input.name)});
  return std::move(bound);
}

FailureOr<BoundInputs> bindInputs(Location file, const ImportOptions &options,
                                  const std::vector<FileInput> &inputs,
                                  std::optional<Samples> samples) {
  return Binder(file, options, samples ? std::optional(samples->step) : std::nullopt).run(inputs);
}

} // namespace dtc::import
