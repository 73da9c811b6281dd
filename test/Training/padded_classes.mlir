// RUN: dtc-opt --dtc-train="class-multiple=8" %s | FileCheck %s
// RUN: dtc-opt --dtc-train="class-multiple=100" %s | FileCheck --check-prefix=TOO-MANY %s
// RUN: dtc-opt --dtc-train="class-multiple=8 eps=1e-50" %s | FileCheck --check-prefix=ASIS %s
// RUN: dtc-opt --dtc-train="class-multiple=8 label-smoothing=0.1" %s | FileCheck --check-prefixes=CHECK,SMOOTHED %s

// The tied table and the bias get rows that no file has. Tokens and targets stay below the number of
// classes, and what is beyond has no share in the softmax.
// CHECK:       dtc.parameter trainable @table : tensor<512x8xf32> file tensor<509x8xf32>
// CHECK:       dtc.parameter trainable @bias : tensor<512xf32> file tensor<509xf32>
// CHECK-LABEL: func.func @loss_and_grads(
// CHECK-SAME:    tensor<4xi64> {dtc.limit = 509 : i64, dtc.role = #dtc.role<input, "ids">}
// CHECK-SAME:    %[[TARGET:[^:]*]]: tensor<4xi64> {dtc.limit = 509 : i64, dtc.role = #dtc.role<target, "target">}
// CHECK:         %[[ALL:.*]] = arith.addf {{.*}} : tensor<4x512xf32>
// CHECK:         %[[PLACE:.*]] = dtc.iota 1 {{.*}} : tensor<4x512xi64>
// CHECK:         %[[END:.*]] = arith.constant {{.*}}dense<509> : tensor<4x512xi64>
// CHECK:         %[[IS:.*]] = arith.cmpi slt, %[[PLACE]], %[[END]]
// CHECK:         %[[LEAST:.*]] = arith.constant {{.*}}dense<-3.40282347E+38> : tensor<4x512xf32>
// CHECK:         %[[LOGITS:.*]] = arith.select %[[IS]], %[[ALL]], %[[LEAST]]
// CHECK:         dtc.cross_entropy %[[LOGITS]], %[[TARGET]]
// A smoothed target is that of all classes, and of nothing else.
// SMOOTHED:      %[[COUNTED:.*]] = arith.select {{.*}}, %[[LOGITS]], %{{.*}} : tensor<4x512xi1>, tensor<4x512xf32>
// SMOOTHED:      arith.constant {{.*}}dense<5.090000e+02>
// SMOOTHED:      dtc.reduce sum %[[COUNTED]] [1] {{.*}} : tensor<4x512xf32> -> tensor<4xf32>
// CHECK:         dtc.scatter_add {{.*}} -> tensor<512x8xf32>

// 600 classes would be a sixth more.
// TOO-MANY: dtc.parameter trainable @table : tensor<509x8xf32> file tensor<509x8xf32>

// Without an epsilon, here in fp32, Adam divides 0 by 0.
// ASIS: dtc.parameter trainable @table : tensor<509x8xf32> file tensor<509x8xf32>
module {
  dtc.parameter trainable @table : tensor<509x8xf32> file tensor<509x8xf32>
  dtc.parameter trainable @bias : tensor<509xf32> file tensor<509xf32>

  func.func @forward(
      %table: tensor<509x8xf32> {dtc.role = #dtc.role<parameter, "table">},
      %bias: tensor<509xf32> {dtc.role = #dtc.role<parameter, "bias">},
      %ids: tensor<4xi64> {dtc.role = #dtc.role<input, "ids">})
      -> (tensor<4x509xf32> {dtc.role = #dtc.role<output, "logits">}) {
    %0 = dtc.gather %table, %ids axis 0 : tensor<509x8xf32>, tensor<4xi64> -> tensor<4x8xf32>
    %1 = dtc.contract %0 [0, 2], %table [1, 2] -> [0, 1] : tensor<4x8xf32>, tensor<509x8xf32> -> tensor<4x509xf32>
    %2 = dtc.broadcast %bias [1] : tensor<509xf32> -> tensor<4x509xf32>
    %3 = arith.addf %1, %2 : tensor<4x509xf32>
    return %3 : tensor<4x509xf32>
  }
}
