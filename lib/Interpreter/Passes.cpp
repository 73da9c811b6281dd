#include "dtc/Interpreter/Passes.h"

#include "dtc/Interpreter/Interpreter.h"

#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace dtc::interpreter {

namespace {
struct InterpretPass : PassWrapper<InterpretPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(InterpretPass)

  InterpretPass() = default;
  InterpretPass(const InterpretPass &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "dtc-interpret"; }
  StringRef getDescription() const override {
    return "evaluates a function on drawn inputs and prints its results";
  }

  void runOnOperation() override {
    auto func = getOperation().lookupSymbol<func::FuncOp>(function);
    if (!func) {
      getOperation().emitError() << "no such function: " << function;
      return signalPassFailure();
    }
    Tensors inputs;
    for (Type type : func.getArgumentTypes()) {
      if (!Tensor::isSupported(type)) {
        func.emitError() << "no inputs can be drawn of this type: " << type;
        return signalPassFailure();
      }
      inputs.push_back(randomTensor(cast<RankedTensorType>(type), seed + inputs.size(), intBound));
    }
    auto results =
        evaluate(func, inputs, fp64 ? Numerics::Double : Numerics::ProgramTypes);
    if (failed(results))
      return signalPassFailure();
    for (auto [i, result] : llvm::enumerate(*results)) {
      llvm::outs() << "result " << i << ": " << result.type << " ";
      print(llvm::outs(), result);
      llvm::outs() << "\n";
    }
    llvm::outs().flush();
  }

  Option<std::string> function{*this, "function", llvm::cl::init("main"),
                               llvm::cl::desc("function to evaluate")};
  Option<uint64_t> seed{*this, "seed", llvm::cl::init(0), llvm::cl::desc("of the inputs")};
  Option<int64_t> intBound{*this, "int-bound", llvm::cl::init(4),
                           llvm::cl::desc("integers are drawn from [0, bound)")};
  Option<bool> fp64{*this, "fp64", llvm::cl::init(false),
                    llvm::cl::desc("compute all floats in fp64")};
};
} // namespace

void registerInterpreterPasses() { PassRegistration<InterpretPass>(); }

} // namespace dtc::interpreter
