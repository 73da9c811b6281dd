// Ops that address elements by value.
#ifndef DTC_DIALECT_GRAPH_INDEXOPS_TD
#define DTC_DIALECT_GRAPH_INDEXOPS_TD

include "dtc/Dialect/Graph/GraphBase.td"

def Graph_GatherOp : Graph_TensorOp<"gather", [ShardingRuleLocal, Differentiable, ConvertedAround,
                                              InKernels<"Shared", "ByOperand">]> {
  let summary = "takes slices of a table by index (embedding look-up)";
  let description = [{
    `result = table[:axis] + indices + table[axis+1:]` in shapes. An index
    outside [0, size) gives zeros, so that a table split by rows needs only
    shifted indices and a sum over the ranks: rows are a reduction(sum) factor.
    Looking up `paddingRow` gives that row no gradient (torch.nn.Embedding's
    padding_idx); the result is the same with and without it.
  }];
  let arguments = (ins AnyStaticShapeTensor:$table, AnyStaticShapeTensor:$indices, I64Attr:$axis,
                       OptionalAttr<I64Attr>:$paddingRow);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat =
      "$table `,` $indices `axis` $axis attr-dict `:` type($table) `,` type($indices) `->` type($result)";
  let hasVerifier = 1;
}

def Graph_ScatterAddOp : Graph_TensorOp<"scatter_add",
    [ShardingRuleLocal, NoGradient, Widens<"Result">, InKernels<"Own", "ByOperand">]> {
  let summary = "adds slices into a zero tensor by index (gradient of gather)";
  let description = [{
    `result[:axis, indices[j...], axis+1:] += updates[:axis, j..., axis+1:]`;
    indices outside the result are dropped. Accumulates in f32 at least, in
    ascending order of the index tensor's elements.
  }];
  let arguments = (ins AnyStaticShapeTensor:$indices, AnyStaticShapeTensor:$updates, I64Attr:$axis);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat =
      "$indices `,` $updates `axis` $axis attr-dict `:` type($indices) `,` type($updates) `->` type($result)";
  let hasVerifier = 1;
}

def Graph_PickOp : Graph_TensorOp<"pick",
    [ShardingRuleLocal, Differentiable, ConvertedAround, InKernels<"Shared", "Same">]> {
  let summary = "one element of each row, by index";
  let description = [{
    `result[i...] = input[i..., indices[i...]]`, 0 where the index is outside;
    the last dimension is a reduction(sum) factor, as in gather.
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, AnyStaticShapeTensor:$indices);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat =
      "$input `,` $indices attr-dict `:` type($input) `,` type($indices) `->` type($result)";
  let hasVerifier = 1;
}

def Graph_TopKOp : Graph_TensorOp<"top_k", [ShardingRule, NoGradient, ConvertedAround,
                                            InKernels<"Own", "LookedUp">]> {
  let summary = "where the largest elements of each row are";
  let description = [{
    `%at = dtc.top_k %x : tensor<4x8xf32> -> tensor<4x2xi64>` are the indices of
    the 2 largest (`smallest`: smallest) elements along the last dimension, best
    first; equal elements in the order of their indices; NaN counts as +infinity.
    The elements themselves are picked by these indices, so that the gradient is
    pick's and this op has none. A row is seen whole.
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, UnitAttr:$smallest);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat =
      "$input (`smallest` $smallest^)? attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

#endif // DTC_DIALECT_GRAPH_INDEXOPS_TD
