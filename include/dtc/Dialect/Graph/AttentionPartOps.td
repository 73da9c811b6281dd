// Attention by a part of its keys at a time, as ranks compute it that pass keys on to each other.
//
// Results of parts are merged by their row statistics. The gradients of a part follow from the
// merged result and its statistics, which say all that is to be known of the other parts:
//
//   o0, l0 = attention q, k0, v0        lse = log(exp(l0) + exp(l1))
//   o1, l1 = attention q, k1, v1          o = o0 * exp(l0 - lse) + o1 * exp(l1 - lse)
//   dq0, dk0, dv0 = attention_part_grad q, k0, v0, o, lse, do     dq = dq0 + dq1
#ifndef DTC_DIALECT_GRAPH_ATTENTIONPARTOPS_TD
#define DTC_DIALECT_GRAPH_ATTENTIONPARTOPS_TD

include "dtc/Dialect/Graph/GraphBase.td"

def Graph_AttentionPartGradOp : Graph_TensorOp<"attention_part_grad",
    [ShardingRule, Decomposable, NoGradient, ConvertedAround]> {
  let summary = "gradients of attention with respect to query and a part of the keys and values";
  let description = [{
    As attention_grad without a bias, but `output` and `lse` are those of all keys, of which
    `key` and `value` are a part. Where `lse` is +inf, nothing of the part is seen. The query
    gradient is the part's term. With `causal`, the part has the positions of the queries.
  }];
  let arguments = (ins AnyStaticShapeTensor:$query, AnyStaticShapeTensor:$key,
                       AnyStaticShapeTensor:$value, AnyStaticShapeTensor:$output,
                       AnyStaticShapeTensor:$lse, AnyStaticShapeTensor:$grad,
                       F64Attr:$scale, UnitAttr:$causal, OptionalAttr<I64Attr>:$window);
  let results = (outs AnyStaticShapeTensor:$queryGrad, AnyStaticShapeTensor:$keyGrad,
                      AnyStaticShapeTensor:$valueGrad);
  let assemblyFormat = [{
    $query `,` $key `,` $value `,` $output `,` $lse `,` $grad `scale` $scale (`causal` $causal^)?
    (`window` $window^)? attr-dict `:`
    type($query) `,` type($key) `,` type($value) `,` type($output) `,` type($lse) `,` type($grad)
    `->` type($queryGrad) `,` type($keyGrad) `,` type($valueGrad)
  }];
  let hasVerifier = 1;
}

#endif // DTC_DIALECT_GRAPH_ATTENTIONPARTOPS_TD
