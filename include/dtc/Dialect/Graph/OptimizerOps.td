// Parameter updates: elementwise over one parameter, with PyTorch's formulas.
#ifndef DTC_DIALECT_GRAPH_OPTIMIZEROPS_TD
#define DTC_DIALECT_GRAPH_OPTIMIZEROPS_TD

include "dtc/Dialect/Graph/GraphBase.td"

def Graph_ScalarTensor : 0DTensorOf<[AnyFloat]>;

def Graph_SgdUpdateOp : Graph_TensorOp<"sgd_update",
    [ShardingRule, Decomposable, NoGradient, ConvertedAround]> {
  let summary = "torch.optim.SGD";
  let description = [{
    g += weightDecay * p; with momentum: buf = momentum * buf + g (the buffer
    starts at zero, which equals PyTorch's first step), g = nesterov ? g + momentum * buf : buf;
    p -= lr * g. `gradScale` multiplies the gradient first (clipping).
  }];
  let arguments = (ins AnyStaticShapeTensor:$param, AnyStaticShapeTensor:$grad,
                       Optional<AnyStaticShapeTensor>:$momentumBuffer,
                       Graph_ScalarTensor:$lr, Graph_ScalarTensor:$gradScale,
                       F64Attr:$momentum, F64Attr:$weightDecay, UnitAttr:$nesterov);
  let results = (outs AnyStaticShapeTensor:$newParam,
                      Optional<AnyStaticShapeTensor>:$newMomentumBuffer);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Graph_AdamUpdateOp : Graph_TensorOp<"adam_update",
    [ShardingRule, Decomposable, NoGradient, ConvertedAround]> {
  let summary = "torch.optim.Adam, or AdamW with `decoupled`";
  let description = [{
    decoupled: p *= 1 - lr * weightDecay, else g += weightDecay * p.
    m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g^2;
    p -= lr / correction1 * m / (sqrt(v) / sqrt(correction2) + eps) with
    correction_i = 1 - beta_i^step. The corrections are operands (scalars,
    computed once in f64); `gradScale` multiplies the gradient first (clipping).
  }];
  let arguments = (ins AnyStaticShapeTensor:$param, AnyStaticShapeTensor:$grad,
                       AnyStaticShapeTensor:$expAvg, AnyStaticShapeTensor:$expAvgSq,
                       Graph_ScalarTensor:$lr, Graph_ScalarTensor:$gradScale,
                       Graph_ScalarTensor:$correction1, Graph_ScalarTensor:$correction2,
                       F64Attr:$beta1, F64Attr:$beta2, F64Attr:$eps, F64Attr:$weightDecay,
                       UnitAttr:$decoupled);
  let results = (outs AnyStaticShapeTensor:$newParam, AnyStaticShapeTensor:$newExpAvg,
                      AnyStaticShapeTensor:$newExpAvgSq);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif // DTC_DIALECT_GRAPH_OPTIMIZEROPS_TD
