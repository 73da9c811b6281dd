#ifndef DTC_INTERFACES_KERNELINTERFACE_TD
#define DTC_INTERFACES_KERNELINTERFACE_TD

include "mlir/IR/OpBase.td"

def KernelOpInterface : OpInterface<"KernelOpInterface"> {
  let cppNamespace = "::dtc";
  let description = [{
    An op that kernels have inside: generated code computes its elements. Every
    other op is decomposed before kernels are formed (DecomposableOpInterface) or
    is a call of a library (the trait LibraryCall). No method has a default.
  }];
  let methods = [
    InterfaceMethod<[{
      Whether the op is computed by loops of its own. A kernel has no more than
      one such op.
    }], "bool", "hasOwnLoops", (ins)>,
    InterfaceMethod<[{
      From where in an operand an element of the result comes.
    }], "::dtc::Reach", "getReach", (ins "unsigned":$operand)>,
  ];
}

#endif // DTC_INTERFACES_KERNELINTERFACE_TD
