#ifndef DTC_INTERFACES_PRECISIONINTERFACE_TD
#define DTC_INTERFACES_PRECISIONINTERFACE_TD

include "mlir/IR/OpBase.td"

def PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::dtc";
  let description = [{
    Where an op's operands and results may have float types that differ. Training in
    half precision narrows the forward ops, and widens gradients. It puts conversions
    before and after an op, except where the op's answers say otherwise. Every op of a
    graph answers; no method has a default.
  }];
  let methods = [
    InterfaceMethod<[{
      Whether a result is f32 at least whatever the operands' type is.
    }], "bool", "isStatistic", (ins "unsigned":$result)>,
    InterfaceMethod<[{
      Whether an operand may be wider than the others, because rounding it would
      change what the op means.
    }], "bool", "mayStayWide", (ins "unsigned":$operand)>,
    InterfaceMethod<[{
      How the op gives results of a wider type without a conversion after it.
    }], "::dtc::Widening", "getWidening", (ins)>,
  ];
}

#endif // DTC_INTERFACES_PRECISIONINTERFACE_TD
