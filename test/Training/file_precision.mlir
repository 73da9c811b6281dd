// RUN: dtc-opt -split-input-file --dtc-train="loss=none" %s | FileCheck %s
// RUN: dtc-opt -split-input-file --dtc-train="loss=none precision=bf16" %s | FileCheck --check-prefix=BF16 %s

// A file of halves is trained in f32: its parameters keep their type in the file alone, casts
// between halves and f32 vanish, and inputs and what depends on no parameter are widened where
// they meet what does.
// CHECK: dtc.parameter trainable @w : tensor<4x8xf32> file tensor<4x8xf16>
// CHECK-LABEL: func.func @forward(
// CHECK-SAME:  %[[W:.*]]: tensor<4x8xf32> {dtc.role = #dtc.role<parameter, "w">}, %[[X:.*]]: tensor<2x4xf16>
// CHECK:       %[[WIDE:.*]] = arith.extf %[[X]] {{.*}}: tensor<2x4xf16> to tensor<2x4xf32>
// CHECK-NEXT:  %[[Y:.*]] = dtc.contract %[[WIDE]] {{.*}}, %[[W]] {{.*}} -> tensor<2x8xf32>
// CHECK-NEXT:  %[[T:.*]] = math.tanh %[[Y]] {{.*}}: tensor<2x8xf32>
// CHECK:       %[[C:.*]] = arith.constant {{.*}}dense<-6.550400e+04> : tensor<2x8xf32>
// CHECK-NEXT:  %[[M:.*]] = arith.maximumf %[[T]], %[[C]] {{.*}}: tensor<2x8xf32>
// CHECK-NEXT:  return %[[M]] : tensor<2x8xf32>
// BF16: dtc.parameter trainable @w : tensor<4x8xbf16> file tensor<4x8xf16>
// BF16: dtc.contract {{.*}} : tensor<2x4xbf16>, tensor<4x8xbf16> -> tensor<2x8xbf16>
// BF16-NEXT: math.tanh {{.*}} : tensor<2x8xbf16>
module {
  dtc.parameter trainable @w : tensor<4x8xf16> file tensor<4x8xf16>
  func.func @forward(%w: tensor<4x8xf16> {dtc.role = #dtc.role<parameter, "w">},
                     %x: tensor<2x4xf16> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<2x8xf16> {dtc.role = #dtc.role<output, "y">}) {
    %0 = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] : tensor<2x4xf16>, tensor<4x8xf16> -> tensor<2x8xf16>
    %1 = arith.extf %0 : tensor<2x8xf16> to tensor<2x8xf32>
    %2 = math.tanh %1 : tensor<2x8xf32>
    %3 = arith.truncf %2 : tensor<2x8xf32> to tensor<2x8xf16>
    %c = arith.constant dense<-6.550400e+04> : tensor<2x8xf16>
    %4 = arith.maximumf %3, %c : tensor<2x8xf16>
    return %4 : tensor<2x8xf16>
  }
}

// -----

// So is one of f64, finite constants beyond f32 staying finite; statistics are f32.
// CHECK: dtc.parameter trainable @g : tensor<8xf32> file tensor<8xf64>
// CHECK: %{{.*}}, %{{.*}}, %{{.*}} = dtc.layer_norm {{.*}} -> tensor<2x8xf32>, tensor<2xf32>, tensor<2xf32>
// CHECK: arith.constant {{.*}}dense<-3.40282347E+38> : tensor<2x8xf32>
// BF16: dtc.parameter trainable @g : tensor<8xbf16> file tensor<8xf64>
// BF16: dtc.layer_norm {{.*}} -> tensor<2x8xbf16>, tensor<2xf32>, tensor<2xf32>
module {
  dtc.parameter trainable @g : tensor<8xf64> file tensor<8xf64>
  func.func @forward(%g: tensor<8xf64> {dtc.role = #dtc.role<parameter, "g">},
                     %x: tensor<2x8xf64> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<2x8xf64> {dtc.role = #dtc.role<output, "y">}) {
    %0, %1, %2 = dtc.layer_norm %x scale %g : tensor<8xf64> eps 1.0e-5 : tensor<2x8xf64> -> tensor<2x8xf64>, tensor<2xf64>, tensor<2xf64>
    %c = arith.constant dense<-1.7976931348623157e+308> : tensor<2x8xf64>
    %3 = arith.maximumf %0, %c : tensor<2x8xf64>
    return %3 : tensor<2x8xf64>
  }
}
