#ifndef DTC_INTERFACES_PRECISIONINTERFACE_TD
#define DTC_INTERFACES_PRECISIONINTERFACE_TD

include "mlir/IR/OpBase.td"

def PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::dtc";
  let description = [{
    Where an op's operands and results may have float types that differ. An op
    without this interface has one float type throughout, and a conversion is put
    before or after it where another type is wanted.
  }];
  let methods = [
    InterfaceMethod<[{
      Whether a result is f32 at least whatever the operands' type is.
    }], "bool", "isStatistic", (ins "unsigned":$result),
      /*methodBody=*/"", /*defaultImplementation=*/[{ return false; }]>,
    InterfaceMethod<[{
      Whether an operand may be wider than the others, because rounding it would
      change what the op means.
    }], "bool", "mayStayWide", (ins "unsigned":$operand),
      /*methodBody=*/"", /*defaultImplementation=*/[{ return false; }]>,
    InterfaceMethod<[{
      How the op gives results of a wider type without a conversion after it.
    }], "::dtc::Widening", "getWidening", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/[{ return ::dtc::Widening::None; }]>,
  ];
}

#endif // DTC_INTERFACES_PRECISIONINTERFACE_TD
