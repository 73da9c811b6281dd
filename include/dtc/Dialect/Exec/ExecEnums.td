// Enumerations of the `exec` dialect, in a file of their own: what is generated
// from it is theirs alone.
#ifndef DTC_DIALECT_EXEC_EXECENUMS_TD
#define DTC_DIALECT_EXEC_EXECENUMS_TD

include "mlir/IR/EnumAttr.td"

class Exec_I32Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::dtc::exec";
  let genSpecializedAttr = 0;
}
def Exec_QueueKind : Exec_I32Enum<"QueueKind", "what a queue carries out", [
  I32EnumAttrCase<"Compute", 0, "compute">, I32EnumAttrCase<"Collective", 1, "collective">,
  I32EnumAttrCase<"Send", 2, "send">, I32EnumAttrCase<"Receive", 3, "receive">,
  I32EnumAttrCase<"Copy", 4, "copy">]>;
def Exec_Epilogue : Exec_I32Enum<"Epilogue", "what a product does besides multiplying", [
  I32EnumAttrCase<"Bias", 0, "bias">, I32EnumAttrCase<"Gelu", 1, "gelu">,
  I32EnumAttrCase<"BiasGelu", 2, "bias_gelu">, I32EnumAttrCase<"GeluGrad", 3, "gelu_grad">,
  I32EnumAttrCase<"SumLhs", 4, "sum_lhs">, I32EnumAttrCase<"SumRhs", 5, "sum_rhs">]>;
def Exec_Space : Exec_I32Enum<"Space", "a memory", [
  I32EnumAttrCase<"Device", 0, "device">, I32EnumAttrCase<"Host", 1, "host">]>;

#endif // DTC_DIALECT_EXEC_EXECENUMS_TD
