// RUN: dtc-opt --split-input-file --dtc-rebatch=batch=4 --verify-diagnostics %s

func.func @forward(%x: tensor<2x3xf32> {dtc.role = #dtc.role<input, "x">}) -> tensor<2x3xf32> {
  // expected-error @+1 {{cannot change the batch: this constant varies along it}}
  %c = arith.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %0 = arith.addf %x, %c : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// The windows of the second sample are in another order.
func.func @forward(%x: tensor<2x2xi32> {dtc.role = #dtc.role<input, "x">}) -> tensor<4xi32> {
  // expected-error @+1 {{cannot change the batch: this constant varies along it}}
  %c = arith.constant dense<[1, 2, 2, 1]> : tensor<4xi32>
  %0 = dtc.reshape %x : tensor<2x2xi32> -> tensor<4xi32>
  %1 = arith.addi %0, %c : tensor<4xi32>
  return %1 : tensor<4xi32>
}

// -----

// expected-error @+1 {{cannot change the batch: it is a dimension of w}}
func.func @forward(%x: tensor<2x3xf32> {dtc.role = #dtc.role<input, "x">},
                   %w: tensor<2x3xf32> {dtc.role = #dtc.role<parameter, "w">}) -> tensor<2x3xf32> {
  %0 = arith.addf %x, %w : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// The divisor of a mean over the batch would stay the old one.
func.func @forward(%x: tensor<2x3xf32> {dtc.role = #dtc.role<input, "x">}) -> tensor<3xf32> {
  // expected-error @+1 {{cannot change the batch: the operation mixes samples}}
  %0 = dtc.reduce sum %x [0] : tensor<2x3xf32> -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// expected-error @+1 {{inputs have different batch sizes: 4 and 2}}
func.func @forward(%x: tensor<4x3xf32> {dtc.role = #dtc.role<input, "x">},
                   %y: tensor<2x3xf32> {dtc.role = #dtc.role<input, "y">}) -> tensor<4x3xf32> {
  return %x : tensor<4x3xf32>
}

// -----

func.func @forward(%x: tensor<8x3xf32> {dtc.role = #dtc.role<input, "x">}) -> tensor<2x4x3xf32> {
  // expected-error @+1 {{cannot change the batch: the reshape takes it apart}}
  %0 = dtc.reshape %x : tensor<8x3xf32> -> tensor<2x4x3xf32>
  return %0 : tensor<2x4x3xf32>
}
