// RUN: dtc-opt --dtc-view-parameters %s | FileCheck %s

// CHECK: dtc.parameter trainable @seen : tensor<4x2x4xf32> file tensor<4x8xf32>
dtc.parameter trainable @seen : tensor<4x8xf32> file tensor<4x8xf32>
// Read under two shapes: it keeps its own.
// CHECK: dtc.parameter trainable @twice : tensor<4x8xf32> file tensor<4x8xf32>
dtc.parameter trainable @twice : tensor<4x8xf32> file tensor<4x8xf32>
// CHECK: dtc.parameter buffer @buffer : tensor<8xf32> file tensor<2x4xf32>
dtc.parameter buffer @buffer : tensor<2x4xf32> file tensor<2x4xf32>

// What the buffer becomes is a result of its own shape.
// CHECK: dtc.parameter buffer @changed : tensor<2x4xf32> file tensor<2x4xf32>
dtc.parameter buffer @changed : tensor<2x4xf32> file tensor<2x4xf32>

// Layers share it, and each has its own view.
dtc.parameter trainable @shared : tensor<8xf32> file tensor<8xf32>

// CHECK: func.func @forward(%[[A:.*]]: tensor<4x2x4xf32> {{.*}}, %[[B:.*]]: tensor<4x8xf32> {{.*}}, %[[C:.*]]: tensor<8xf32> {{.*}}, %[[X:.*]]: tensor<2xf32> {{.*}}, %{{.*}}: tensor<2x4xf32> {{.*}}, %[[E:.*]]: tensor<8xf32> {{.*}})
// CHECK: dtc.reshape %[[B]]
// CHECK: %[[INPUT:.*]] = dtc.reshape %[[X]] : tensor<2xf32> -> tensor<2x1xf32>
// CHECK: %[[FIRST:.*]] = dtc.broadcast %[[E]] [1]
// CHECK-NEXT: %[[ONE:.*]] = math.exp %[[FIRST]]
// CHECK-NEXT: %[[SECOND:.*]] = dtc.broadcast %[[E]] [1]
// CHECK-NEXT: arith.addf %[[ONE]], %[[SECOND]]
// CHECK: return %[[A]], %{{.*}}, %[[B]], %[[C]], %[[INPUT]]
func.func @forward(
    %a: tensor<4x8xf32> {dtc.role = #dtc.role<parameter, "seen">},
    %b: tensor<4x8xf32> {dtc.role = #dtc.role<parameter, "twice">},
    %c: tensor<2x4xf32> {dtc.role = #dtc.role<buffer, "buffer">},
    %x: tensor<2xf32> {dtc.role = #dtc.role<input, "x">},
    %d: tensor<2x4xf32> {dtc.role = #dtc.role<buffer, "changed">},
    %e: tensor<8xf32> {dtc.role = #dtc.role<parameter, "shared">})
    -> (tensor<4x2x4xf32>, tensor<32xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<2x1xf32>,
        tensor<2x4xf32> {dtc.role = #dtc.role<buffer, "changed">}, tensor<4x8xf32>) {
  %0 = dtc.reshape %a : tensor<4x8xf32> -> tensor<4x2x4xf32>
  %1 = dtc.reshape %b : tensor<4x8xf32> -> tensor<32xf32>
  %2 = dtc.reshape %c : tensor<2x4xf32> -> tensor<8xf32>
  %3 = dtc.reshape %x : tensor<2xf32> -> tensor<2x1xf32>
  %4 = dtc.reshape %d : tensor<2x4xf32> -> tensor<8xf32>
  %5 = arith.negf %4 : tensor<8xf32>
  %6 = dtc.reshape %5 : tensor<8xf32> -> tensor<2x4xf32>
  %7 = dtc.broadcast %e [1] : tensor<8xf32> -> tensor<4x8xf32>
  %8 = math.exp %7 : tensor<4x8xf32>
  %9 = arith.addf %8, %7 : tensor<4x8xf32>
  return %0, %1, %b, %2, %3, %6, %9 : tensor<4x2x4xf32>, tensor<32xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<2x1xf32>, tensor<2x4xf32>, tensor<4x8xf32>
}
