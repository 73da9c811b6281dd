#include "dtc/Import/ONNX/Import.h"

#include "GraphBuilder.h"
#include "Parameters.h"
#include "TrainedNorms.h"
#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Import/Build/Forward.h"

using namespace mlir;

namespace dtc::import {

/// Some exporters write -1 where a dimension has no fixed size.
static FileDim dimOf(const onnx::TensorShapeProto::Dimension &dim) {
  if (dim.has_dim_value() && dim.dim_value() != -1)
    return {dim.dim_value(), ""};
  return {std::nullopt, dim.dim_param()};
}

static FileInput inputOf(const Model &model, const onnx::ValueInfoProto &info) {
  FileInput input;
  input.name = info.name();
  const auto &type = info.type().tensor_type();
  if (info.type().has_tensor_type())
    input.element = elementType(model.location.getContext(), type.elem_type());
  if (type.has_shape()) {
    input.dims.emplace();
    for (const auto &dim : type.shape().dim())
      input.dims->push_back(dimOf(dim));
  }
  return input;
}

/// The graph's inputs that are data, not weights.
static std::vector<FileInput> dataInputs(const Model &model) {
  const auto stored = initializers(model);
  std::vector<FileInput> inputs;
  for (const auto &info : model.graph().input()) {
    const std::string kind = recordedKind(info);
    if (!stored.contains(info.name()) && kind != "PARAMETER" && kind != "BUFFER")
      inputs.push_back(inputOf(model, info));
  }
  return inputs;
}

static FailureOr<ImportedModel> importModel(MLIRContext &context, const ImportOptions &options,
                                            const Model &model, std::optional<Samples> samples) {
  Budget budget = model.budget; // what reading the file left
  TensorReader reader(model);
  std::vector<std::string> outputs;
  for (const auto &output : model.graph().output())
    outputs.push_back(output.name());
  if (outputs.empty())
    return LogicalResult(emitError(model.location) << "the graph has no outputs");
  const auto live = liveValues(model, outputs);
  auto tensors = classifyTensors(model, options, live, reader);
  if (failed(tensors))
    return failure();
  auto inputs = bindInputs(model.location, options, dataInputs(model), samples);
  if (failed(inputs))
    return failure();
  Forward forward(context, model.location);
  llvm::StringMap<Tensor> values;
  if (failed(forward.declare(*tensors, *inputs, budget, values)))
    return failure();
  Emitter emit = forward.end();
  const std::vector<std::string> buffers = changedBuffers(model, live);
  std::vector<std::string> kept = outputs;
  llvm::append_range(kept, buffers);
  if (failed(convertNodes(model, kept, emit, values, reader, budget)))
    return failure();
  std::vector<FileOutput> results;
  for (const std::string &name : outputs) {
    auto found = values.find(name);
    results.push_back({name, found == values.end() ? nullptr : &found->second});
  }
  std::vector<BufferChange> changes;
  for (const std::string &name : buffers)
    changes.push_back({name, &values[name]});
  if (failed(forward.finish(results, changes)) ||
      failed(forward.markPaddingRows(options.paddingRows)))
    return failure();
  return forward.raise(*inputs, samples, model.nodes.size());
}

namespace {

class OnnxFile : public ModelFile {
public:
  OnnxFile(MLIRContext &context, const ImportOptions &options, Model model)
      : context(context), options(options), model(std::move(model)) {}

  FailureOr<ImportedModel> import(std::optional<Samples> samples) const override {
    return importModel(context, options, model, samples);
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
  if (failed(model) || failed(findTrainedNorms(*model, options.batchNorm)))
    return failure();
  return std::unique_ptr<ModelFile>(
      std::make_unique<OnnxFile>(context, options, std::move(*model)));
}

} // namespace dtc::import
