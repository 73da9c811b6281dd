// Prints the module that importing an ONNX file gives, for tests and for looking at models.
//
//   dtc-import-test FILE [--batch N] [--shape INPUT=DxD[xTYPE]] [--freeze RE] [--train RE]
//                   [--padding-idx WEIGHT=ROW] [--allow-merged] [--plan] [--weights] [--locations]
#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Import/ONNX/Import.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/Support/raw_ostream.h"

using namespace dtc;

namespace {
struct Arguments {
  import::ImportOptions options;
  bool weights = false, locations = false, good = true;
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
      options.batch = std::stoll(value());
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
    } else if (options.path.empty() && !flag.starts_with("--")) {
      options.path = flag.str();
    } else {
      llvm::errs() << "unknown argument: " << flag << "\n";
      arguments.good = false;
    }
  }
  return arguments;
}

int main(int argc, char **argv) {
  Arguments arguments = parse(argc, argv);
  if (!arguments.good)
    return 2;
  mlir::DialectRegistry registry;
  registry.insert<graph::GraphDialect, mlir::arith::ArithDialect, mlir::func::FuncDialect,
                  mlir::math::MathDialect>();
  graph::registerElementwiseModels(registry);
  mlir::MLIRContext context(registry);
  auto model = import::importONNX(context, arguments.options);
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
  mlir::OpPrintingFlags flags;
  if (arguments.locations)
    flags.enableDebugInfo(/*enable=*/true, /*prettyForm=*/true);
  flags.elideLargeElementsAttrs(64);
  model->module->print(llvm::outs(), flags);
  return 0;
}
