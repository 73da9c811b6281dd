// RUN: dtc-opt --dtc-train="precision=bf16 microbatches=3 optimizer=sgd momentum=0.9 nesterov=true clip-grad-norm=1.5 no-decay=bias$" %s | FileCheck %s

// CHECK: dtc.parameter trainable @head.weight : tensor<10x32xbf16> file tensor<10x32xf32>

// Accumulators are f32 arguments and results. Positions stay f32 until they
// meet an activation: bf16 can't count beyond 256.
// CHECK-LABEL: func.func @loss_and_grads(
// CHECK-SAME:    %[[W:.*]]: tensor<10x32xbf16> {dtc.role = #dtc.role<parameter, "head.weight">}
// CHECK-SAME:    %[[LOSS:[^:]*]]: tensor<f32> {dtc.role = #dtc.role<loss, "">}
// CHECK-SAME:    %[[GW:[^:]*]]: tensor<10x32xf32> {dtc.role = #dtc.role<gradient, "head.weight">}
// CHECK-SAME:    %[[GB:[^:]*]]: tensor<10xf32> {dtc.role = #dtc.role<gradient, "head.bias">}
// CHECK:         dtc.iota 1 {{.*}} : tensor<4x10xf32>
// CHECK:         %[[SIN:.*]] = math.sin {{.*}} : tensor<4x10xf32>
// CHECK:         %[[X:.*]] = arith.truncf %{{.*}} : tensor<4x32xf32> to tensor<4x32xbf16>
// CHECK:         dtc.contract %[[X]] [0, 2], %[[W]] [1, 2] -> [0, 1] {{.*}} -> tensor<4x10xbf16>
// CHECK:         arith.truncf %[[SIN]]
// CHECK:         dtc.cross_entropy {{.*}} : tensor<4x10xbf16>, tensor<4xi64> -> tensor<4xf32>, tensor<4xf32>
// CHECK:         %[[DY:.*]] = dtc.cross_entropy_grad {{.*}} -> tensor<4x10xbf16>
// The bias is summed, the weight contracted, in f32 at once.
// CHECK:         %[[DYF:.*]] = arith.extf %[[DY]]
// Each is added to its accumulator at once: none waits for the others.
// CHECK:         %[[DB:.*]] = dtc.reduce sum %[[DYF]] [0] {{.*}} -> tensor<10xf32>
// CHECK-NEXT:    dtc.sum %[[GB]], %[[DB]] {dtc.backward = #dtc.backward<{{.*}}, accumulate>}
// CHECK:         %[[DW:.*]] = dtc.contract {{.*}} : tensor<4x10xbf16>, tensor<4x32xbf16> -> tensor<10x32xf32>
// CHECK-NEXT:    dtc.sum %[[GW]], %[[DW]] {dtc.backward = #dtc.backward<{{.*}}, accumulate>}
// CHECK:         dtc.sum %[[LOSS]], %{{.*}} {dtc.backward = #dtc.backward<{{.*}}, accumulate>}

// All microbatches' targets are counted.
// CHECK-LABEL: func.func @prologue(%{{.*}}: tensor<12xi64>

// CHECK-LABEL: func.func @update(
// CHECK-SAME:    %{{[^:]*}}: tensor<10x32xbf16> {dtc.role = #dtc.role<parameter, "head.weight">}
// CHECK-SAME:    %[[MASTER:[^:]*]]: tensor<10x32xf32> {dtc.role = #dtc.role<master, "head.weight">}
// CHECK-SAME:    %[[STATE:[^:]*]]: tensor<10x32xf32> {dtc.role = #dtc.role<state, "head.weight", momentum_buffer>}
// CHECK-SAME:    -> (tensor<10x32xbf16> {dtc.role = #dtc.role<parameter, "head.weight">}
// CHECK-SAME:        tensor<10x32xf32> {dtc.role = #dtc.role<master, "head.weight">}
// CHECK:         %[[NORM:.*]] = math.sqrt
// CHECK:         %[[MAX:.*]] = arith.constant dense<1.500000e+00>
// CHECK:         arith.addf %[[NORM]]
// CHECK:         arith.divf %[[MAX]]
// CHECK:         %[[SCALE:.*]] = arith.minimumf
// CHECK:         %[[NEW:.*]], %{{.*}} = dtc.sgd_update %[[MASTER]], %{{.*}}, %[[STATE]], %{{.*}}, %[[SCALE]] {momentum = 9.000000e-01 : f64, nesterov, weightDecay = 1.000000e-02 : f64}
// CHECK:         dtc.sgd_update {{.*}} weightDecay = 0.000000e+00 : f64}
// CHECK:         arith.truncf %[[NEW]] : tensor<10x32xf32> to tensor<10x32xbf16>
module {
  dtc.parameter trainable @head.weight : tensor<10x32xf32> file tensor<10x32xf32>
  dtc.parameter trainable @head.bias : tensor<10xf32> file tensor<10xf32>

  func.func @forward(
      %w: tensor<10x32xf32> {dtc.role = #dtc.role<parameter, "head.weight">},
      %b: tensor<10xf32> {dtc.role = #dtc.role<parameter, "head.bias">},
      %x: tensor<4x32xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4x10xf32> {dtc.role = #dtc.role<output, "y">}) {
    %i = dtc.iota 1 : tensor<4x10xf32>
    %sin = math.sin %i : tensor<4x10xf32>
    %0 = dtc.contract %x [0, 2], %w [1, 2] -> [0, 1]
      : tensor<4x32xf32>, tensor<10x32xf32> -> tensor<4x10xf32>
    %1 = arith.mulf %0, %sin : tensor<4x10xf32>
    %2 = dtc.broadcast %b [1] : tensor<10xf32> -> tensor<4x10xf32>
    %3 = arith.addf %1, %2 : tensor<4x10xf32>
    return %3 : tensor<4x10xf32>
  }
}
