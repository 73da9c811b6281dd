#ifndef DTC_INTERFACES_COSTINTERFACE_TD
#define DTC_INTERFACES_COSTINTERFACE_TD

include "mlir/IR/OpBase.td"

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::dtc";
  let description = [{
    What the planner must know of an op's cost beside its types and its sharding
    rule. Every op of a graph states it; there is no default.
  }];
  let methods = [
    InterfaceMethod<[{
      The cost of the op at its present shapes (see dtc/Sharding/OpCost.h).
    }], "::dtc::sharding::OpCost", "getCost", (ins)>,
  ];
}

#endif // DTC_INTERFACES_COSTINTERFACE_TD
