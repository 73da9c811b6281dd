// Where a model's author stops gradients.
#ifndef DTC_DIALECT_GRAPH_STOPGRADIENTOP_TD
#define DTC_DIALECT_GRAPH_STOPGRADIENTOP_TD

include "dtc/Dialect/Graph/GraphBase.td"

def Graph_StopGradientOp : Graph_TensorOp<"stop_gradient",
    [ShardingRule, Decomposable, Differentiable, ConvertedAround, AllTypesMatch<["input", "result"]>]> {
  let summary = "its operand, which gets no gradient from here";
  let description = [{
    What PyTorch calls `detach()`. Importers make it, and a training step no longer has it: once
    the backward pass is built it has done its work.

        %y = dtc.stop_gradient %x : tensor<8x16xf32>
  }];
  let arguments = (ins AnyStaticShapeTensor:$input);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}

#endif // DTC_DIALECT_GRAPH_STOPGRADIENTOP_TD
