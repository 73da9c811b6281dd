// RUN: dtc-opt --dtc-pipeline="raise batch=3" %s | FileCheck %s
// RUN: dtc-opt --dtc-pipeline=raise %s | FileCheck --check-prefix=SAME %s

// What an importer runs: the batch changes, merged dimensions come apart, layers are recognized
// and the reshape of a parameter becomes its view.
// CHECK: dtc.parameter trainable @w : tensor<64x4x16xf32> file tensor<64x64xf32>
// CHECK: func.func @forward(%[[X:.*]]: tensor<3x32x64xf32> {{.*}}, %[[W:.*]]: tensor<64x4x16xf32>
// CHECK-NEXT: %[[Y:.*]] = dtc.contract %[[X]] [0, 1, 4], %[[W]] [4, 2, 3] -> [0, 1, 2, 3]
// CHECK-NEXT: %[[Z:.*]] = dtc.activation silu %[[Y]] : tensor<3x32x4x16xf32>
// CHECK-NEXT: return %[[Z]]
// SAME: dtc.activation silu {{.*}} : tensor<8x32x4x16xf32>
dtc.parameter trainable @w : tensor<64x64xf32> file tensor<64x64xf32>
func.func @forward(%x: tensor<8x32x64xf32> {dtc.role = #dtc.role<input, "x">},
                   %w: tensor<64x64xf32> {dtc.role = #dtc.role<parameter, "w">}) -> tensor<8x32x4x16xf32> {
  %0 = dtc.reshape %x : tensor<8x32x64xf32> -> tensor<256x64xf32>
  %1 = dtc.contract %0 [0, 2], %w [2, 1] -> [0, 1] : tensor<256x64xf32>, tensor<64x64xf32> -> tensor<256x64xf32>
  %2 = dtc.reshape %1 : tensor<256x64xf32> -> tensor<8x32x4x16xf32>
  %3 = dtc.activation sigmoid %2 : tensor<8x32x4x16xf32>
  %4 = arith.mulf %2, %3 : tensor<8x32x4x16xf32>
  return %4 : tensor<8x32x4x16xf32>
}
