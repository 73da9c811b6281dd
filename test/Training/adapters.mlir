// LoRA: adapters beside every product with a weight, of a view of heads and of
// experts; they alone are trained, and the gradient flows on through the weights.
// RUN: dtc-opt --dtc-train="optimizer=sgd loss=mse adapter-rank=2 adapter-alpha=6" %s | FileCheck %s

// CHECK-DAG: dtc.parameter trainable @w.lora_A.weight : tensor<2x3x4xf32> file tensor<2x12xf32> {dtc.adapter = #dtc.adapter<base = @w.weight, part = down, scale = 3.000000e+00 : f64, deviation = 0.16666666666666666 : f64, layout = out_in>}
// CHECK-DAG: dtc.parameter trainable @w.lora_B.weight : tensor<6x2xf32> file tensor<6x2xf32> {dtc.adapter = #dtc.adapter<base = @w.weight, part = up, scale = 3.000000e+00 : f64, deviation = 0.000000e+00 : f64, layout = out_in>}
// CHECK-DAG: dtc.parameter trainable @e.lora_A.weight : tensor<5x2x6xf32> file tensor<5x2x6xf32>
// CHECK-DAG: dtc.parameter trainable @e.lora_B.weight : tensor<5x7x2xf32> file tensor<5x7x2xf32> {dtc.adapter = #dtc.adapter<base = @e, part = up, scale = 3.000000e+00 : f64, deviation = 0.000000e+00 : f64, layout = in_out>}
// CHECK-DAG: dtc.parameter @w.weight : tensor<6x3x4xf32>
// CHECK-DAG: dtc.parameter @e : tensor<5x6x7xf32>
// CHECK-DAG: dtc.parameter @b : tensor<6xf32>
dtc.parameter trainable @w.weight : tensor<6x3x4xf32> file tensor<6x12xf32>
dtc.parameter trainable @b : tensor<6xf32> file tensor<6xf32>
dtc.parameter trainable @e : tensor<5x6x7xf32> file tensor<5x6x7xf32>

// CHECK-LABEL: func.func @loss_and_grads(
// CHECK: %[[Y:.*]] = dtc.contract %[[X:.*]] [0, 1, 3, 4], %[[W:.*]] [2, 3, 4] -> [0, 1, 2]
// CHECK: %[[T:.*]] = dtc.contract %[[X]] [0, 1, 3, 4], %[[A:.*]] [2, 3, 4] -> [0, 1, 2] {{.*}} -> tensor<5x8x2xf32>
// CHECK: %[[F:.*]] = arith.constant {{.*}}dense<3.000000e+00> : tensor<5x8x2xf32>
// CHECK: %[[L:.*]] = arith.mulf %[[T]], %[[F]]
// CHECK: %[[D:.*]] = dtc.contract %[[L]] [0, 1, 3], %[[B:.*]] [2, 3] -> [0, 1, 2] {{.*}} -> tensor<5x8x6xf32>
// CHECK: arith.addf %[[Y]], %[[D]]
// CHECK: dtc.contract %{{.*}} [0, 1, 3], %[[E:.*]] [0, 3, 2] -> [0, 1, 2]
// CHECK: dtc.contract %{{.*}} [0, 1, 3], %{{.*}} [0, 2, 3] -> [0, 1, 2] {{.*}} -> tensor<5x8x2xf32>
// CHECK: dtc.contract %{{.*}} [0, 1, 3], %{{.*}} [0, 2, 3] -> [0, 1, 2] {{.*}} -> tensor<5x8x7xf32>
// The product's input needs its gradient for the adapter below, weights have none.
// CHECK: dtc.contract %{{.*}}, %[[E]] [0, 3, 2] {{.*}}input_grad
// CHECK-NOT: weight_grad>{{.*}} -> tensor<5x6x7xf32>
// CHECK: return
func.func @forward(
    %x: tensor<5x8x3x4xf32> {dtc.role = #dtc.role<input, "x">},
    %w: tensor<6x3x4xf32> {dtc.role = #dtc.role<parameter, "w.weight">},
    %b: tensor<6xf32> {dtc.role = #dtc.role<parameter, "b">},
    %e: tensor<5x6x7xf32> {dtc.role = #dtc.role<parameter, "e">})
    -> (tensor<5x8x7xf32> {dtc.role = #dtc.role<output, "y">}) {
  %0 = dtc.contract %x [0, 1, 3, 4], %w [2, 3, 4] -> [0, 1, 2] : tensor<5x8x3x4xf32>, tensor<6x3x4xf32> -> tensor<5x8x6xf32>
  %1 = dtc.broadcast %b [2] : tensor<6xf32> -> tensor<5x8x6xf32>
  %2 = arith.addf %0, %1 : tensor<5x8x6xf32>
  %3 = dtc.contract %2 [0, 1, 3], %e [0, 3, 2] -> [0, 1, 2] : tensor<5x8x6xf32>, tensor<5x6x7xf32> -> tensor<5x8x7xf32>
  return %3 : tensor<5x8x7xf32>
}
