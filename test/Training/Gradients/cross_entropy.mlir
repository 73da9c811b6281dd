// RUN: dtc-opt --dtc-check-gradients --verify-diagnostics %s

// expected-remark@+1 {{gradient ok: 42 elements}}
func.func @drawn(%x: tensor<2x3x7xf32>, %target: tensor<2x3xi64> {test.bound = 7 : i64}) -> tensor<2x3xf32> attributes {check_gradients} {
  %loss, %lse = dtc.cross_entropy %x, %target ignore -100 : tensor<2x3x7xf32>, tensor<2x3xi64> -> tensor<2x3xf32>, tensor<2x3xf32>
  return %loss : tensor<2x3xf32>
}

// expected-remark@+1 {{gradient ok: 20 elements}}
func.func @ignored(%x: tensor<4x5xf32>) -> tensor<4xf32> attributes {check_gradients} {
  %target = arith.constant dense<[4, -100, 0, -100]> : tensor<4xi64>
  %loss, %lse = dtc.cross_entropy %x, %target ignore -100 : tensor<4x5xf32>, tensor<4xi64> -> tensor<4xf32>, tensor<4xf32>
  return %loss : tensor<4xf32>
}

// The ignored target is a class.
// expected-remark@+1 {{gradient ok: 20 elements}}
func.func @ignored_class(%x: tensor<4x5xf32>) -> tensor<4xf32> attributes {check_gradients} {
  %target = arith.constant dense<[4, 0, 2, 0]> : tensor<4xi32>
  %loss, %lse = dtc.cross_entropy %x, %target ignore 0 : tensor<4x5xf32>, tensor<4xi32> -> tensor<4xf32>, tensor<4xf32>
  return %loss : tensor<4xf32>
}

// Smoothed and weighted as `--label-smoothing` and `--class-weights` build it: 0.8 of the target's, and 0.2 / 5 of all classes'.
// expected-remark@+1 {{gradient ok: 20 elements}}
func.func @smoothed_and_weighted(%x: tensor<4x5xf32>) -> tensor<4xf32> attributes {check_gradients} {
  %target = arith.constant dense<[4, -100, 0, 2]> : tensor<4xi64>
  %table = arith.constant dense<[0.5, 2.0, 0.0, 1.0, 1.5]> : tensor<5xf32>
  %of_target = arith.constant dense<[1.2, 0.0, 0.4, 0.0]> : tensor<4xf32>
  %of_all = arith.constant dense<0.04> : tensor<4xf32>
  %total = arith.constant dense<5.0> : tensor<4xf32>
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %ignore = arith.constant dense<-100> : tensor<4xi64>
  %loss, %lse = dtc.cross_entropy %x, %target ignore -100 : tensor<4x5xf32>, tensor<4xi64> -> tensor<4xf32>, tensor<4xf32>
  %picked = dtc.pick %x, %target : tensor<4x5xf32>, tensor<4xi64> -> tensor<4xf32>
  %log_total = arith.addf %loss, %picked : tensor<4xf32>
  %weights = dtc.broadcast %table [1] : tensor<5xf32> -> tensor<4x5xf32>
  %weighted = arith.mulf %x, %weights : tensor<4x5xf32>
  %logits = dtc.reduce sum %weighted [1] : tensor<4x5xf32> -> tensor<4xf32>
  %scaled = arith.mulf %log_total, %total : tensor<4xf32>
  %uniform = arith.subf %scaled, %logits : tensor<4xf32>
  %ignored = arith.cmpi eq, %target, %ignore : tensor<4xi64>
  %counted = arith.select %ignored, %zero, %uniform : tensor<4xi1>, tensor<4xf32>
  %first = arith.mulf %loss, %of_target : tensor<4xf32>
  %second = arith.mulf %counted, %of_all : tensor<4xf32>
  %result = arith.addf %first, %second : tensor<4xf32>
  return %result : tensor<4xf32>
}
