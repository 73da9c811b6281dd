#ifndef DTC_INTERFACES_COSTINTERFACE_TD
#define DTC_INTERFACES_COSTINTERFACE_TD

include "mlir/IR/OpBase.td"

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::dtc";
  let description = [{
    Arithmetic work of an op at its present shapes. Bytes moved follow from the
    types and need no method; ops without this interface are memory-bound.
  }];
  let methods = [
    InterfaceMethod<[{
      Floating-point operations of the contractions inside the op (a
      multiplication and an addition count as two).
    }], "double", "getContractionFlops", (ins)>,
  ];
}

#endif // DTC_INTERFACES_COSTINTERFACE_TD
