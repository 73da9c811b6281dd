// Ops that stand for a small graph: activations, softmax, normalizations,
// attention, cross entropy. Each decomposes into simpler ops.
#ifndef DTC_DIALECT_GRAPH_LAYEROPS_TD
#define DTC_DIALECT_GRAPH_LAYEROPS_TD

include "dtc/Dialect/Graph/GraphBase.td"

class Graph_LayerOp<string mnemonic, list<Trait> traits = []>
    : Graph_TensorOp<mnemonic, !listconcat([ShardingRule, Decomposable], traits)>;

def Graph_ActivationOp
    : Graph_LayerOp<"activation", [Differentiable, ConvertedAround, SameOperandsAndResultType]> {
  let summary = "a pointwise activation function";
  let arguments = (ins Graph_ActivationAttr:$kind, AnyStaticShapeTensor:$input);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$kind $input attr-dict `:` type($result)";
  let hasVerifier = 1;
}
def Graph_ActivationGradOp
    : Graph_LayerOp<"activation_grad", [NoGradient, ConvertedAround, SameOperandsAndResultType]> {
  let summary = "gradient of an activation from its input: f'(input) * grad";
  let arguments = (ins Graph_ActivationAttr:$kind, AnyStaticShapeTensor:$input,
                       AnyStaticShapeTensor:$grad);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$kind $input `,` $grad attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Graph_SoftmaxOp : Graph_LayerOp<"softmax",
    [Differentiable, ConvertedAround, SameOperandsAndResultType]> {
  let summary = "softmax along one dimension";
  let description = [{
    Computed in f32 at least. A row whose every entry is -inf gives zeros.
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, I64Attr:$dim);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input $dim attr-dict `:` type($result)";
  let hasVerifier = 1;
}
def Graph_SoftmaxGradOp : Graph_LayerOp<"softmax_grad",
    [NoGradient, ConvertedAround, SameOperandsAndResultType]> {
  let summary = "gradient of softmax from its result: y * (grad - sum(grad * y))";
  let arguments = (ins AnyStaticShapeTensor:$output, AnyStaticShapeTensor:$grad, I64Attr:$dim);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$output `,` $grad $dim attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Graph_LayerNormOp : Graph_LayerOp<"layer_norm",
    [Differentiable, Statistics, AttrSizedOperandSegments]> {
  let summary = "layer normalization over the last dimension";
  let description = [{
    `result = (x - mean) * rstd * scale + bias`, `rstd = 1 / sqrt(var + eps)`
    with the biased variance. Mean and rstd are f32 (f64 for f64) of the leading dimensions'
    shape. The normalized dimension is a rounds factor.
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, Optional<AnyStaticShapeTensor>:$scale,
                       Optional<AnyStaticShapeTensor>:$bias, F64Attr:$eps);
  let results = (outs AnyStaticShapeTensor:$result, AnyStaticShapeTensor:$mean,
                      AnyStaticShapeTensor:$rstd);
  let assemblyFormat = [{
    $input (`scale` $scale^ `:` type($scale))? (`bias` $bias^ `:` type($bias))? `eps` $eps
    attr-dict `:` type($input) `->` type($result) `,` type($mean) `,` type($rstd)
  }];
  let hasVerifier = 1;
}
def Graph_LayerNormGradOp : Graph_LayerOp<"layer_norm_grad", [NoGradient, Widens<"Result">]> {
  let summary = "gradients of layer_norm with respect to input, scale and bias";
  let description = [{
    `scale` may be absent (taken as ones). The gradients of scale and bias are
    always results; unused ones cost nothing after dead code is removed.
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, AnyStaticShapeTensor:$mean,
                       AnyStaticShapeTensor:$rstd, AnyStaticShapeTensor:$grad,
                       Optional<AnyStaticShapeTensor>:$scale);
  let results = (outs AnyStaticShapeTensor:$inputGrad, AnyStaticShapeTensor:$scaleGrad,
                      AnyStaticShapeTensor:$biasGrad);
  let assemblyFormat = [{
    $input `,` $mean `,` $rstd `,` $grad (`scale` $scale^ `:` type($scale))? attr-dict `:`
    type($input) `,` type($mean) `,` type($rstd) `,` type($grad)
    `->` type($inputGrad) `,` type($scaleGrad) `,` type($biasGrad)
  }];
  let hasVerifier = 1;
}

def Graph_RmsNormOp : Graph_LayerOp<"rms_norm", [Differentiable, Statistics]> {
  let summary = "root mean square normalization over the last dimension";
  let description = [{`result = x * rstd * scale`, `rstd = 1 / sqrt(mean(x^2) + eps)`.}];
  let arguments = (ins AnyStaticShapeTensor:$input, Optional<AnyStaticShapeTensor>:$scale,
                       F64Attr:$eps);
  let results = (outs AnyStaticShapeTensor:$result, AnyStaticShapeTensor:$rstd);
  let assemblyFormat = [{
    $input (`scale` $scale^ `:` type($scale))? `eps` $eps attr-dict `:`
    type($input) `->` type($result) `,` type($rstd)
  }];
  let hasVerifier = 1;
}
def Graph_RmsNormGradOp : Graph_LayerOp<"rms_norm_grad", [NoGradient, Widens<"Result">]> {
  let summary = "gradients of rms_norm with respect to input and scale";
  let arguments = (ins AnyStaticShapeTensor:$input, AnyStaticShapeTensor:$rstd,
                       AnyStaticShapeTensor:$grad, Optional<AnyStaticShapeTensor>:$scale);
  let results = (outs AnyStaticShapeTensor:$inputGrad, AnyStaticShapeTensor:$scaleGrad);
  let assemblyFormat = [{
    $input `,` $rstd `,` $grad (`scale` $scale^ `:` type($scale))? attr-dict `:`
    type($input) `,` type($rstd) `,` type($grad) `->` type($inputGrad) `,` type($scaleGrad)
  }];
  let hasVerifier = 1;
}

def Graph_BatchNormOp : Graph_LayerOp<"batch_norm",
    [Differentiable, Precision, AttrSizedOperandSegments]> {
  let summary = "normalization of each channel by the statistics of the batch";
  let description = [{
    `result = (x - mean) * rstd * scale + bias`, `rstd = 1 / sqrt(var + eps)` with the biased
    variance over all dimensions but channels, which are dimension 1. Mean, rstd and the
    unbiased `variance`, which running averages take, are f32 (f64 for f64), one for each
    channel. The dimensions that are averaged over are rounds factors.

    `running` has the statistics that an evaluation takes instead, mean and variance: all results
    are then as if they were the batch's. The op evaluates where the scalar after `if` isn't zero.
    Importers leave it out; dtc-build-training adds it.

        %y:4 = dtc.batch_norm %x running %m, %v if %e eps 1.0E-5 ...
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, Optional<AnyStaticShapeTensor>:$scale,
                       Optional<AnyStaticShapeTensor>:$bias,
                       Optional<AnyStaticShapeTensor>:$runningMean,
                       Optional<AnyStaticShapeTensor>:$runningVariance,
                       Optional<AnyStaticShapeTensor>:$evaluation, F64Attr:$eps);
  let results = (outs AnyStaticShapeTensor:$result, AnyStaticShapeTensor:$mean,
                      AnyStaticShapeTensor:$rstd, AnyStaticShapeTensor:$variance);
  let assemblyFormat = [{
    $input (`scale` $scale^ `:` type($scale))? (`bias` $bias^ `:` type($bias))?
    (`running` $runningMean^ `:` type($runningMean) `,` $runningVariance `:`
    type($runningVariance))? (`if` $evaluation^ `:` type($evaluation))? `eps` $eps
    attr-dict `:` type($input) `->` type($result) `,` type($mean) `,` type($rstd) `,`
    type($variance)
  }];
  let extraClassDeclaration = [{
    /// Whether it takes the running statistics where a scalar says so.
    bool canEvaluate() { return getRunningMean() && getEvaluation(); }
  }];
  let hasVerifier = 1;
}
def Graph_BatchNormGradOp : Graph_LayerOp<"batch_norm_grad", [NoGradient, Widens<"Result">]> {
  let summary = "gradients of batch_norm with respect to input, scale and bias";
  let description = [{
    They flow through the statistics, so they are sums over the whole batch: splitting it takes
    reductions here as in the forward pass.
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, AnyStaticShapeTensor:$mean,
                       AnyStaticShapeTensor:$rstd, AnyStaticShapeTensor:$grad,
                       Optional<AnyStaticShapeTensor>:$scale);
  let results = (outs AnyStaticShapeTensor:$inputGrad, AnyStaticShapeTensor:$scaleGrad,
                      AnyStaticShapeTensor:$biasGrad);
  let assemblyFormat = [{
    $input `,` $mean `,` $rstd `,` $grad (`scale` $scale^ `:` type($scale))? attr-dict `:`
    type($input) `,` type($mean) `,` type($rstd) `,` type($grad)
    `->` type($inputGrad) `,` type($scaleGrad) `,` type($biasGrad)
  }];
  let hasVerifier = 1;
}

def Graph_AttentionOp : Graph_LayerOp<"attention",
    [Differentiable, Precision]> {
  let summary = "scaled dot-product attention with grouped keys and values";
  let description = [{
    q[b,s,(g r),e], k[b,t,g,e], v[b,t,g,f] -> result[b,s,(g r),f] and the row
    statistics lse[b,(g r),s] (f32 at least). Query heads are grouped: heads
    g*r .. g*r+r-1 share key-value head g. Scores are `scale * q.k + bias`;
    `causal` masks keys after the query (query i sees keys <= i + t - s). With `window` it sees
    only the last n of these (keys > i + t - s - n).
    `bias` has the shape [b,(g r),s,t]. Rows that see
    nothing give zeros. Keys (t) are a rounds factor.
  }];
  let arguments = (ins AnyStaticShapeTensor:$query, AnyStaticShapeTensor:$key,
                       AnyStaticShapeTensor:$value, Optional<AnyStaticShapeTensor>:$bias,
                       F64Attr:$scale, UnitAttr:$causal, OptionalAttr<I64Attr>:$window);
  let results = (outs AnyStaticShapeTensor:$result, AnyStaticShapeTensor:$lse);
  let assemblyFormat = [{
    $query `,` $key `,` $value (`bias` $bias^ `:` type($bias))? `scale` $scale
    (`causal` $causal^)? (`window` $window^)? attr-dict `:`
    type($query) `,` type($key) `,` type($value) `->` type($result) `,` type($lse)
  }];
  let hasVerifier = 1;
}
def Graph_AttentionGradOp : Graph_LayerOp<"attention_grad", [NoGradient, ConvertedAround]> {
  let summary = "gradients of attention with respect to query, key and value";
  let description = [{Recomputes the probabilities from the row statistics.}];
  let arguments = (ins AnyStaticShapeTensor:$query, AnyStaticShapeTensor:$key,
                       AnyStaticShapeTensor:$value, AnyStaticShapeTensor:$output,
                       AnyStaticShapeTensor:$lse, AnyStaticShapeTensor:$grad,
                       Optional<AnyStaticShapeTensor>:$bias,
                       F64Attr:$scale, UnitAttr:$causal, OptionalAttr<I64Attr>:$window);
  let results = (outs AnyStaticShapeTensor:$queryGrad, AnyStaticShapeTensor:$keyGrad,
                      AnyStaticShapeTensor:$valueGrad);
  let assemblyFormat = [{
    $query `,` $key `,` $value `,` $output `,` $lse `,` $grad (`bias` $bias^ `:` type($bias))?
    `scale` $scale (`causal` $causal^)? (`window` $window^)? attr-dict `:`
    type($query) `,` type($key) `,` type($value) `,` type($output) `,` type($lse) `,` type($grad)
    `->` type($queryGrad) `,` type($keyGrad) `,` type($valueGrad)
  }];
  let hasVerifier = 1;
}

def Graph_CrossEntropyOp : Graph_LayerOp<"cross_entropy", [Differentiable, Statistics]> {
  let summary = "softmax cross entropy of each row with an integer target";
  let description = [{
    logits[..., v], target[...] -> loss[...] and lse[...], both f32 (f64 for
    f64): `loss = lse - logits[target]`, 0 where the target is `ignoreIndex`.
    The last dimension is a rounds factor (vocabulary-parallel loss).
  }];
  let arguments = (ins AnyStaticShapeTensor:$logits, AnyStaticShapeTensor:$target,
                       I64Attr:$ignoreIndex);
  let results = (outs AnyStaticShapeTensor:$loss, AnyStaticShapeTensor:$lse);
  let assemblyFormat = [{
    $logits `,` $target `ignore` $ignoreIndex attr-dict `:` type($logits) `,` type($target)
    `->` type($loss) `,` type($lse)
  }];
  let hasVerifier = 1;
}
def Graph_CrossEntropyGradOp : Graph_TensorOp<"cross_entropy_grad",
    [ShardingRuleLocal, Decomposable, NoGradient, ConvertedAround]> {
  let summary = "gradient of cross_entropy with respect to the logits";
  let description = [{
    `(exp(logits - lse) - onehot(target)) * grad`, zero in ignored rows. Needs
    no communication: the last dimension is parallel once `lse` is known.
  }];
  let arguments = (ins AnyStaticShapeTensor:$logits, AnyStaticShapeTensor:$target,
                       AnyStaticShapeTensor:$lse, AnyStaticShapeTensor:$grad,
                       I64Attr:$ignoreIndex);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = [{
    $logits `,` $target `,` $lse `,` $grad `ignore` $ignoreIndex attr-dict `:`
    type($logits) `,` type($target) `,` type($lse) `,` type($grad) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // DTC_DIALECT_GRAPH_LAYEROPS_TD
