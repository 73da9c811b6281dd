// Cross entropy has its classes last. Images of classes have them second in PyTorch, of which the pass warns.
//
// RUN: dtc-opt --dtc-train="loss=cross_entropy" -split-input-file %s 2>&1 | FileCheck %s

// CHECK: warning: cross_entropy takes the last dimension of the output for the classes, 6 of them; PyTorch's takes the second one, 3: export output.movedim(1, -1) where that is meant
// CHECK: tensor<2x3x5xi64> {dtc.role = #dtc.role<target, "target">}
module {
  dtc.parameter trainable @w : tensor<6xf32> file tensor<6xf32>

  func.func @forward(%w: tensor<6xf32> {dtc.role = #dtc.role<parameter, "w">},
                     %x: tensor<2x3x5x6xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<2x3x5x6xf32> {dtc.role = #dtc.role<output, "y">})
      attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    %0 = dtc.broadcast %w [3] : tensor<6xf32> -> tensor<2x3x5x6xf32>
    %1 = arith.mulf %x, %0 : tensor<2x3x5x6xf32>
    return %1 : tensor<2x3x5x6xf32>
  }
}

// -----

// CHECK-NOT: warning
// CHECK: tensor<2x3xi64> {dtc.role = #dtc.role<target, "target">}
module {
  dtc.parameter trainable @w : tensor<6xf32> file tensor<6xf32>

  func.func @forward(%w: tensor<6xf32> {dtc.role = #dtc.role<parameter, "w">},
                     %x: tensor<2x3x6xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<2x3x6xf32> {dtc.role = #dtc.role<output, "y">})
      attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    %0 = dtc.broadcast %w [2] : tensor<6xf32> -> tensor<2x3x6xf32>
    %1 = arith.mulf %x, %0 : tensor<2x3x6xf32>
    return %1 : tensor<2x3x6xf32>
  }
}
