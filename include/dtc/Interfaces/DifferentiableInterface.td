#ifndef DTC_INTERFACES_DIFFERENTIABLEINTERFACE_TD
#define DTC_INTERFACES_DIFFERENTIABLEINTERFACE_TD

include "mlir/IR/OpBase.td"

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::dtc";
  let description = [{
    An op that can build its own reverse-mode gradient out of `dtc`, arith and
    math ops.
  }];
  let methods = [
    InterfaceMethod<[{
      Given the gradient of each result (null where nothing depends on it),
      builds the gradient of each operand for which `needed` is set and stores
      it in `operandGrads` (same size as the operands; others stay null). The
      gradient of a value has its type. Fails with a diagnostic where the op
      cannot be differentiated in the way asked.
    }], "::llvm::LogicalResult", "buildGradient",
      (ins "::mlir::OpBuilder &":$builder, "::llvm::ArrayRef<::mlir::Value>":$resultGrads,
           "::llvm::ArrayRef<bool>":$needed,
           "::llvm::MutableArrayRef<::mlir::Value>":$operandGrads)>,
  ];
}

#endif // DTC_INTERFACES_DIFFERENTIABLEINTERFACE_TD
