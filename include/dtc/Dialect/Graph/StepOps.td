// What a training step says of itself.
#ifndef DTC_DIALECT_GRAPH_STEPOPS_TD
#define DTC_DIALECT_GRAPH_STEPOPS_TD

include "dtc/Dialect/Graph/GraphBase.td"

def Graph_StepVectorOp : Graph_TensorOp<"step_vector",
    [ShardingRule, NoGradient, Decomposable, ConvertedAround, AllTypesMatch<["inputs", "outputs"]>]> {
  let summary = "the numbers of a step that all ranks must agree on";
  let description = [{
    Sum of the losses, count of targets, count of gradient elements that are infinite or no
    numbers, and the squared norm of the gradient, which has a term for each stage of a pipeline.
    Result `i` is operand `i`. Partitioning makes one sum over all ranks of it, to which each term
    belongs once. So all ranks read the same bits, and decide alike what they make of them. With
    `lost` the last number counts rows that found no slot with their expert (SlotOps.td).

        %l, %c, %f, %n = dtc.step_vector %loss, %count, %bad, %squares
            : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
  }];
  let arguments = (ins Variadic<0DTensorOf<[F32]>>:$inputs, UnitAttr:$countsLost);
  let results = (outs Variadic<0DTensorOf<[F32]>>:$outputs);
  let assemblyFormat = "$inputs (`lost` $countsLost^)? attr-dict `:` type($inputs)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Places of the numbers. Squares may be several; behind them is only the count of lost rows.
    static constexpr unsigned kLoss = 0, kCount = 1, kNonFinite = 2, kSquares = 3;
  }];
}

def Graph_CommitOp : Graph_TensorOp<"commit",
    [ShardingRule, NoGradient, Decomposable, ConvertedAround, AllTypesMatch<["fresh", "old", "result"]>]> {
  let summary = "what an update writes, unless the step has faults";
  let description = [{
    `fresh` where the number of faults is 0, else `old`, for all elements alike. So a step whose
    gradients overflow leaves parameters and states as they were. What `fresh` has then, even if it
    is no number, isn't looked at.

        %w1 = dtc.commit %fresh, %w, %faults : tensor<64x64xf32>, tensor<f32>
  }];
  let arguments = (ins AnyStaticShapeTensor:$fresh, AnyStaticShapeTensor:$old,
                       0DTensorOf<[F32]>:$faults);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "operands attr-dict `:` type($result) `,` type($faults)";
}

#endif // DTC_DIALECT_GRAPH_STEPOPS_TD
