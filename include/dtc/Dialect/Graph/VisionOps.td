// Convolution and pooling on [batch, channel, spatial...] tensors.
#ifndef DTC_DIALECT_GRAPH_VISIONOPS_TD
#define DTC_DIALECT_GRAPH_VISIONOPS_TD

include "dtc/Dialect/Graph/GraphBase.td"

class Graph_Windowed<string mnemonic, list<Trait> traits, dag args, dag outs>
    : Graph_TensorOp<mnemonic, !listconcat([ShardingRuleLocal], traits)> {
  let arguments = !con(args, (ins DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$padLow,
                                  DenseI64ArrayAttr:$padHigh, DenseI64ArrayAttr:$dilations));
  let results = outs;
  let hasVerifier = 1;
}

def Graph_ConvOp : Graph_Windowed<"conv", [Differentiable, LibraryCall, ConvertedAround],
    (ins AnyStaticShapeTensor:$input, AnyStaticShapeTensor:$weight, I64Attr:$groups),
    (outs AnyStaticShapeTensor:$result)> {
  let summary = "convolution: input[n,c,hw], weight[o,c/groups,kernel] -> [n,o,hw']";
  let description = [{n and o (without groups) are parallel, c a reduction, space is whole.}];
  let assemblyFormat = [{
    $input `,` $weight `strides` $strides `pad` $padLow `,` $padHigh `dilations` $dilations
    `groups` $groups attr-dict `:` type($input) `,` type($weight) `->` type($result)
  }];
}
def Graph_ConvInputGradOp : Graph_Windowed<"conv_input_grad", [NoGradient, LibraryCall, ConvertedAround],
    (ins AnyStaticShapeTensor:$grad, AnyStaticShapeTensor:$weight, I64Attr:$groups),
    (outs AnyStaticShapeTensor:$result)> {
  let summary = "gradient of conv with respect to its input";
  let assemblyFormat = [{
    $grad `,` $weight `strides` $strides `pad` $padLow `,` $padHigh `dilations` $dilations
    `groups` $groups attr-dict `:` type($grad) `,` type($weight) `->` type($result)
  }];
}
def Graph_ConvWeightGradOp : Graph_Windowed<"conv_weight_grad", [NoGradient, LibraryCall, Widens<"Result">],
    (ins AnyStaticShapeTensor:$input, AnyStaticShapeTensor:$grad, I64Attr:$groups),
    (outs AnyStaticShapeTensor:$result)> {
  let summary = "gradient of conv with respect to its weight";
  let assemblyFormat = [{
    $input `,` $grad `strides` $strides `pad` $padLow `,` $padHigh `dilations` $dilations
    `groups` $groups attr-dict `:` type($input) `,` type($grad) `->` type($result)
  }];
}

def Graph_MaxPoolOp : Graph_Windowed<"max_pool",
    [Differentiable, ConvertedAround, InKernels<"Shared", "LookedUp">],
    (ins AnyStaticShapeTensor:$input, DenseI64ArrayAttr:$kernel),
    (outs AnyStaticShapeTensor:$result)> {
  let summary = "maximum over windows; padding counts as -inf";
  let assemblyFormat = [{
    $input `kernel` $kernel `strides` $strides `pad` $padLow `,` $padHigh `dilations` $dilations
    attr-dict `:` type($input) `->` type($result)
  }];
}
def Graph_MaxPoolGradOp : Graph_Windowed<"max_pool_grad",
    [NoGradient, ConvertedAround, InKernels<"Own", "ByOperand">],
    (ins AnyStaticShapeTensor:$input, AnyStaticShapeTensor:$grad, DenseI64ArrayAttr:$kernel),
    (outs AnyStaticShapeTensor:$result)> {
  let summary = "sends each window's gradient to the first maximal element";
  let assemblyFormat = [{
    $input `,` $grad `kernel` $kernel `strides` $strides `pad` $padLow `,` $padHigh
    `dilations` $dilations attr-dict `:` type($input) `,` type($grad) `->` type($result)
  }];
}

#endif // DTC_DIALECT_GRAPH_VISIONOPS_TD
