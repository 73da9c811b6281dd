#include "dtc/Import/ONNX/Import.h"

#include "GraphBuilder.h"
#include "Parameters.h"
#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Raise/Passes.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace dtc::import {

namespace {

struct DataInput {
  std::string name;
  RankedTensorType type;
};

/// Declares arguments, converts the nodes and closes the function.
class Importer {
public:
  Importer(MLIRContext &context, const ImportOptions &options, const Model &model,
           std::optional<int64_t> batch)
      : context(context), options(options), model(model), batch(batch), reader(model) {}

  FailureOr<ImportedModel> run();

private:
  FailureOr<RankedTensorType> typeOf(const onnx::ValueInfoProto &info, const InputShape *given);
  LogicalResult noteBatch(const onnx::ValueInfoProto &info, ArrayRef<int64_t> shape,
                          const InputShape *given);
  LogicalResult bindInputs();
  FailureOr<int64_t> bindDim(const std::string &input, int64_t index,
                             const onnx::TensorShapeProto::Dimension &dim);
  LogicalResult declare(const std::vector<FileTensor> &tensors, ImportedModel &result);
  LogicalResult finish(ArrayRef<std::string> outputs);
  LogicalResult markPaddingRows();

  graph::RoleAttr role(graph::RoleKind kind, StringRef name) {
    return graph::RoleAttr::get(&context, kind, name, std::nullopt, std::nullopt);
  }

  MLIRContext &context;
  const ImportOptions &options;
  const Model &model;
  Budget budget = model.budget; ///< what reading the file left
  std::optional<int64_t> batch; ///< that is asked for
  TensorReader reader;
  std::vector<DataInput> inputs;
  std::map<std::string, int64_t> symbols; ///< sizes of symbolic dimensions
  int64_t fileBatch = -1;                 ///< 0: symbolic, -1: no input has a batch
  std::string batchOf;                    ///< the input that says so
  std::optional<int64_t> shapeBatch;      ///< from --shape
  func::FuncOp func;
  llvm::StringMap<Tensor> values;
};

} // namespace

/// Some exporters write -1 where a dimension has no fixed size.
static bool hasSize(const onnx::TensorShapeProto::Dimension &dim) {
  return dim.has_dim_value() && dim.dim_value() != -1;
}

/// The size of one dimension of an input.
FailureOr<int64_t> Importer::bindDim(const std::string &input, int64_t index,
                                     const onnx::TensorShapeProto::Dimension &dim) {
  const auto given = options.shapes.find(input);
  std::optional<int64_t> wanted;
  if (given != options.shapes.end())
    wanted = given->second.dims[index];
  if (hasSize(dim)) {
    const int64_t size = dim.dim_value();
    if (size < 1)
      return LogicalResult(emitError(model.location)
                           << "the input " << input << " has a bad size: " << size);
    if (wanted && *wanted != size && index != 0)
      return LogicalResult(emitError(model.location)
                           << "the input " << input << " has the fixed size " << size
                           << " in dimension " << index << ", not " << *wanted);
    return size;
  }
  if (index == 0 && batch)
    wanted = *batch;
  const std::string &symbol = dim.dim_param();
  if (!symbol.empty()) {
    auto [known, fresh] = symbols.try_emplace(symbol, wanted.value_or(index == 0 ? 1 : 0));
    if (fresh && known->second == 0) {
      symbols.erase(known);
    } else {
      if (wanted && *wanted != known->second)
        return LogicalResult(emitError(model.location)
                             << "the dimension " << symbol << " is given two sizes: "
                             << known->second << " and " << *wanted);
      return known->second;
    }
  }
  if (!wanted && index == 0)
    wanted = 1;
  if (!wanted)
    return LogicalResult(emitError(model.location)
                         << "dimension " << index << " of the input " << input
                         << " has no size in the file; give its shape with --shape " << input
                         << "=...");
  return *wanted;
}

static std::string typeName(Type type) {
  std::string name;
  llvm::raw_string_ostream(name) << type;
  return name;
}

/// What the file and --shape, where it gives one, say of an input.
FailureOr<RankedTensorType> Importer::typeOf(const onnx::ValueInfoProto &info,
                                             const InputShape *given) {
  const auto &type = info.type().tensor_type();
  Type element = elementType(&context, type.elem_type());
  auto refuse = [&] { return emitError(model.location) << "the input " << info.name() << " has "; };
  if (!info.type().has_tensor_type() || !element || element.isUnsignedInteger())
    return refuse() << "an unsupported type";
  if (!type.has_shape() && !given)
    return refuse() << "no shape in the file; give it with --shape " << info.name() << "=...";
  if (given && !given->type.empty() && given->type != typeName(element))
    return refuse() << "the type " << element << ", --shape gives " << given->type;
  Shape shape;
  if (!type.has_shape())
    shape.assign(given->dims.begin(), given->dims.end());
  if (given && type.has_shape() && given->dims.size() != size_t(type.shape().dim_size()))
    return refuse() << type.shape().dim_size() << " dimensions, --shape gives "
                    << given->dims.size();
  for (int i = 0; i < type.shape().dim_size(); ++i) {
    auto size = bindDim(info.name(), i, type.shape().dim(i));
    if (failed(size))
      return failure();
    shape.push_back(*size);
  }
  if (failed(checkShape(model, shape, "the input " + info.name())))
    return failure();
  return RankedTensorType::get(shape, element);
}

/// The batch of an input must be that of the others, where the file fixes it.
LogicalResult Importer::noteBatch(const onnx::ValueInfoProto &info, ArrayRef<int64_t> shape,
                                  const InputShape *given) {
  if (shape.empty())
    return success();
  const auto &inFile = info.type().tensor_type().shape();
  const bool fixed = inFile.dim_size() > 0 && hasSize(inFile.dim(0));
  if (fileBatch > 0 && fixed && shape[0] != fileBatch)
    return emitError(model.location)
           << "inputs have different batch sizes, the first dimension of each: " << batchOf
           << " has " << fileBatch << ", " << info.name() << " has " << shape[0];
  if (fileBatch < 0 || fixed) {
    fileBatch = fixed ? shape[0] : 0;
    batchOf = info.name();
  }
  if (given)
    shapeBatch = given->dims[0];
  return success();
}

LogicalResult Importer::bindInputs() {
  const auto stored = initializers(model);
  std::map<std::string, InputShape> unknown = options.shapes;
  // Inputs with a given shape come first: their symbols bind those of the others.
  std::vector<const onnx::ValueInfoProto *> infos;
  for (const auto &info : model.graph().input()) {
    const std::string kind = recordedKind(info);
    if (!stored.contains(info.name()) && kind != "PARAMETER" && kind != "BUFFER")
      infos.push_back(&info);
  }
  std::map<std::string, RankedTensorType> types;
  for (bool withShape : {true, false})
    for (const onnx::ValueInfoProto *info : infos) {
      const auto found = options.shapes.find(info->name());
      const InputShape *given = found == options.shapes.end() ? nullptr : &found->second;
      if ((given != nullptr) != withShape)
        continue;
      unknown.erase(info->name());
      auto type = typeOf(*info, given);
      if (failed(type) || failed(noteBatch(*info, type->getShape(), given)))
        return failure();
      types[info->name()] = *type;
    }
  if (!unknown.empty())
    return emitError(model.location) << "--shape names no input of the model: "
                                     << unknown.begin()->first;
  for (const onnx::ValueInfoProto *info : infos)
    inputs.push_back({info->name(), types.at(info->name())});
  return success();
}

LogicalResult Importer::declare(const std::vector<FileTensor> &tensors, ImportedModel &result) {
  OpBuilder builder(&context);
  builder.setInsertionPointToEnd(result.module->getBody());
  SmallVector<Type> types;
  SmallVector<std::pair<std::string, graph::RoleKind>> arguments;
  for (TensorKind kind : {TensorKind::Parameter, TensorKind::Buffer})
    for (const FileTensor &tensor : tensors) {
      if (tensor.kind != kind)
        continue;
      if (tensor.element.isUnsignedInteger())
        return emitError(model.location) << "the tensor " << tensor.name
                                         << " has the unsupported type " << tensor.element;
      auto type = RankedTensorType::get(tensor.weight.shape, tensor.element);
      SmallVector<StringRef> aliases(tensor.aliases.begin(), tensor.aliases.end());
      const bool buffer = kind == TensorKind::Buffer;
      graph::ParameterOp::create(builder, NameLoc::get(builder.getStringAttr(tensor.name)),
                                 tensor.name, type, type, tensor.trainable, buffer,
                                 builder.getStrArrayAttr(aliases));
      types.push_back(type);
      arguments.push_back(
          {tensor.name, buffer ? graph::RoleKind::Buffer : graph::RoleKind::Parameter});
      result.weights[tensor.name] = tensor.weight;
    }
  for (const DataInput &input : inputs) {
    types.push_back(input.type);
    arguments.push_back({input.name, graph::RoleKind::Input});
  }
  func = func::FuncOp::create(builder, builder.getUnknownLoc(), "forward",
                              builder.getFunctionType(types, {}));
  graph::setRuns(func, graph::Cadence::Microbatch, graph::Passes::Forward);
  Block *body = func.addEntryBlock();
  SmallVector<Attribute> roles;
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    roles.push_back(role(argument.second, argument.first));
    values[argument.first] = Tensor(Value(body->getArgument(i)));
  }
  graph::setArgAttrs(func, graph::GraphDialect::kRole, roles);
  for (const FileTensor &tensor : tensors)
    if (tensor.kind == TensorKind::Constant) {
      Host constant = HostTensor::ofWeight(tensor.element, tensor.weight);
      if (!constant)
        return emitError(model.location)
               << "the constant " << tensor.name << " takes more than 1 MiB";
      if (StringRef error = budget.hold(constant->bytes()); !error.empty())
        return emitError(model.location) << "the constant " << tensor.name << " " << error;
      values[tensor.name] = Tensor(constant);
    }
  return success();
}

LogicalResult Importer::finish(ArrayRef<std::string> outputs) {
  Emitter emit(func.getLoc(), &context);
  emit.setInsertionPointToEnd(&func.getBody().front());
  SmallVector<Value> results;
  for (const std::string &name : outputs) {
    auto found = values.find(name);
    if (found == values.end() || found->second.isSequence)
      return emitError(model.location) << "the output " << name << " is not a tensor";
    const Tensor &tensor = found->second;
    if (llvm::is_contained(tensor.shape(), 0))
      return emitError(model.location) << "the output " << name << " has no elements";
    results.push_back(tensor.host ? toValue(emit, func.getLoc(), *tensor.host) : tensor.value);
  }
  func::ReturnOp::create(emit, results);
  func.setType(FunctionType::get(&context, func.getArgumentTypes(), TypeRange(results)));
  SmallVector<Attribute> roles;
  for (const std::string &name : outputs)
    roles.push_back(role(graph::RoleKind::Output, name));
  graph::setResultAttrs(func, graph::GraphDialect::kRole, roles);
  return success();
}

/// --padding-idx: ONNX does not say which row of an embedding gets no gradient.
LogicalResult Importer::markPaddingRows() {
  for (const auto &[weight, row] : options.paddingRows) {
    bool found = false;
    for (BlockArgument argument : func.getArguments()) {
      auto role = graph::getArgRole(func, argument.getArgNumber());
      if (role.getName() != weight)
        continue;
      for (Operation *user : argument.getUsers()) {
        auto gather = dyn_cast<graph::GatherOp>(user);
        if (!gather || gather.getTable() != argument)
          continue;
        const int64_t rows = graph::shapeOf(argument)[gather.getAxis()];
        if (row < -rows || row >= rows)
          return emitError(model.location) << "--padding-idx is outside the " << rows
                                           << " rows of " << weight << ": " << row;
        gather.setPaddingRow(row < 0 ? row + rows : row);
        found = true;
      }
    }
    if (!found)
      return emitError(model.location)
             << "--padding-idx names no weight that is looked up by an input: " << weight;
  }
  return success();
}

FailureOr<ImportedModel> Importer::run() {
  std::vector<std::string> outputs;
  for (const auto &output : model.graph().output())
    outputs.push_back(output.name());
  if (outputs.empty())
    return LogicalResult(emitError(model.location) << "the graph has no outputs");
  auto tensors = classifyTensors(model, options, liveValues(model, outputs), reader);
  if (failed(tensors) || failed(bindInputs()))
    return failure();
  ImportedModel result;
  result.module = ModuleOp::create(UnknownLoc::get(&context));
  result.nodes = model.nodes.size();
  result.fileBatch = std::max<int64_t>(fileBatch, 0);
  if (failed(declare(*tensors, result)))
    return failure();
  Emitter emit(func.getLoc(), &context);
  emit.setInsertionPointToEnd(&func.getBody().front());
  if (failed(convertNodes(model, outputs, emit, values, reader, budget)) ||
      failed(finish(outputs)) || failed(markPaddingRows()) || failed(verify(*result.module)))
    return failure();
  std::optional<int64_t> wanted = batch ? batch : shapeBatch;
  PassManager passes(&context);
  passes.enableVerifier(false); // once at the end, not after each
  raise::buildRaisePipeline(passes, fileBatch > 0 && wanted && *wanted != fileBatch ? *wanted : 0);
  if (failed(passes.run(*result.module)) || failed(verify(*result.module)))
    return failure();
  return result;
}

namespace {

class OnnxFile : public ModelFile {
public:
  OnnxFile(MLIRContext &context, const ImportOptions &options, Model model)
      : context(context), options(options), model(std::move(model)) {}

  FailureOr<ImportedModel> import(std::optional<int64_t> batch) const override {
    return Importer(context, options, model, batch).run();
  }

private:
  MLIRContext &context;
  ImportOptions options;
  Model model;
};

} // namespace

FailureOr<std::unique_ptr<ModelFile>> openONNX(MLIRContext &context, const ImportOptions &options) {
  context.loadDialect<graph::GraphDialect, arith::ArithDialect, func::FuncDialect,
                      math::MathDialect>();
  auto model = loadModel(context, options.path);
  if (failed(model))
    return failure();
  return std::unique_ptr<ModelFile>(
      std::make_unique<OnnxFile>(context, options, std::move(*model)));
}

} // namespace dtc::import
