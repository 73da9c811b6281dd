#include "dtc/Import/Build/Forward.h"
#include "dtc/Import/Unsupported.h"

#include "dtc/Dialect/Graph/StepFunctions.h"
#include "dtc/Raise/Passes.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace dtc::import {

Forward::Forward(MLIRContext &context, Location file) : context(context), file(file) {
  model.module = ModuleOp::create(UnknownLoc::get(&context));
}

graph::RoleAttr Forward::role(graph::RoleKind kind, StringRef name) {
  return graph::RoleAttr::get(&context, kind, name, std::nullopt, std::nullopt);
}

/// With samples first; a first dimension of 1 where there are none.
static RankedTensorType argumentType(const DataInput &input, const BoundInputs &inputs) {
  auto found = inputs.batchDims.find(input.name);
  if (found == inputs.batchDims.end())
    return input.type;
  Shape shape(input.type.getShape());
  if (found->second)
    std::rotate(shape.begin(), shape.begin() + *found->second, shape.begin() + *found->second + 1);
  else
    shape.insert(shape.begin(), 1);
  return input.type.clone(shape);
}

LogicalResult Forward::declare(const std::vector<FileTensor> &tensors, const BoundInputs &inputs,
                               Budget &budget, llvm::StringMap<Tensor> &values) {
  OpBuilder builder(&context);
  builder.setInsertionPointToEnd(model.module->getBody());
  SmallVector<Type> types;
  SmallVector<std::pair<std::string, graph::RoleKind>> arguments;
  for (TensorKind kind : {TensorKind::Parameter, TensorKind::Buffer})
    for (const FileTensor &tensor : tensors) {
      if (tensor.kind != kind)
        continue;
      if (tensor.element.isUnsignedInteger())
        return unsupported(emitError(file))
               << "the tensor " << tensor.name << " has the unsupported type " << tensor.element;
      auto type = RankedTensorType::get(tensor.weight.shape, tensor.element);
      SmallVector<StringRef> aliases(tensor.aliases.begin(), tensor.aliases.end());
      const bool buffer = kind == TensorKind::Buffer;
      graph::ParameterOp::create(builder, NameLoc::get(builder.getStringAttr(tensor.name)),
                                 tensor.name, type, type, tensor.trainable, buffer,
                                 builder.getStrArrayAttr(aliases));
      types.push_back(type);
      arguments.push_back(
          {tensor.name, buffer ? graph::RoleKind::Buffer : graph::RoleKind::Parameter});
      model.weights[tensor.name] = tensor.weight;
    }
  model.batchDims = inputs.batchDims;
  for (const DataInput &input : inputs.inputs) {
    types.push_back(argumentType(input, inputs));
    arguments.push_back({input.name, graph::RoleKind::Input});
  }
  func = func::FuncOp::create(builder, builder.getUnknownLoc(), graph::kForward,
                              builder.getFunctionType(types, {}));
  graph::setRuns(func, graph::Cadence::Microbatch, graph::Passes::Forward);
  Block *body = func.addEntryBlock();
  SmallVector<Attribute> roles;
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    roles.push_back(role(argument.second, argument.first));
    values[argument.first] = Tensor(Value(body->getArgument(i)));
  }
  graph::setArgAttrs(func, graph::GraphDialect::kRole, roles);
  Emitter emit = end();
  for (const DataInput &input : inputs.inputs)
    if (auto found = inputs.batchDims.find(input.name); found != inputs.batchDims.end())
      values[input.name] =
          Tensor(raise::fromSamplesFirst(emit, values[input.name].value, found->second));
  for (const FileTensor &tensor : tensors)
    if (tensor.kind == TensorKind::Constant) {
      Host constant = HostTensor::ofWeight(tensor.element, tensor.weight);
      if (!constant)
        return emitError(file) << "the constant " << tensor.name << " takes more than 1 MiB";
      if (StringRef error = budget.hold(constant->bytes()); !error.empty())
        return emitError(file) << "the constant " << tensor.name << " " << error;
      values[tensor.name] = Tensor(constant);
    }
  return success();
}

Emitter Forward::end() {
  Emitter emit(func.getLoc(), &context);
  emit.setInsertionPointToEnd(&func.getBody().front());
  return emit;
}

/// The inputs that have no samples.
static std::vector<std::string> wholeInputs(const ImportedModel &model) {
  std::vector<std::string> names;
  for (const auto &[name, dim] : model.batchDims)
    if (!dim)
      names.push_back(name);
  return names;
}

LogicalResult Forward::putSamplesFirst(ArrayRef<FileOutput> outputs,
                                       SmallVectorImpl<Value> &results) {
  if (model.batchDims.empty())
    return success();
  auto samples = raise::followSamples(func, wholeInputs(model), results);
  if (failed(samples))
    return failure();
  Emitter emit = end();
  for (auto [result, output, found] : llvm::zip_equal(results, outputs, *samples)) {
    if (found.any && !found.dim)
      return emitError(file) << "the output " << output.name << " of type " << result.getType()
                             << " has no dimension of samples alone";
    if (found.dim != 0)
      model.batchDims[output.name] = found.dim;
    result = raise::toSamplesFirst(emit, result, found.dim);
  }
  return success();
}

/// What replaces a buffer. Several modules that share one would have to take turns.
FailureOr<Value> Forward::changed(const BufferChange &change) {
  for (BlockArgument argument : func.getArguments()) {
    auto role = graph::getArgRole(func, argument.getArgNumber());
    if (role.getName() != change.buffer || role.getKind() == graph::RoleKind::Input)
      continue;
    if (role.getKind() != graph::RoleKind::Buffer)
      return LogicalResult(emitError(file)
                           << "changes a tensor that trains, not a buffer: " << change.buffer);
    if (!change.tensor || change.tensor->host || change.tensor->isSequence ||
        change.tensor->value.getType() != argument.getType())
      return LogicalResult(emitError(file) << "changes the type of the buffer " << change.buffer);
    return change.tensor->value;
  }
  return LogicalResult(emitError(file)
                       << "changes what is no buffer of the file: " << change.buffer);
}

LogicalResult Forward::finish(ArrayRef<FileOutput> outputs, ArrayRef<BufferChange> changes) {
  Emitter emit = end();
  SmallVector<Value> results;
  SmallVector<Attribute> roles;
  for (const FileOutput &output : outputs) {
    if (!output.tensor || output.tensor->isSequence)
      return emitError(file) << "the output " << output.name << " is not a tensor";
    const Tensor &tensor = *output.tensor;
    if (tensor.element().isUnsignedInteger() || tensor.element().isInteger(16))
      return unsupported(emitError(file))
             << "the output " << output.name << " has the unsupported type " << tensor.element();
    if (llvm::is_contained(tensor.shape(), 0))
      return emitError(file) << "the output " << output.name << " has no elements";
    results.push_back(tensor.host ? toValue(emit, func.getLoc(), *tensor.host) : tensor.value);
    roles.push_back(role(graph::RoleKind::Output, output.name));
  }
  if (failed(putSamplesFirst(outputs, results)))
    return failure();
  for (const BufferChange &change : changes) {
    FailureOr<Value> value = changed(change);
    if (failed(value))
      return failure();
    results.push_back(*value);
    roles.push_back(role(graph::RoleKind::Buffer, change.buffer));
  }
  func::ReturnOp::create(emit, results);
  func.setType(FunctionType::get(&context, func.getArgumentTypes(), TypeRange(results)));
  graph::setResultAttrs(func, graph::GraphDialect::kRole, roles);
  return success();
}

LogicalResult Forward::markPaddingRows(const std::map<std::string, int64_t> &paddingRows) {
  for (const auto &[weight, row] : paddingRows) {
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
          return emitError(file) << "--padding-idx is outside the " << rows << " rows of " << weight
                                 << ": " << row;
        gather.setPaddingRow(row < 0 ? row + rows : row);
        found = true;
      }
    }
    if (!found)
      return emitError(file) << "--padding-idx names no weight that is looked up by an input: "
                             << weight;
  }
  return success();
}

/// What the graph becomes of that which the file says for `step` samples, or as many as it has.
static raise::RebatchOptions rebatchFor(const Samples &samples, int64_t inFile) {
  raise::RebatchOptions options;
  options.batch = samples.call;
  options.isOpen = inFile <= 0;
  options.isCut = samples.call < samples.step;
  return options;
}

FailureOr<ImportedModel> Forward::raise(const BoundInputs &inputs, std::optional<Samples> samples,
                                        int64_t nodes) {
  if (failed(verify(*model.module)))
    return failure();
  const int64_t inFile = inputs.fileBatch;
  if (!samples && inFile > 0 && inputs.shapeBatch)
    samples = {*inputs.shapeBatch, *inputs.shapeBatch};
  const bool hasNoSamples = !inputs.batchDims.empty() && inputs.batchOf.empty();
  const int64_t step = samples ? samples->step : inputs.shapeBatch.value_or(1);
  if (hasNoSamples && step != 1)
    return LogicalResult(emitError(file)
                         << "no input has samples, so that the global batch is 1, not " << step);
  raise::RebatchOptions options;
  if (samples)
    options = rebatchFor(*samples, inFile);
  options.whole = llvm::to_vector(wholeInputs(model));
  PassManager passes(&context);
  passes.enableVerifier(false); // once at the end, not after each
  raise::buildRaisePipeline(passes, options);
  if (failed(passes.run(*model.module)) || failed(verify(*model.module)))
    return failure();
  model.nodes = nodes;
  model.fileBatch = hasNoSamples ? 1 : inFile > 0 ? inFile : inputs.shapeBatch.value_or(0);
  return std::move(model);
}

} // namespace dtc::import
