// RUN: dtc-opt %s --dtc-build-schedule=microbatches=2 --dtc-plan-memory=threads=1 --dtc-verify-schedule | FileCheck %s

// Terms of a gradient that are added in turn, with a barrier behind each sum, are added in the gradient's place. It
// would take as much memory again, and a copy.

exec.kernel @add extent 64 scratch 0 flat {
^bb0(%a: tensor<4x16xf32>, %b: tensor<4x16xf32>):
  %0 = arith.addf %a, %b : tensor<4x16xf32>
  exec.yield %0 : tensor<4x16xf32>
}

// CHECK-LABEL: func.func @loss_and_grads(
// CHECK-SAME: %arg1: tensor<4x16xf32> {{{.*}}exec.offsets = [[HOME:[0-9]+]] : i64}
// CHECK-NEXT: %[[A:.*]] = exec.launch @add(%arg1, %arg0) {{.*}} {exec.offsets = array<i64: [[HOME]]>}
// CHECK-NEXT: %[[B:.*]] = dtc.barrier %[[A]] {exec.offsets = array<i64: [[HOME]]>}
// CHECK-NEXT: %[[C:.*]] = exec.launch @add(%[[B]], %arg0) {{.*}} {exec.offsets = array<i64: [[HOME]]>}
// CHECK-NEXT: return %[[C]]
func.func @loss_and_grads(
    %w: tensor<4x16xf32> {dtc.role = #dtc.role<parameter, "w">},
    %g: tensor<4x16xf32> {dtc.role = #dtc.role<gradient, "w">})
    -> (tensor<4x16xf32> {dtc.role = #dtc.role<gradient, "w">})
    attributes {dtc.runs = #dtc.runs<microbatch, forward|backward>} {
  %a = exec.launch @add(%g, %w) extent 64 in_place [0] : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %b = dtc.barrier %a : tensor<4x16xf32>
  %c = exec.launch @add(%b, %w) extent 64 in_place [0] : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  return %c : tensor<4x16xf32>
}
