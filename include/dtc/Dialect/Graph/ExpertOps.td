// Mixtures of experts whose tokens all reach the experts they chose.
//
// Each sample has rows, one for each choice of one of its tokens, and `choices` says which
// expert a row goes to. Between dispatch and combine rows belong to experts:
//
//   %in = dtc.dispatch %x, %choices experts 8 : tensor<4x64x32xf32>, tensor<4x64xi64>
//   %to = dtc.dispatch %choices, %choices experts 8 : tensor<4x64xi64>, tensor<4x64xi64>
//   %up = dtc.grouped_contract %in [0, 1, 3], %w [4, 2, 3] -> [0, 1, 2] by %to [0, 1] of 4
//         : tensor<4x64x32xf32>, tensor<8x128x32xf32>, tensor<4x64xi64> -> tensor<4x64x128xf32>
//   ...
//   %y = dtc.combine %down, %choices experts 8 : tensor<4x64x32xf32>, tensor<4x64xi64>
//
// On one device dispatch and combine do nothing. Their rules let the rows of a sample be shared out
// by experts in between, in an order of their own. Dimension 1 is then (parts of the experts, rows
// of a part), as if all experts were chosen equally often. Plans take that for granted. What rows a
// rank really has is known only when it runs. So an op with this factor split is refused where it
// is built on shards. Programs that run give rows slots instead (SlotOps.td). Those with experts of
// fixed capacity (GShard) need none of this: there contractions have a dimension that counts
// experts.
#ifndef DTC_DIALECT_GRAPH_EXPERTOPS_TD
#define DTC_DIALECT_GRAPH_EXPERTOPS_TD

include "dtc/Dialect/Graph/GraphBase.td"

class Graph_ExchangeOp<string mnemonic>
    : Graph_TensorOp<mnemonic, [ShardingRuleLocal, Differentiable, Decomposable, ConvertedAround,
                                AllTypesMatch<["input", "result"]>]> {
  let arguments = (ins AnyStaticShapeTensor:$input, AnyStaticShapeTensor:$choices,
                       I64Attr:$experts);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat =
      "$input `,` $choices `experts` $experts attr-dict `:` type($input) `,` type($choices)";
  let hasVerifier = 1;
}

def Graph_DispatchOp : Graph_ExchangeOp<"dispatch"> {
  let summary = "hands each row of a sample to the expert it chose";
  let description = [{
    `choices[b, n]` is the expert of row n of sample b. The result has the same rows; on one
    device in the same order.
  }];
}

def Graph_CombineOp : Graph_ExchangeOp<"combine"> {
  let summary = "takes rows back from their experts, in the order they had before dispatch";
  let description = [{ `choices` are those that the rows were dispatched by. }];
}

def Graph_GroupedContractOp
    : Graph_TensorOp<"grouped_contract", [ShardingRuleLocal, Differentiable, Decomposable,
                                             Widens<"Result">]> {
  let summary = "contraction of each row with the slice of its expert (a grouped product)";
  let description = [{
    Indices are those of dtc.contract; the index `experts` counts experts. It occurs in one of
    lhs, rhs and result, the indices of `choices` (sample and row) in the other two:

        y[b,n,f]  = sum_h   x[b,n,h] w[choices[b,n],f,h]
        w'[e,f,h] = sum_b,n y'[b,n,f] x[b,n,h] where choices[b,n] = e

    A row whose choice is not an expert gives zeros, and is in no sum. Products
    accumulate in f32 at least; `result` may have a wider element type than the operands.
    Gradients of a grouped contraction are grouped contractions.
  }];
  let arguments = (ins AnyStaticShapeTensor:$lhs, AnyStaticShapeTensor:$rhs,
                       AnyStaticShapeTensor:$choices, DenseI64ArrayAttr:$lhsIndices,
                       DenseI64ArrayAttr:$rhsIndices, DenseI64ArrayAttr:$resultIndices,
                       DenseI64ArrayAttr:$choiceIndices, I64Attr:$experts);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = [{
    $lhs $lhsIndices `,` $rhs $rhsIndices `->` $resultIndices `by` $choices $choiceIndices
    `of` $experts attr-dict `:` type($lhs) `,` type($rhs) `,` type($choices) `->` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Sizes of the indices, by number.
    ::llvm::SmallVector<int64_t> getIndexSizes();
  }];
}

#endif // DTC_DIALECT_GRAPH_EXPERTOPS_TD
