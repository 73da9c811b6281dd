// Ops that draw random numbers.
#ifndef DTC_DIALECT_GRAPH_RANDOMOPS_TD
#define DTC_DIALECT_GRAPH_RANDOMOPS_TD

include "dtc/Dialect/Graph/GraphBase.td"

def Graph_PhiloxOp : Graph_TensorOp<"philox",
    [ShardingRule, NoGradient, ConvertedAround, InKernels<"Shared", "Same">, AllTypesMatch<["keys", "index", "result"]>]> {
  let summary = "random words, each a function of a key and an index";
  let description = [{
    Unsigned words of 32 bits in i64: the first word of Philox 4x32-10 (Salmon et al., Parallel
    random numbers: as easy as 1, 2, 3, SC 2011) with the key `keys` and the counter of `index`
    (two words), `number` and the stream, which is 3. dtc-rt/Files/Philox.h has the same function.
  }];
  let arguments = (ins AnyStaticShapeTensor:$keys, AnyStaticShapeTensor:$index, I64Attr:$number);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$keys `,` $index $number attr-dict `:` type($result)";
  let extraClassDeclaration = [{
    static constexpr int64_t kStream = 3;
  }];
  let hasVerifier = 1;
}

def Graph_DropoutOp : Graph_TensorOp<"dropout",
    [ShardingRuleLocal, Decomposable, Differentiable, ConvertedAround, AllTypesMatch<["input", "result"]>]> {
  let summary = "zeros elements at random, and scales up the others";
  let description = [{
    `result = input / (1 - ratio)` where an element is kept, 0 elsewhere. Which ones are is
    drawn by Philox 4x32-10 from the sample's key, the op's number and the element's
    index inside its sample. So it is the same in the forward and the backward pass, when
    computed again, and under every sharding and number of microbatches.

        %y = dtc.dropout %x keys %k : tensor<8xi64> ratio 1.0E-1 {number = 3 : i64}
             : tensor<8x32x64xf32>

    A sample with the key -1 loses nothing: so evaluations have it.

    `keys` has one for each sample; `batch` is the dimension of samples. Importers leave both
    out; dtc-key-dropout adds them, and the numbers.
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, Optional<AnyStaticShapeTensor>:$keys,
                       F64Attr:$ratio, DefaultValuedOptionalAttr<I64Attr, "0">:$number,
                       DefaultValuedOptionalAttr<I64Attr, "0">:$batch);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = [{
    $input (`keys` $keys^ `:` type($keys))? `ratio` $ratio attr-dict `:` type($result)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "double":$ratio)>];
  let extraClassDeclaration = [{
    /// The argument of a phase function that has the samples' keys (dtc-rt/Program/DropoutKeys.h).
    static constexpr llvm::StringLiteral kKeys = "dropout_keys";
    /// The key of a sample of which nothing is dropped.
    static constexpr int64_t kKeepsAll = -1;
  }];
  let hasVerifier = 1;
}

#endif // DTC_DIALECT_GRAPH_RANDOMOPS_TD
