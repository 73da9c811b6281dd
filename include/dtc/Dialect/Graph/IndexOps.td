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
    ascending order of the index tensor's elements. `buckets`, where they are
    given, are what dtc.bucket_indices makes of these indices, by which kernels
    find those of some rows.
  }];
  let arguments = (ins AnyStaticShapeTensor:$indices, AnyStaticShapeTensor:$updates, I64Attr:$axis,
                       Optional<AnyStaticShapeTensor>:$buckets, OptionalAttr<I64Attr>:$bucketRows);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = [{
    $indices `,` $updates `axis` $axis (`buckets` $buckets^ `of` $bucketRows)? attr-dict `:`
    type($indices) `,` type($updates) (`,` type($buckets)^)? `->` type($result)
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$indices,
                                 "::mlir::Value":$updates, "int64_t":$axis)>];
  let hasVerifier = 1;
}

def Graph_BucketIndicesOp : Graph_TensorOp<"bucket_indices", [ShardingRule, NoGradient,
                                                              ConvertedAround,
                                                              InKernels<"Own", "LookedUp">]> {
  let summary = "sorts indices by the rows of a table, some rows a bucket";
  let description = [{
    Rows `[0, rows)` of a table are in buckets of `bucketRows`, and indices in
    parts. Of five indices in parts of three, and five rows in buckets of two:

        indices            result: where buckets begin and end, and what is in them
        4 1 0              0 2 2 3   4 2 0
        5 -1               0 0 0 0   -1 -1 -1

    What is in a bucket is there in the order of the indices, as `row * 3 + place`:
    the row among the bucket's, and the place among the part's indices. Indices
    outside the table are in no bucket: what is behind the last one is -1. Sums
    over a bucket's rows so read its own indices, and have one order.
  }];
  let arguments = (ins AnyStaticShapeTensor:$indices, I64Attr:$rows, I64Attr:$bucketRows);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat =
      "$indices `rows` $rows `of` $bucketRows attr-dict `:` type($indices) `->` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Buckets of a table, and indices of a part.
    int64_t getBuckets();
    int64_t getPart();
  }];
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
