// A looked-up padding row gets no gradient: scatter_add drops its index.
// RUN: dtc-opt --dtc-train="optimizer=sgd loss=mse" %s | FileCheck %s

// CHECK-LABEL: func.func @loss_and_grads
// CHECK: dtc.gather {{.*}} {{.*}}paddingRow = 2 : i64
// CHECK: %[[PAD:.*]] = arith.cmpi eq, %[[IDS:[a-z0-9]+]], %{{.*}} : tensor<4xi64>
// CHECK: %[[KEPT:.*]] = arith.select %[[PAD]], %{{.*}}, %[[IDS]] {{.*}} : tensor<4xi1>, tensor<4xi64>
// CHECK: dtc.scatter_add %[[KEPT]]
dtc.parameter trainable @table : tensor<5x3xf32> file tensor<5x3xf32>
func.func @forward(%table: tensor<5x3xf32> {dtc.role = #dtc.role<parameter, "table">},
                   %ids: tensor<4xi64> {dtc.role = #dtc.role<input, "ids">})
    -> (tensor<4x3xf32> {dtc.role = #dtc.role<output, "y">}) {
  %0 = dtc.gather %table, %ids axis 0 {paddingRow = 2 : i64} : tensor<5x3xf32>, tensor<4xi64> -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
