#include "dtc/Interpreter/Passes.h"

#include "dtc/Interpreter/InlineKernels.h"
#include "dtc/Interpreter/Interpreter.h"

using namespace mlir;

namespace dtc::interpreter {
#define GEN_PASS_DEF_INTERPRET
#include "dtc/Interpreter/Passes.h.inc"

namespace {

struct Interpret : impl::InterpretBase<Interpret> {
  using InterpretBase::InterpretBase;

  void runOnOperation() override {
    auto inlined = inlineKernels(getOperation());
    if (failed(inlined))
      return signalPassFailure();
    auto func = (*inlined)->lookupSymbol<func::FuncOp>(function);
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
    auto results = evaluate(func, inputs, fp64 ? Numerics::Double : Numerics::ProgramTypes);
    if (failed(results))
      return signalPassFailure();
    for (auto [i, result] : llvm::enumerate(*results)) {
      llvm::outs() << "result " << i << ": " << result.type << " ";
      print(llvm::outs(), result);
      llvm::outs() << "\n";
    }
    llvm::outs().flush();
  }
};

} // namespace

} // namespace dtc::interpreter
