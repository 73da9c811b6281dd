// RUN: dtc-opt --dtc-train="optimizer=adamw" %s 2>%t.err | FileCheck %s
// RUN: FileCheck --check-prefix=WARN %s <%t.err

// A weight without gradient is left alone, as PyTorch's optimizers leave it.
// WARN: warning: is left untrained, the loss does not depend on it: unused.weight

// CHECK-LABEL: func.func @loss_and_grads(
// CHECK-SAME:    %[[W:.*]]: tensor<10x32xf32> {dtc.role = #dtc.role<parameter, "head.weight">}
// CHECK-SAME:    %[[B:[^:]*]]: tensor<10xf32> {dtc.role = #dtc.role<parameter, "head.bias">}
// CHECK-SAME:    %[[X:[^:]*]]: tensor<4x32xf32> {dtc.role = #dtc.role<input, "x">}
// CHECK-SAME:    %[[TARGET:[^:]*]]: tensor<4xi64> {dtc.limit = 10 : i64, dtc.role = #dtc.role<target, "target">}
// CHECK-SAME:    %[[COUNT:[^:]*]]: tensor<f32> {dtc.role = #dtc.role<scalar, "", count>})
// CHECK-SAME:    -> (tensor<f32> {dtc.role = #dtc.role<loss, "">},
// CHECK-SAME:        tensor<10x32xf32> {dtc.role = #dtc.role<gradient, "head.weight">},
// CHECK-SAME:        tensor<10xf32> {dtc.role = #dtc.role<gradient, "head.bias">})
// CHECK-NOT:     math.exp
// CHECK:         dtc.contract %[[X]] [0, 2], %[[W]] [1, 2] -> [0, 1] {dtc.id = 0 : i64}
// CHECK:         dtc.broadcast %[[B]] [1] {dtc.id = 1 : i64}
// CHECK:         %[[LOGITS:.*]] = arith.addf {{.*}} {dtc.id = 2 : i64}
// CHECK:         %[[LOSS:.*]], %[[LSE:.*]] = dtc.cross_entropy %[[LOGITS]], %[[TARGET]] ignore -100 {dtc.id = 3 : i64}
// CHECK:         %[[SUM:.*]] = dtc.reduce sum %[[LOSS]] [0] {dtc.id = 4 : i64}
// The gradient of the mean: one over the count of the whole global batch.
// CHECK:         %[[INVERSE:.*]] = arith.divf %{{.*}}, %[[COUNT]] {dtc.backward = #dtc.backward<3, input_grad>}
// CHECK:         %[[SEED:.*]] = dtc.broadcast %[[INVERSE]] []
// CHECK:         %[[DLOGITS:.*]] = dtc.cross_entropy_grad %[[LOGITS]], %[[TARGET]], %[[LSE]], %[[SEED]] ignore -100 {dtc.backward = #dtc.backward<3, input_grad>}
// CHECK:         %[[DB:.*]] = dtc.reduce sum %[[DLOGITS]] [0] {dtc.backward = #dtc.backward<1, weight_grad>}
// CHECK:         %[[DW:.*]] = dtc.contract %[[DLOGITS]] [0, 1], %[[X]] [0, 2] -> [1, 2] {dtc.backward = #dtc.backward<0, weight_grad>}
// CHECK:         return %[[SUM]], %[[DW]], %[[DB]]

// CHECK-LABEL: func.func @prologue(
// CHECK-SAME:    %[[ALL:.*]]: tensor<4xi64> {dtc.role = #dtc.role<target, "target">})
// CHECK-SAME:    -> (tensor<f32> {dtc.role = #dtc.role<count, "">})
// CHECK:         %[[IGNORE:.*]] = arith.constant dense<-100>
// CHECK:         arith.cmpi ne, %[[ALL]], %[[IGNORE]]
// CHECK:         dtc.reduce sum %{{.*}} [0] : tensor<4xi64> -> tensor<i64>

// CHECK-LABEL: func.func @update(
// CHECK-SAME:    %[[P0:.*]]: tensor<10x32xf32> {dtc.role = #dtc.role<parameter, "head.weight">}
// CHECK-SAME:    #dtc.role<state, "head.weight", exp_avg>
// CHECK-SAME:    #dtc.role<state, "head.weight", exp_avg_sq>
// CHECK-SAME:    #dtc.role<state, "head.bias", exp_avg>
// CHECK-SAME:    %[[G0:[^:]*]]: tensor<10x32xf32> {dtc.role = #dtc.role<gradient, "head.weight">}
// CHECK-SAME:    %[[L:[^:]*]]: tensor<f32> {dtc.role = #dtc.role<loss, "">}
// CHECK-SAME:    %[[RATE:[^:]*]]: tensor<f64> {dtc.role = #dtc.role<scalar, "", lr>}
// CHECK-SAME:    %[[STEP:[^:]*]]: tensor<f64> {dtc.role = #dtc.role<scalar, "", step>}
// CHECK-SAME:    %[[N:[^:]*]]: tensor<f32> {dtc.role = #dtc.role<scalar, "", count>})
// CHECK-SAME:    #dtc.role<grad_norm, "">
// CHECK:         %[[SQUARE:.*]] = arith.mulf %[[G0]], %[[G0]]
// CHECK:         %[[ROWS:.*]] = dtc.reduce sum %[[SQUARE]] [1]
// CHECK:         %[[PART:.*]] = dtc.reduce sum %[[ROWS]] [0]
// Elements that are infinite or no numbers are counted.
// CHECK:         %[[SIZE:.*]] = math.absf %[[G0]]
// CHECK:         %[[FAULT:.*]] = arith.cmpf uge, %[[SIZE]], %{{.*}} : tensor<10x32xf32>
// CHECK:         arith.uitofp %[[FAULT]]
// CHECK:         %[[FAULTS:.*]] = dtc.sum %{{.*}}, %{{.*}} : tensor<f32>
// CHECK:         %[[TOTAL:.*]] = dtc.sum %[[PART]], %{{.*}} : tensor<f32>
// CHECK:         %[[VECTOR:.*]]:4 = dtc.step_vector %[[L]], %[[N]], %[[FAULTS]], %[[TOTAL]]
// CHECK:         %[[NORM:.*]] = math.sqrt %[[VECTOR]]#3
// CHECK:         %[[ONE:.*]] = arith.constant dense<1.000000e+00> : tensor<f32>
// CHECK:         %[[POWER1:.*]] = math.powf %{{.*}}, %[[STEP]] : tensor<f64>
// CHECK:         %[[C1:.*]] = arith.subf %{{.*}}, %[[POWER1]]
// CHECK:         dtc.adam_update %[[P0]], %[[G0]], %{{.*}}, %{{.*}}, %[[RATE]], %[[ONE]], %[[C1]], %{{.*}} {beta1 = 9.000000e-01 : f64, beta2 = {{[0-9.e-]+}} : f64, decoupled, eps = 1.000000e-08 : f64, weightDecay = 1.000000e-02 : f64}
// CHECK:         %[[MEAN:.*]] = arith.divf %[[VECTOR]]#0, %[[VECTOR]]#1
// CHECK:         return {{.*}}, %[[NORM]], %[[MEAN]], %[[VECTOR]]#2
module {
  dtc.parameter trainable @head.weight : tensor<10x32xf32> file tensor<10x32xf32>
  dtc.parameter trainable @head.bias : tensor<10xf32> file tensor<10xf32>
  dtc.parameter trainable @unused.weight : tensor<3xf32> file tensor<3xf32>

  func.func @forward(
      %w: tensor<10x32xf32> {dtc.role = #dtc.role<parameter, "head.weight">},
      %b: tensor<10xf32> {dtc.role = #dtc.role<parameter, "head.bias">},
      %u: tensor<3xf32> {dtc.role = #dtc.role<parameter, "unused.weight">},
      %x: tensor<4x32xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4x10xf32> {dtc.role = #dtc.role<output, "logits">},
          tensor<4x32xf32> {dtc.role = #dtc.role<output, "other">}) {
    %0 = dtc.contract %x [0, 2], %w [1, 2] -> [0, 1]
      : tensor<4x32xf32>, tensor<10x32xf32> -> tensor<4x10xf32>
    %1 = dtc.broadcast %b [1] : tensor<10xf32> -> tensor<4x10xf32>
    %2 = arith.addf %0, %1 : tensor<4x10xf32>
    %3 = math.exp %x : tensor<4x32xf32>
    return %2, %3 : tensor<4x10xf32>, tensor<4x32xf32>
  }
}
