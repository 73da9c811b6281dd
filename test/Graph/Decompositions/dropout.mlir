// RUN: dtc-opt --dtc-interpret %s | FileCheck %s
// What is kept, by an independent Philox 4x32-10: its key is the sample's, its counter the element's
// index in the sample, the op's number 2 and the stream 3.

// CHECK: result 0: tensor<3x12xf32> {{\[}}[5, 5, 5, 5, 5, 5, 0, 5, 5, 5, 5, 5], [0, 0, 5, 5, 0, 0, 0, 5, 0, 5, 0, 0], [5, 5, 0, 5, 5, 5, 5, 0, 5, 0, 0, 0]]{{$}}
// CHECK: result 1: tensor<12x3xf32> {{\[}}[5, 0, 5], [5, 0, 5], [5, 5, 0], [5, 5, 5], [5, 0, 5], [5, 0, 5], [0, 0, 5], [5, 5, 0], [5, 0, 5], [5, 5, 0], [5, 0, 0], [5, 0, 0]]{{$}}
// CHECK: result 2: tensor<2xf32> [0, 0]{{$}}
// CHECK: result 3: tensor<2x6xf32> {{\[}}[3, 3, 3, 3, 3, 3], [{{[05, ]*}}0{{[05, ]*}}]]
// CHECK: result 4: tensor<2xf32> [3, 0]{{$}}
func.func @main() -> (tensor<3x12xf32>, tensor<12x3xf32>, tensor<2xf32>, tensor<2x6xf32>, tensor<2xf32>) {
  %keys = arith.constant dense<[5, -7, 123456789012345]> : tensor<3xi64>
  %x = arith.constant dense<3.0> : tensor<3x4x3x1xf32>
  %y = dtc.dropout %x keys %keys : tensor<3xi64> ratio 4.0e-1 {number = 2 : i64} : tensor<3x4x3x1xf32>
  %rows = dtc.reshape %y : tensor<3x4x3x1xf32> -> tensor<3x12xf32>
  // The samples needn't come first, nor does their place count.
  %z = arith.constant dense<3.0> : tensor<12x3xf32>
  %columns = dtc.dropout %z keys %keys : tensor<3xi64> ratio 4.0e-1 {number = 2 : i64, batch = 1 : i64} : tensor<12x3xf32>
  %two = arith.constant dense<1> : tensor<2xi64>
  %nan = arith.constant dense<0x7FC00000> : tensor<2xf32>
  %none = dtc.dropout %nan keys %two : tensor<2xi64> ratio 1.0 : tensor<2xf32>
  // Of a sample with the key -1 nothing is dropped, nor scaled, whatever the ratio is.
  %some = arith.constant dense<[-1, 1]> : tensor<2xi64>
  %w = arith.constant dense<3.0> : tensor<2x6xf32>
  %kept = dtc.dropout %w keys %some : tensor<2xi64> ratio 4.0e-1 : tensor<2x6xf32>
  %ones = arith.constant dense<3.0> : tensor<2xf32>
  %first = dtc.dropout %ones keys %some : tensor<2xi64> ratio 1.0 : tensor<2xf32>
  return %rows, %columns, %none, %kept, %first : tensor<3x12xf32>, tensor<12x3xf32>, tensor<2xf32>, tensor<2x6xf32>, tensor<2xf32>
}
