// Reductions, sums and contractions.
#ifndef DTC_DIALECT_GRAPH_REDUCEOPS_TD
#define DTC_DIALECT_GRAPH_REDUCEOPS_TD

include "dtc/Dialect/Graph/GraphBase.td"

def Graph_ReduceOp : Graph_TensorOp<"reduce",
    [ShardingRule, Differentiable, Precision, InKernels<"Shared", "Same">]> {
  let summary = "combines a tensor over some dimensions, which vanish";
  let description = [{
    `dtc.reduce sum %x [1, 2] : tensor<4x8x16xf32> -> tensor<4xf32>`. An empty
    maximum is -inf. Sums of bf16 and f16 accumulate in f32.
  }];
  let arguments = (ins Graph_ReduceKindAttr:$kind, AnyStaticShapeTensor:$input,
                       DenseI64ArrayAttr:$dims);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$kind $input $dims attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Graph_CumSumOp : Graph_TensorOp<"cumsum", [ShardingRule, Differentiable, Widens<"Operands">,
                                              InKernels<"Own", "Same">]> {
  let summary = "running sum along a dimension";
  let arguments = (ins AnyStaticShapeTensor:$input, I64Attr:$dim, UnitAttr:$exclusive,
                       UnitAttr:$reverse);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input $dim (`exclusive` $exclusive^)? (`reverse` $reverse^)? attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Graph_SumOp : Graph_TensorOp<"sum",
    [ShardingRule, Differentiable, Widens<"Operands">, InKernels<"Shared", "Same">,
                                        SameOperandsAndResultType]> {
  let summary = "adds any number of equal-shaped tensors";
  let description = [{
    What the backward pass uses where gradients of one value meet. Terms that
    are partial over an axis are added up before the one reduction.
  }];
  let arguments = (ins Variadic<AnyStaticShapeTensor>:$inputs);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$inputs attr-dict `:` type($result)";
}

def Graph_ContractOp : Graph_TensorOp<"contract",
    [ShardingRule, Differentiable, Widens<"Result">, LibraryCall]> {
  let summary = "sum of products over shared indices, a two-operand einsum";
  let description = [{
    Every dimension of the operands and of the result names an index:
    `dtc.contract %x [0, 1, 3], %w [3, 2] -> [0, 1, 2]` is
    `y[b,s,n] = sum_k x[b,s,k] * w[k,n]`. Indices are numbered from 0 without
    gaps; no index repeats within one tensor; an index of the result appears in
    an operand; an index in neither result nor both operands is not allowed
    (reduce first). Products accumulate in f32 at least. `result` may have a
    wider element type than the operands. Gradients and transposes of a contraction
    are contractions, so no transpose op is needed around it.
  }];
  let arguments = (ins AnyStaticShapeTensor:$lhs, AnyStaticShapeTensor:$rhs,
                       DenseI64ArrayAttr:$lhsIndices, DenseI64ArrayAttr:$rhsIndices,
                       DenseI64ArrayAttr:$resultIndices);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = [{
    $lhs $lhsIndices `,` $rhs $rhsIndices `->` $resultIndices attr-dict `:`
    type($lhs) `,` type($rhs) `->` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Sizes of the indices, by number.
    ::llvm::SmallVector<int64_t> getIndexSizes();
  }];
}

#endif // DTC_DIALECT_GRAPH_REDUCEOPS_TD
