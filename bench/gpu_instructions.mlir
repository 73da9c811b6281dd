// Kernels of bf16 whose instructions bench/gpu_counts.py --instructions counts: a part of what GPT-2 124M and a
// Llama of 1B have.

// Losses and their gradients, of so few logits that a row is still one block's. Rows of the first begin within
// accesses.
func.func @loss_odd(%logits: tensor<8x8009xbf16>, %target: tensor<8xi64>, %grad: tensor<8xf32>)
    -> (tensor<8xf32>, tensor<8x8009xbf16>) {
  %0:2 = dtc.cross_entropy %logits, %target ignore -100 : tensor<8x8009xbf16>, tensor<8xi64> -> tensor<8xf32>, tensor<8xf32>
  %1 = dtc.cross_entropy_grad %logits, %target, %0#1, %grad ignore -100 : tensor<8x8009xbf16>, tensor<8xi64>, tensor<8xf32>, tensor<8xf32> -> tensor<8x8009xbf16>
  return %0#0, %1 : tensor<8xf32>, tensor<8x8009xbf16>
}

func.func @loss_even(%logits: tensor<8x8000xbf16>, %target: tensor<8xi64>, %grad: tensor<8xf32>)
    -> (tensor<8xf32>, tensor<8x8000xbf16>) {
  %0:2 = dtc.cross_entropy %logits, %target ignore -100 : tensor<8x8000xbf16>, tensor<8xi64> -> tensor<8xf32>, tensor<8xf32>
  %1 = dtc.cross_entropy_grad %logits, %target, %0#1, %grad ignore -100 : tensor<8x8000xbf16>, tensor<8xi64>, tensor<8xf32>, tensor<8xf32> -> tensor<8x8000xbf16>
  return %0#0, %1 : tensor<8xf32>, tensor<8x8000xbf16>
}

// SwiGLU and its gradients.
func.func @swiglu(%gate: tensor<64x8192xbf16>, %up: tensor<64x8192xbf16>) -> tensor<64x8192xbf16> {
  %0 = dtc.activation silu %gate : tensor<64x8192xbf16>
  %1 = arith.mulf %0, %up : tensor<64x8192xbf16>
  return %1 : tensor<64x8192xbf16>
}

func.func @swiglu_grad(%gate: tensor<64x8192xbf16>, %up: tensor<64x8192xbf16>, %g: tensor<64x8192xbf16>)
    -> (tensor<64x8192xbf16>, tensor<64x8192xbf16>) {
  %0 = dtc.activation silu %gate : tensor<64x8192xbf16>
  %1 = arith.mulf %g, %0 : tensor<64x8192xbf16>
  %2 = arith.mulf %g, %up : tensor<64x8192xbf16>
  %3 = dtc.activation_grad silu %gate, %2 : tensor<64x8192xbf16>
  return %1, %3 : tensor<64x8192xbf16>, tensor<64x8192xbf16>
}

// Rotary positions and their gradient.
func.func @rotary(%x: tensor<1x256x32x128xbf16>, %cos: tensor<256x128xf32>, %sin: tensor<256x128xf32>) -> tensor<1x256x32x128xbf16> {
  %0 = arith.extf %x : tensor<1x256x32x128xbf16> to tensor<1x256x32x128xf32>
  %c = dtc.broadcast %cos [1, 3] : tensor<256x128xf32> -> tensor<1x256x32x128xf32>
  %s = dtc.broadcast %sin [1, 3] : tensor<256x128xf32> -> tensor<1x256x32x128xf32>
  %low = dtc.slice %0 offsets [0, 0, 0, 0] strides [1, 1, 1, 1] : tensor<1x256x32x128xf32> -> tensor<1x256x32x64xf32>
  %high = dtc.slice %0 offsets [0, 0, 0, 64] strides [1, 1, 1, 1] : tensor<1x256x32x128xf32> -> tensor<1x256x32x64xf32>
  %minus = arith.negf %high : tensor<1x256x32x64xf32>
  %turned = dtc.concat 3 (%minus, %low) : tensor<1x256x32x64xf32>, tensor<1x256x32x64xf32> -> tensor<1x256x32x128xf32>
  %1 = arith.mulf %0, %c : tensor<1x256x32x128xf32>
  %2 = arith.mulf %turned, %s : tensor<1x256x32x128xf32>
  %3 = arith.addf %1, %2 : tensor<1x256x32x128xf32>
  %4 = arith.truncf %3 : tensor<1x256x32x128xf32> to tensor<1x256x32x128xbf16>
  return %4 : tensor<1x256x32x128xbf16>
}

func.func @rotary_grad(%g: tensor<1x256x32x128xbf16>, %cos: tensor<256x128xf32>, %sin: tensor<256x128xf32>) -> tensor<1x256x32x128xbf16> {
  %0 = arith.extf %g : tensor<1x256x32x128xbf16> to tensor<1x256x32x128xf32>
  %c = dtc.broadcast %cos [1, 3] : tensor<256x128xf32> -> tensor<1x256x32x128xf32>
  %s = dtc.broadcast %sin [1, 3] : tensor<256x128xf32> -> tensor<1x256x32x128xf32>
  %1 = arith.mulf %0, %c : tensor<1x256x32x128xf32>
  %2 = arith.mulf %0, %s : tensor<1x256x32x128xf32>
  %low = dtc.slice %2 offsets [0, 0, 0, 0] strides [1, 1, 1, 1] : tensor<1x256x32x128xf32> -> tensor<1x256x32x64xf32>
  %high = dtc.slice %2 offsets [0, 0, 0, 64] strides [1, 1, 1, 1] : tensor<1x256x32x128xf32> -> tensor<1x256x32x64xf32>
  %minus = arith.negf %low : tensor<1x256x32x64xf32>
  %a = dtc.pad %minus low [0, 0, 0, 64] interior [0, 0, 0, 0] value 0.0 : tensor<1x256x32x64xf32> -> tensor<1x256x32x128xf32>
  %b = dtc.pad %high low [0, 0, 0, 0] interior [0, 0, 0, 0] value 0.0 : tensor<1x256x32x64xf32> -> tensor<1x256x32x128xf32>
  %3 = dtc.sum %a, %b, %1 : tensor<1x256x32x128xf32>
  %4 = arith.truncf %3 : tensor<1x256x32x128xf32> to tensor<1x256x32x128xbf16>
  return %4 : tensor<1x256x32x128xbf16>
}

// A norm and the gradient of its input.
func.func @norm(%x: tensor<256x768xbf16>, %scale: tensor<768xbf16>, %bias: tensor<768xbf16>)
    -> (tensor<256x768xbf16>, tensor<256xf32>, tensor<256xf32>) {
  %0:3 = dtc.layer_norm %x scale %scale : tensor<768xbf16> bias %bias : tensor<768xbf16> eps 1.0e-5 : tensor<256x768xbf16> -> tensor<256x768xbf16>, tensor<256xf32>, tensor<256xf32>
  return %0#0, %0#1, %0#2 : tensor<256x768xbf16>, tensor<256xf32>, tensor<256xf32>
}

func.func @norm_grad(%x: tensor<256x768xbf16>, %mean: tensor<256xf32>, %rstd: tensor<256xf32>, %g: tensor<256x768xbf16>, %scale: tensor<768xbf16>)
    -> tensor<256x768xbf16> {
  %0:3 = dtc.layer_norm_grad %x, %mean, %rstd, %g scale %scale : tensor<768xbf16> : tensor<256x768xbf16>, tensor<256xf32>, tensor<256xf32>, tensor<256x768xbf16> -> tensor<256x768xbf16>, tensor<768xf32>, tensor<768xf32>
  return %0#0 : tensor<256x768xbf16>
}
