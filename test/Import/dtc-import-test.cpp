// Prints the module that importing an ONNX file gives, for tests and for looking at models.
//
//   dtc-import-test FILE [--batch N] [--step N] [--shape INPUT=DxD[xTYPE]] [--freeze RE] [--train
//   RE]
//                   [--padding-idx WEIGHT=ROW] [--allow-merged] [--plan] [--weights] [--locations]
//                   [--compare FILE.safetensors]
//
// --step has the samples of a step, of which --batch are those of a call.
// --compare evaluates the model with the interpreter on the tensors of FILE, named as inputs and
// weights. It prints how far each output is from FILE's `output:NAME`.
#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Import/ONNX/Import.h"
#include "dtc/Interpreter/Interpreter.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <cstring>

using namespace dtc;

namespace {
struct Arguments {
  import::ImportOptions options;
  std::optional<int64_t> batch, step;
  bool weights = false, locations = false, good = true;
  std::string compare;
};

/// The tensors of a safetensors file by name.
class TensorFile {
public:
  explicit TensorFile(const std::string &path) {
    auto file = llvm::MemoryBuffer::getFile(path, false, false);
    if (!file || (*file)->getBufferSize() < 8)
      return;
    buffer = std::move(*file);
    const char *start = buffer->getBufferStart();
    const uint64_t length = llvm::support::endian::read64le(start);
    auto parsed = llvm::json::parse(llvm::StringRef(start + 8, length));
    if (!parsed)
      llvm::consumeError(parsed.takeError());
    else
      header = *parsed->getAsObject();
    data = reinterpret_cast<const std::byte *>(start + 8 + length);
  }

  /// Fills `tensor` with the entry; false when there is none of its size.
  bool read(llvm::StringRef name, interpreter::Tensor &tensor) const {
    const llvm::json::Object *entry = header.getObject(name);
    if (!entry)
      return false;
    const auto offsets = entry->getArray("data_offsets");
    const std::byte *at = data + *(*offsets)[0].getAsInteger();
    const size_t width = (tensor.type.getElementTypeBitWidth() + 7) / 8;
    if (*(*offsets)[1].getAsInteger() - *(*offsets)[0].getAsInteger() !=
        int64_t(width * tensor.size()))
      return false;
    for (int64_t i = 0; i < tensor.size(); ++i, at += width) {
      if (tensor.isFloat()) {
        float value;
        std::memcpy(&value, at, sizeof(value));
        tensor.floats[i] = value;
      } else {
        int64_t value = 0;
        std::memcpy(&value, at, width);
        tensor.ints[i] = value;
      }
    }
    return true;
  }

private:
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  llvm::json::Object header;
  const std::byte *data = nullptr;
};
} // namespace

static import::InputShape parseShape(llvm::StringRef text) {
  import::InputShape shape;
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, 'x');
  for (llvm::StringRef part : parts) {
    int64_t size;
    if (part.getAsInteger(10, size))
      shape.type = part.str();
    else
      shape.dims.push_back(size);
  }
  return shape;
}

static Arguments parse(int argc, char **argv) {
  Arguments arguments;
  import::ImportOptions &options = arguments.options;
  for (int i = 1; i < argc; ++i) {
    const llvm::StringRef flag = argv[i];
    auto value = [&]() -> std::string { return i + 1 < argc ? argv[++i] : ""; };
    if (flag == "--batch") {
      arguments.batch = std::stoll(value());
    } else if (flag == "--step") {
      arguments.step = std::stoll(value());
    } else if (flag == "--shape") {
      const std::string text = value();
      auto [name, shape] = llvm::StringRef(text).split('=');
      options.shapes[name.str()] = parseShape(shape);
    } else if (flag == "--padding-idx") {
      const std::string text = value();
      auto [name, row] = llvm::StringRef(text).split('=');
      options.paddingRows[name.str()] = std::stoll(row.str());
    } else if (flag == "--freeze") {
      options.freeze = value();
    } else if (flag == "--train") {
      options.train = value();
    } else if (flag == "--allow-merged") {
      options.allowMerged = true;
    } else if (flag == "--plan") {
      options.training = false;
    } else if (flag == "--weights") {
      arguments.weights = true;
    } else if (flag == "--locations") {
      arguments.locations = true;
    } else if (flag == "--compare") {
      arguments.compare = value();
    } else if (options.path.empty() && !flag.starts_with("--")) {
      options.path = flag.str();
    } else {
      llvm::errs() << "unknown argument: " << flag << "\n";
      arguments.good = false;
    }
  }
  return arguments;
}

/// Evaluates @forward and prints the largest relative error of each output.
static int compare(import::ImportedModel &model, const std::string &path) {
  TensorFile file(path);
  auto func = model.module->lookupSymbol<mlir::func::FuncOp>("forward");
  interpreter::Tensors inputs;
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    const std::string name = graph::getArgRole(func, i).getName().str();
    interpreter::Tensor &tensor =
        inputs.emplace_back(mlir::cast<mlir::RankedTensorType>(func.getArgumentTypes()[i]));
    if (!file.read(name, tensor)) {
      llvm::errs() << "no tensor of the expected size: " << name << "\n";
      return 1;
    }
  }
  auto results = interpreter::evaluate(func, inputs);
  if (mlir::failed(results))
    return 1;
  for (auto [i, result] : llvm::enumerate(*results)) {
    const std::string name = graph::getResultRole(func, i).getName().str();
    interpreter::Tensor expected(result.type);
    if (!file.read("output:" + name, expected)) {
      llvm::errs() << "no expected output of the size of " << name << "\n";
      return 1;
    }
    llvm::outs() << name << " differs by "
                 << llvm::format("%.1e", interpreter::maxDifference(result, expected)) << "\n";
  }
  return 0;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  Arguments arguments = parse(argc, argv);
  if (!arguments.good)
    return 2;
  mlir::DialectRegistry registry;
  registry.insert<graph::GraphDialect, mlir::arith::ArithDialect, mlir::func::FuncDialect,
                  mlir::math::MathDialect>();
  graph::registerElementwiseModels(registry);
  mlir::MLIRContext context(registry);
  mlir::ScopedDiagnosticHandler printAll(&context, [](mlir::Diagnostic &diagnostic) {
    const bool isError = diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
    llvm::errs() << diagnostic.getLocation() << ": " << (isError ? "error: " : "warning: ")
                 << diagnostic << "\n";
  });
  auto file = import::openONNX(context, arguments.options);
  if (mlir::failed(file))
    return 3;
  std::optional<import::Samples> samples;
  if (arguments.batch)
    samples = {*arguments.batch, arguments.step.value_or(*arguments.batch)};
  auto model = (*file)->import(samples);
  if (mlir::failed(model))
    return 3;
  if (arguments.weights) {
    for (const auto &[name, weight] : model->weights) {
      llvm::outs() << name << " " << weight.dtype << " [";
      llvm::interleaveComma(weight.shape, llvm::outs());
      llvm::outs() << "] " << (weight.data ? "data" : "no data") << " " << weight.file << "\n";
    }
    return 0;
  }
  if (!arguments.compare.empty())
    return compare(*model, arguments.compare);
  mlir::OpPrintingFlags flags;
  if (arguments.locations)
    flags.enableDebugInfo(/*enable=*/true, /*prettyForm=*/true);
  flags.elideLargeElementsAttrs(64);
  model->module->print(llvm::outs(), flags);
  return 0;
}
