// Ops that move elements without computing.
#ifndef DTC_DIALECT_GRAPH_SHAPEOPS_TD
#define DTC_DIALECT_GRAPH_SHAPEOPS_TD

include "dtc/Dialect/Graph/GraphBase.td"

def Graph_IotaOp : Graph_TensorOp<"iota",
    [ShardingRuleLocal, Differentiable, ConvertedAround, InKernels<"Shared", "Same">]> {
  let summary = "the index along one dimension";
  let description = [{`result[i0,...] = i_dim`, as integer or float.}];
  let arguments = (ins I64Attr:$dim);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$dim attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Graph_BroadcastOp : Graph_TensorOp<"broadcast", [ShardingRule, Differentiable, Widens<"Operands">,
                                                    InKernels<"Shared", "ByOperand">]> {
  let summary = "repeats a tensor along new dimensions";
  let description = [{
    Operand dimension `i` becomes result dimension `dims[i]` (ascending, same
    size); the others repeat: `dtc.broadcast %bias [2] : tensor<64xf32> -> tensor<8x32x64xf32>`.
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, DenseI64ArrayAttr:$dims);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input $dims attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Graph_ReshapeOp : Graph_TensorOp<"reshape",
    [ShardingRule, Differentiable, Widens<"Operands">, InKernels<"Shared", "Same">]> {
  let summary = "the same elements in row-major order under another shape";
  let arguments = (ins AnyStaticShapeTensor:$input);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Graph_BarrierOp : Graph_Op<"barrier", [MemoryEffects<[MemWrite]>, SameOperandsAndResultType,
                                           Cost, ShardingRule, Differentiable, ConvertedAround]> {
  let summary = "the same tensor, that nothing recognizes as the same";
  let description = [{
    Nothing is merged, folded or fused across it: what is computed of a barrier's result is
    computed anew, although the same may have been computed of its operand before. So
    recomputed activations stay recomputed. It computes nothing; its result lies where its
    operand does.

        %a = math.exp %x : tensor<64xf32>         // in the forward pass
        %y = dtc.barrier %x : tensor<64xf32>
        %b = math.exp %y : tensor<64xf32>         // again in the backward pass
  }];
  let arguments = (ins AnyStaticShapeTensor:$input);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}

def Graph_TransposeOp : Graph_TensorOp<"transpose", [ShardingRule, Differentiable, Widens<"Operands">,
                                                    InKernels<"Shared", "ByOperand">]> {
  let summary = "permutes dimensions";
  let description = [{Result dimension `i` is operand dimension `perm[i]`.}];
  let arguments = (ins AnyStaticShapeTensor:$input, DenseI64ArrayAttr:$perm);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input $perm attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Graph_SliceOp : Graph_TensorOp<"slice", [ShardingRuleLocal, Differentiable, Widens<"Operands">,
                                            InKernels<"Shared", "Moved">]> {
  let summary = "a static strided part of a tensor";
  let description = [{
    `result[i] = input[offsets + i * strides]`; sizes are the result's. A
    dimension taken whole stays splittable, the others are whole factors.
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, DenseI64ArrayAttr:$offsets,
                       DenseI64ArrayAttr:$strides);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat =
      "$input `offsets` $offsets `strides` $strides attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Graph_PadOp : Graph_TensorOp<"pad", [ShardingRuleLocal, Differentiable, Widens<"Operands">,
                                        InKernels<"Shared", "Moved">]> {
  let summary = "places a tensor into a larger one filled with a constant";
  let description = [{
    `result[low + i * (interior + 1)] = input[i]`, `value` elsewhere. The
    gradient of slice; sizes are the result's. Padded dimensions are whole.
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, DenseI64ArrayAttr:$low,
                       DenseI64ArrayAttr:$interior, F64Attr:$value);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat =
      "$input `low` $low `interior` $interior `value` $value attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Graph_ConcatOp : Graph_TensorOp<"concat", [ShardingRuleLocal, Differentiable, Widens<"Operands">,
                                              InKernels<"Shared", "Moved">]> {
  let summary = "joins tensors along a dimension";
  let arguments = (ins Variadic<AnyStaticShapeTensor>:$inputs, I64Attr:$dim);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$dim `(` $inputs `)` attr-dict `:` type($inputs) `->` type($result)";
  let hasVerifier = 1;
}

#endif // DTC_DIALECT_GRAPH_SHAPEOPS_TD
