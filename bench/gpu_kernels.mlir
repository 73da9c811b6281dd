// Kernels of a GPT-2 124M at batch 64 and sequence 1,024, which bench/gpu_counts.py --large counts: each moves 64 MB and more.

// The loss and its gradient.
func.func @loss(%logits: tensor<65536x50304xbf16>, %target: tensor<65536xi64>, %grad: tensor<65536xf32>)
    -> (tensor<65536xf32>, tensor<65536x50304xbf16>) {
  %0:2 = dtc.cross_entropy %logits, %target ignore -100 : tensor<65536x50304xbf16>, tensor<65536xi64> -> tensor<65536xf32>, tensor<65536xf32>
  %1 = dtc.cross_entropy_grad %logits, %target, %0#1, %grad ignore -100 : tensor<65536x50304xbf16>, tensor<65536xi64>, tensor<65536xf32>, tensor<65536xf32> -> tensor<65536x50304xbf16>
  return %0#0, %1 : tensor<65536xf32>, tensor<65536x50304xbf16>
}

// A norm.
func.func @norm(%x: tensor<65536x768xbf16>, %scale: tensor<768xbf16>, %bias: tensor<768xbf16>)
    -> (tensor<65536x768xbf16>, tensor<65536xf32>, tensor<65536xf32>) {
  %0:3 = dtc.layer_norm %x scale %scale : tensor<768xbf16> bias %bias : tensor<768xbf16> eps 1.0e-5 : tensor<65536x768xbf16> -> tensor<65536x768xbf16>, tensor<65536xf32>, tensor<65536xf32>
  return %0#0, %0#1, %0#2 : tensor<65536x768xbf16>, tensor<65536xf32>, tensor<65536xf32>
}

// Its gradients: of its input by rows, of its scale and bias by columns.
func.func @norm_grad(%x: tensor<65536x768xbf16>, %mean: tensor<65536xf32>, %rstd: tensor<65536xf32>, %g: tensor<65536x768xbf16>, %scale: tensor<768xbf16>)
    -> (tensor<65536x768xbf16>, tensor<768xf32>, tensor<768xf32>) {
  %0:3 = dtc.layer_norm_grad %x, %mean, %rstd, %g scale %scale : tensor<768xbf16> : tensor<65536x768xbf16>, tensor<65536xf32>, tensor<65536xf32>, tensor<65536x768xbf16> -> tensor<65536x768xbf16>, tensor<768xf32>, tensor<768xf32>
  return %0#0, %0#1, %0#2 : tensor<65536x768xbf16>, tensor<768xf32>, tensor<768xf32>
}

// The gradient of a bias, where no product sums it up beside another.
func.func @bias_grad(%g: tensor<65536x3072xbf16>) -> tensor<3072xf32> {
  %0 = arith.extf %g : tensor<65536x3072xbf16> to tensor<65536x3072xf32>
  %1 = dtc.reduce sum %0 [0] : tensor<65536x3072xf32> -> tensor<3072xf32>
  return %1 : tensor<3072xf32>
}

// The gradient of the embedding, on top of what the head's product has made of the same weights.
func.func @embedding_grad(%tokens: tensor<65536xi64>, %g: tensor<65536x768xbf16>, %head: tensor<50304x768xf32>)
    -> tensor<50304x768xf32> {
  %0 = dtc.scatter_add %tokens, %g axis 0 : tensor<65536xi64>, tensor<65536x768xbf16> -> tensor<50304x768xf32>
  %1 = dtc.sum %head, %0 : tensor<50304x768xf32>
  return %1 : tensor<50304x768xf32>
}

// Arithmetic element by element.
func.func @residual(%x: tensor<65536x768xbf16>, %y: tensor<65536x768xbf16>) -> tensor<65536x768xbf16> {
  %0 = arith.extf %x : tensor<65536x768xbf16> to tensor<65536x768xf32>
  %1 = arith.extf %y : tensor<65536x768xbf16> to tensor<65536x768xf32>
  %2 = arith.addf %0, %1 : tensor<65536x768xf32>
  %3 = arith.truncf %2 : tensor<65536x768xf32> to tensor<65536x768xbf16>
  return %3 : tensor<65536x768xbf16>
}
