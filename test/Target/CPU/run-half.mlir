// Half precision: memory holds it, kernels compute in f32.
// RUN: dtc-opt %s --dtc-decompose-layers --dtc-form-kernels --test-run-kernels -o /dev/null

func.func @bf16_softmax(%x: tensor<5x33xbf16>) -> tensor<5x33xbf16> {
  %0 = dtc.softmax %x 1 : tensor<5x33xbf16>
  return %0 : tensor<5x33xbf16>
}

func.func @bf16_layer_norm(%x: tensor<6x17xbf16>, %g: tensor<17xbf16>, %b: tensor<17xbf16>)
    -> (tensor<6x17xbf16>, tensor<6xf32>, tensor<6xf32>) {
  %0, %1, %2 = dtc.layer_norm %x scale %g : tensor<17xbf16> bias %b : tensor<17xbf16> eps 1.0e-5 : tensor<6x17xbf16> -> tensor<6x17xbf16>, tensor<6xf32>, tensor<6xf32>
  return %0, %1, %2 : tensor<6x17xbf16>, tensor<6xf32>, tensor<6xf32>
}

func.func @bf16_sums(%x: tensor<40x17xbf16>, %i: tensor<9xi64>, %u: tensor<9x17xbf16>)
    -> (tensor<17xbf16>, tensor<40xbf16>, tensor<5x17xbf16>) {
  %0 = dtc.reduce sum %x [0] : tensor<40x17xbf16> -> tensor<17xbf16>
  %1 = dtc.reduce sum %x [1] : tensor<40x17xbf16> -> tensor<40xbf16>
  %2 = dtc.scatter_add %i, %u axis 0 : tensor<9xi64>, tensor<9x17xbf16> -> tensor<5x17xbf16>
  return %0, %1, %2 : tensor<17xbf16>, tensor<40xbf16>, tensor<5x17xbf16>
}

func.func @bf16_pool(%x: tensor<2x3x9x7xbf16>, %g: tensor<2x3x5x4xbf16>) -> tensor<2x3x9x7xbf16> {
  %0 = dtc.max_pool_grad %x, %g kernel [3, 3] strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] : tensor<2x3x9x7xbf16>, tensor<2x3x5x4xbf16> -> tensor<2x3x9x7xbf16>
  return %0 : tensor<2x3x9x7xbf16>
}

func.func @bf16_top_k(%x: tensor<3x17xbf16>) -> tensor<3x4xi64> {
  %y = arith.mulf %x, %x : tensor<3x17xbf16>
  %0 = dtc.top_k %y : tensor<3x17xbf16> -> tensor<3x4xi64>
  return %0 : tensor<3x4xi64>
}

func.func @f16_gelu(%x: tensor<3x17xf16>) -> tensor<3x17xf16> {
  %0 = dtc.activation gelu %x : tensor<3x17xf16>
  return %0 : tensor<3x17xf16>
}

func.func @master_weights(%p: tensor<3x17xf32>, %g: tensor<3x17xbf16>) -> (tensor<3x17xf32>, tensor<3x17xbf16>) {
  %0 = arith.extf %g : tensor<3x17xbf16> to tensor<3x17xf32>
  %1 = arith.subf %p, %0 : tensor<3x17xf32>
  %2 = arith.truncf %1 : tensor<3x17xf32> to tensor<3x17xbf16>
  return %1, %2 : tensor<3x17xf32>, tensor<3x17xbf16>
}

func.func @to_integers(%x: tensor<3x17xf16>, %y: tensor<3x17xbf16>)
    -> (tensor<3x17xf16>, tensor<3x17xf16>, tensor<3x17xf16>, tensor<3x17xf16>, tensor<3x17xbf16>) {
  %0 = math.ceil %x : tensor<3x17xf16>
  %1 = math.floor %x : tensor<3x17xf16>
  %2 = math.roundeven %x : tensor<3x17xf16>
  %3 = math.trunc %x : tensor<3x17xf16>
  %4 = math.floor %y : tensor<3x17xbf16>
  return %0, %1, %2, %3, %4 : tensor<3x17xf16>, tensor<3x17xf16>, tensor<3x17xf16>, tensor<3x17xf16>, tensor<3x17xbf16>
}

func.func @f16_remainder(%x: tensor<3x17xf16>, %y: tensor<3x17xf16>) -> tensor<3x17xf16> {
  %0 = arith.remf %x, %y : tensor<3x17xf16>
  return %0 : tensor<3x17xf16>
}
