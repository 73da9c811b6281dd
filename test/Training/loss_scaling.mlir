// fp16: the loss is scaled, and the update writes nothing where a gradient isn't finite.
// RUN: dtc-opt --dtc-train="precision=fp16 optimizer=sgd momentum=0.9 clip-grad-norm=1.5 loss-scale=1024 loss-scale-growth-interval=7" %s | FileCheck %s
// RUN: not dtc-opt --dtc-train="precision=fp16 loss-scale=0" %s 2>&1 | FileCheck %s --check-prefix=OUTSIDE
// RUN: not dtc-opt --dtc-train="precision=fp16 loss-scale-growth-interval=0" %s 2>&1 | FileCheck %s --check-prefix=INTERVAL
// OUTSIDE: error: the loss scale must be from {{.*}}: 0.0
// INTERVAL: error: the loss scale's growth interval must be from 1 to 16777216: 0

// CHECK:      dtc.parameter trainable @w : tensor<10x32xf16> file tensor<10x32xf32>
// CHECK-NEXT: dtc.parameter buffer @dtc.loss_scale : tensor<f32> file tensor<f32> {dtc.initial = 1.024000e+03 : f64}
// CHECK-NEXT: dtc.parameter buffer @dtc.clean_steps : tensor<f32> file tensor<f32> {dtc.initial = 0.000000e+00 : f64}
// CHECK-NEXT: dtc.parameter buffer @dtc.skipped_steps : tensor<f32> file tensor<f32> {dtc.initial = 0.000000e+00 : f64}

// CHECK-LABEL: func.func @loss_and_grads(
// CHECK-SAME:    %[[COUNT:[^:]*]]: tensor<f32> {dtc.role = #dtc.role<scalar, "", count>}
// CHECK-SAME:    %[[SCALE:[^:]*]]: tensor<f32> {dtc.role = #dtc.role<buffer, "dtc.loss_scale">})
// CHECK:         %[[SEED:.*]] = arith.divf %[[SCALE]], %[[COUNT]]
// CHECK:         %[[ROWS:.*]] = dtc.broadcast %[[SEED]] [] {{.*}} -> tensor<4xf32>
// CHECK:         dtc.cross_entropy_grad {{.*}}, %[[ROWS]] ignore -100

// CHECK-LABEL: func.func @update(
// CHECK-SAME:    %[[MASTER:[^:]*]]: tensor<10x32xf32> {dtc.role = #dtc.role<master, "w">}
// CHECK-SAME:    %[[MOMENTUM:[^:]*]]: tensor<10x32xf32> {dtc.role = #dtc.role<state, "w", momentum_buffer>}
// CHECK-SAME:    %[[SCALE:[^:]*]]: tensor<f32> {dtc.role = #dtc.role<buffer, "dtc.loss_scale">}
// CHECK-SAME:    %[[CLEAN:[^:]*]]: tensor<f32> {dtc.role = #dtc.role<buffer, "dtc.clean_steps">}
// CHECK-SAME:    %[[SKIPPED:[^:]*]]: tensor<f32> {dtc.role = #dtc.role<buffer, "dtc.skipped_steps">})
// CHECK:         %[[VECTOR:.*]]:4 = dtc.step_vector
// CHECK:         %[[SCALED:.*]] = math.sqrt %[[VECTOR]]#3
// CHECK:         %[[INVERSE:.*]] = arith.divf %{{.*}}, %[[SCALE]]
// CHECK:         %[[NORM:.*]] = arith.mulf %[[SCALED]], %[[INVERSE]]
// CHECK:         %[[CLIP:.*]] = arith.minimumf
// CHECK:         %[[FAULTS:.*]] = arith.select %{{.*}}, %{{.*}}, %[[VECTOR]]#2
// CHECK:         %[[FACTOR:.*]] = arith.mulf %[[CLIP]], %{{.*}}
// CHECK:         %[[NEW:.*]], %[[BUFFER:.*]] = dtc.sgd_update %[[MASTER]], %{{.*}}, %[[MOMENTUM]], %{{.*}}, %[[FACTOR]]
// CHECK:         %[[KEPT:.*]] = dtc.commit %[[NEW]], %[[MASTER]], %[[FAULTS]]
// CHECK:         dtc.commit %[[BUFFER]], %[[MOMENTUM]], %[[FAULTS]]
// CHECK:         arith.truncf %[[KEPT]] : tensor<10x32xf32> to tensor<10x32xf16>
// CHECK:         arith.addf %[[CLEAN]]
// CHECK:         arith.constant dense<7.000000e+00>
// CHECK:         arith.addf %[[SKIPPED]]
module {
  dtc.parameter trainable @w : tensor<10x32xf32> file tensor<10x32xf32>

  func.func @forward(
      %w: tensor<10x32xf32> {dtc.role = #dtc.role<parameter, "w">},
      %x: tensor<4x32xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4x10xf32> {dtc.role = #dtc.role<output, "logits">}) {
    %0 = dtc.contract %x [0, 2], %w [1, 2] -> [0, 1]
      : tensor<4x32xf32>, tensor<10x32xf32> -> tensor<4x10xf32>
    return %0 : tensor<4x10xf32>
  }
}
