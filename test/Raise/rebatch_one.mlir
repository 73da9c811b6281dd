// RUN: dtc-opt --dtc-rebatch=batch=3 %s | FileCheck %s

// A batch of one is a dimension of size 1 that no sharding rule of its own would name: the op's
// rule with units carries it through every kind of op.
// CHECK-LABEL: func @forward(
// CHECK: dtc.gather {{.*}} -> tensor<3x4x6xf32>
// CHECK: dtc.layer_norm {{.*}} -> tensor<3x4x6xf32>, tensor<3x4xf32>, tensor<3x4xf32>
// CHECK: dtc.rms_norm {{.*}} -> tensor<3x4x6xf32>, tensor<3x4xf32>
// CHECK: dtc.contract {{.*}} -> tensor<3x4x5xf32>
// CHECK: dtc.softmax {{.*}} : tensor<3x4x5xf32>
// CHECK: dtc.cumsum {{.*}} -> tensor<3x4x5xf32>
// CHECK: dtc.top_k {{.*}} -> tensor<3x4x1xi64>
// CHECK: dtc.reshape {{.*}} -> tensor<3x4xi64>
// CHECK: dtc.pick {{.*}} -> tensor<3x4xf32>
// CHECK: dtc.transpose {{.*}} -> tensor<4x3x5xf32>
// CHECK: dtc.slice {{.*}} -> tensor<2x3x5xf32>
// CHECK: dtc.pad {{.*}} -> tensor<4x3x5xf32>
// CHECK: dtc.concat {{.*}} -> tensor<4x3x10xf32>
// CHECK: dtc.reduce sum {{.*}} -> tensor<3x10xf32>
// CHECK: dtc.broadcast {{.*}} -> tensor<2x3x10xf32>
// CHECK: dtc.activation gelu {{.*}} : tensor<2x3x10xf32>
// CHECK: dtc.cross_entropy {{.*}} -> tensor<3x4xf32>, tensor<3x4xf32>
func.func @forward(%i: tensor<1x4xi64> {dtc.role = #dtc.role<input, "i">},
                   %e: tensor<9x6xf32> {dtc.role = #dtc.role<parameter, "e">},
                   %s: tensor<6xf32> {dtc.role = #dtc.role<parameter, "s">},
                   %w: tensor<6x5xf32> {dtc.role = #dtc.role<parameter, "w">})
    -> (tensor<2x1x10xf32>, tensor<1x4xf32>, tensor<1x4xf32>) {
  %0 = dtc.gather %e, %i axis 0 : tensor<9x6xf32>, tensor<1x4xi64> -> tensor<1x4x6xf32>
  %1, %m, %r = dtc.layer_norm %0 scale %s : tensor<6xf32> eps 1.0E-5 : tensor<1x4x6xf32> -> tensor<1x4x6xf32>, tensor<1x4xf32>, tensor<1x4xf32>
  %2, %q = dtc.rms_norm %1 scale %s : tensor<6xf32> eps 1.0E-5 : tensor<1x4x6xf32> -> tensor<1x4x6xf32>, tensor<1x4xf32>
  %3 = dtc.contract %2 [0, 1, 3], %w [3, 2] -> [0, 1, 2] : tensor<1x4x6xf32>, tensor<6x5xf32> -> tensor<1x4x5xf32>
  %4 = dtc.softmax %3 2 : tensor<1x4x5xf32>
  %5 = dtc.cumsum %4 1 : tensor<1x4x5xf32> -> tensor<1x4x5xf32>
  %6 = dtc.top_k %5 : tensor<1x4x5xf32> -> tensor<1x4x1xi64>
  %7 = dtc.reshape %6 : tensor<1x4x1xi64> -> tensor<1x4xi64>
  %8 = dtc.pick %5, %7 : tensor<1x4x5xf32>, tensor<1x4xi64> -> tensor<1x4xf32>
  %9 = dtc.transpose %5 [1, 0, 2] : tensor<1x4x5xf32> -> tensor<4x1x5xf32>
  %10 = dtc.slice %9 offsets [1, 0, 0] strides [1, 1, 1] : tensor<4x1x5xf32> -> tensor<2x1x5xf32>
  %11 = dtc.pad %10 low [1, 0, 0] interior [0, 0, 0] value 0.0 : tensor<2x1x5xf32> -> tensor<4x1x5xf32>
  %12 = dtc.concat 2(%9, %11) : tensor<4x1x5xf32>, tensor<4x1x5xf32> -> tensor<4x1x10xf32>
  %13 = dtc.reduce sum %12 [0] : tensor<4x1x10xf32> -> tensor<1x10xf32>
  %14 = dtc.broadcast %13 [1, 2] : tensor<1x10xf32> -> tensor<2x1x10xf32>
  %15 = dtc.activation gelu %14 : tensor<2x1x10xf32>
  %16, %17 = dtc.cross_entropy %3, %7 ignore -100 : tensor<1x4x5xf32>, tensor<1x4xi64> -> tensor<1x4xf32>, tensor<1x4xf32>
  return %15, %8, %16 : tensor<2x1x10xf32>, tensor<1x4xf32>, tensor<1x4xf32>
}
