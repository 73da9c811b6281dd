// RUN: dtc-opt --dtc-train="optimizer=sgd microbatches=2" %s | FileCheck %s
// RUN: not dtc-opt --dtc-train="loss=none" %s 2>&1 | FileCheck %s --check-prefix=NONE

// Rows that found no slot with their expert are counted where they are found, added up over microbatches, and are a number of the
// step that all ranks agree on.
// CHECK-LABEL: func.func @loss_and_grads(
// CHECK-SAME:    %[[BEFORE:[^:]*]]: tensor<f32> {dtc.role = #dtc.role<count, "overflow:layer 1">}
// CHECK-SAME:    -> (tensor<f32> {dtc.role = #dtc.role<loss, "">}
// CHECK-SAME:        tensor<f32> {dtc.role = #dtc.role<count, "overflow:layer 1">})
// CHECK:         %[[LOST:.*]] = arith.cmpi slt, {{.*}} : tensor<4x10xi64>
// CHECK:         %[[FLOATS:.*]] = arith.uitofp %[[LOST]] {dtc.id = {{[0-9]+}} : i64} : tensor<4x10xi1> to tensor<4x10xf32>
// CHECK:         %[[SUM:.*]] = dtc.reduce sum %{{.*}} [0]
// CHECK:         dtc.contract
// CHECK:         %[[TOTAL:.*]] = dtc.sum %[[BEFORE]], %{{.*}} {dtc.backward = #dtc.backward<{{[0-9]+}}, accumulate>} : tensor<f32>

// CHECK-LABEL: func.func @update(
// CHECK-SAME:    %[[LAYER:[^:]*]]: tensor<f32> {dtc.role = #dtc.role<count, "overflow:layer 1">}
// CHECK-SAME:    tensor<f32> {dtc.role = #dtc.role<count, "non_finite">}, tensor<f32> {dtc.role = #dtc.role<count, "overflow">})
// CHECK:         %[[ALL:.*]] = dtc.sum %[[LAYER]] : tensor<f32>
// CHECK:         %[[VECTOR:.*]]:5 = dtc.step_vector %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[ALL]] lost
// CHECK:         math.sqrt %[[VECTOR]]#3
// CHECK:         return {{.*}}%[[VECTOR]]#4

// NONE: error: has experts with too few slots for the worst case, which needs a loss
module {
  dtc.parameter trainable @w : tensor<10x32xf32> file tensor<10x32xf32>
  func.func @forward(%x: tensor<4x32xf32> {dtc.role = #dtc.role<input, "x">},
                     %i: tensor<4x10xi64> {dtc.role = #dtc.role<input, "i">},
                     %w: tensor<10x32xf32> {dtc.role = #dtc.role<parameter, "w">})
      -> (tensor<4x10xf32> {dtc.role = #dtc.role<output, "logits">},
          tensor<4x10xi1> {dtc.role = #dtc.role<count, "overflow:layer 1">}) {
    %zero = arith.constant dense<0> : tensor<4x10xi64>
    %lost = arith.cmpi slt, %i, %zero : tensor<4x10xi64>
    %y = dtc.contract %x [0, 2], %w [1, 2] -> [0, 1] : tensor<4x32xf32>, tensor<10x32xf32> -> tensor<4x10xf32>
    return %y, %lost : tensor<4x10xf32>, tensor<4x10xi1>
  }
}
