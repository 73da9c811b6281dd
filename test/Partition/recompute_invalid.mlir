// RUN: dtc-opt %s -split-input-file -verify-diagnostics --dtc-recompute

func.func @no_forward_op(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{is no forward op, but shall be computed again}}
  %0 = math.exp %x {dist.recompute = #dist.recompute<full, 0>} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @two_kinds(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = math.exp %x {dist.recompute = #dist.recompute<full, 0>, dtc.id = 0 : i64} : tensor<4xf32>
  // expected-error @+1 {{belongs to a block of another kind of recomputation: #dist.recompute<selective, 0>}}
  %1 = math.exp %0 {dist.recompute = #dist.recompute<selective, 0>, dtc.id = 1 : i64} : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// expected-error @+2 {{dist.recompute must be a #dist.recompute, got: 1}}
func.func @no_kind(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = math.exp %x {dist.recompute = 1 : i64, dtc.id = 0 : i64} : tensor<4xf32>
  return %0 : tensor<4xf32>
}
