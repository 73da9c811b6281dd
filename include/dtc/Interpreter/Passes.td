#ifndef DTC_INTERPRETER_PASSES_TD
#define DTC_INTERPRETER_PASSES_TD

include "mlir/Pass/PassBase.td"

def Interpret : Pass<"dtc-interpret", "::mlir::ModuleOp"> {
  let summary = "evaluate a function on drawn inputs and print its results";
  let description = [{
    Floats are drawn from [-1, 1), integers from [0, int-bound). For each result one line goes
    to stdout; the module stays as it is. Kernels are evaluated by their bodies.

        func.func @main() -> tensor<2xf32> {
          %0 = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
          %1 = arith.addf %0, %0 : tensor<2xf32>
          return %1 : tensor<2xf32>
        }
      prints
        result 0: tensor<2xf32> [2, 4]
  }];
  let options = [
    Option<"function", "function", "std::string", "\"main\"", "function to evaluate">,
    Option<"seed", "seed", "uint64_t", "0", "of the inputs">,
    Option<"intBound", "int-bound", "int64_t", "4", "integers are drawn from [0, bound)">,
    Option<"fp64", "fp64", "bool", "false", "compute all floats in fp64">];
}

#endif // DTC_INTERPRETER_PASSES_TD
