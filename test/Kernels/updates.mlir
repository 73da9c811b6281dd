// RUN: dtc-opt %s -split-input-file --dtc-decompose-layers --dtc-form-kernels | FileCheck %s
// RUN: dtc-opt %s -split-input-file --dtc-decompose-layers | FileCheck %s --check-prefix=WHOLE

// Updates that read and write memory alone are outlined once for all parameters. What scales
// their gradients is computed once, and the half precision parameter in the same kernel.
// WHOLE-LABEL: func.func @clipped
// WHOLE-COUNT-2: dtc.sgd_update
// CHECK: exec.kernel @pointwise_1 extent 1
// CHECK: arith.divf
// CHECK: exec.kernel @pointwise_0 extent 6 scratch 0 flat replaces [2, -1]
// CHECK-NOT: exec.kernel
// CHECK-LABEL: func.func @clipped
// CHECK: %[[SCALE:.*]] = exec.launch @pointwise_1(%{{.*}})
// CHECK: exec.launch @pointwise_0({{.*}}%[[SCALE]]{{.*}}) extent 6 in_place
// CHECK: exec.launch @pointwise_0({{.*}}%[[SCALE]]{{.*}}) extent 35 in_place
// CHECK-NEXT: return
func.func @clipped(
    %p: tensor<2x3xf32> {dtc.role = #dtc.role<master, "p">}, %g: tensor<2x3xf32>,
    %q: tensor<5x7xf32> {dtc.role = #dtc.role<master, "q">}, %h: tensor<5x7xf32>,
    %lr: tensor<f64>, %norm: tensor<f32>)
    -> (tensor<2x3xbf16>, tensor<2x3xf32> {dtc.role = #dtc.role<master, "p">},
        tensor<5x7xbf16>, tensor<5x7xf32> {dtc.role = #dtc.role<master, "q">}) {
  %one = arith.constant dense<1.0> : tensor<f32>
  %s = arith.divf %one, %norm : tensor<f32>
  %0 = "dtc.sgd_update"(%p, %g, %lr, %s) {momentum = 0.0, weightDecay = 0.1} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f64>, tensor<f32>) -> tensor<2x3xf32>
  %1 = "dtc.sgd_update"(%q, %h, %lr, %s) {momentum = 0.0, weightDecay = 0.1} : (tensor<5x7xf32>, tensor<5x7xf32>, tensor<f64>, tensor<f32>) -> tensor<5x7xf32>
  %2 = arith.truncf %0 : tensor<2x3xf32> to tensor<2x3xbf16>
  %3 = arith.truncf %1 : tensor<5x7xf32> to tensor<5x7xbf16>
  return %2, %0, %3, %1 : tensor<2x3xbf16>, tensor<2x3xf32>, tensor<5x7xbf16>, tensor<5x7xf32>
}

// -----

// One kernel adds the parts of a gradient, updates the parameter and doubles what it was.
// WHOLE-LABEL: func.func @fused
// WHOLE-NOT: dtc.sgd_update
// WHOLE: return
// CHECK-LABEL: func.func @fused
// CHECK-NEXT: exec.launch @pointwise_0
// CHECK-NEXT: return
func.func @fused(%p: tensor<8xf32>, %a: tensor<8xf32>, %b: tensor<8xf32>, %lr: tensor<f64>)
    -> tensor<8xf32> {
  %one = arith.constant dense<1.0> : tensor<f32>
  %g = arith.addf %a, %b : tensor<8xf32>
  %0 = "dtc.sgd_update"(%p, %g, %lr, %one) {momentum = 0.0, weightDecay = 0.1} : (tensor<8xf32>, tensor<8xf32>, tensor<f64>, tensor<f32>) -> tensor<8xf32>
  %1 = arith.addf %0, %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

// The same op is another kernel where the parameter is not replaced, or another rate is taken.
// WHOLE-LABEL: func.func @kept
// WHOLE-COUNT-4: dtc.sgd_update
// CHECK: exec.kernel @pointwise_3 extent 8 scratch 0 flat {
// CHECK: exec.kernel @pointwise_0 extent 8 scratch 0 flat replaces [2] {
// CHECK-LABEL: func.func @kept
// CHECK-NEXT: exec.launch @pointwise_0
// CHECK-NEXT: exec.launch @pointwise_1
// CHECK-NEXT: exec.launch @pointwise_2
// CHECK-NEXT: exec.launch @pointwise_3
func.func @kept(%p: tensor<8xf32> {dtc.role = #dtc.role<parameter, "p">}, %g: tensor<8xf32>,
                %q: tensor<8xf32>, %h: tensor<8xf32>, %lr: tensor<f64>, %s: tensor<f32>)
    -> (tensor<8xf32> {dtc.role = #dtc.role<parameter, "p">}, tensor<8xf32>, tensor<8xf32>,
        tensor<8xf32>) {
  %one = arith.constant dense<1.0> : tensor<f32>
  %0 = "dtc.sgd_update"(%p, %g, %lr, %s) {momentum = 0.0, weightDecay = 0.1} : (tensor<8xf32>, tensor<8xf32>, tensor<f64>, tensor<f32>) -> tensor<8xf32>
  %1 = "dtc.sgd_update"(%p, %g, %lr, %s) {momentum = 0.0, weightDecay = 0.2} : (tensor<8xf32>, tensor<8xf32>, tensor<f64>, tensor<f32>) -> tensor<8xf32>
  %2 = "dtc.sgd_update"(%p, %g, %lr, %one) {momentum = 0.0, weightDecay = 0.1} : (tensor<8xf32>, tensor<8xf32>, tensor<f64>, tensor<f32>) -> tensor<8xf32>
  %3 = "dtc.sgd_update"(%q, %h, %lr, %s) {momentum = 0.0, weightDecay = 0.1} : (tensor<8xf32>, tensor<8xf32>, tensor<f64>, tensor<f32>) -> tensor<8xf32>
  return %0, %1, %2, %3 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// What an update commits is a part of its kernel, with the conversion of it.
// WHOLE-LABEL: func.func @committed
// WHOLE-COUNT-2: dtc.commit
// CHECK: exec.kernel @pointwise_0 extent 8 scratch 0 flat replaces [4, -1, 1] {
// CHECK-NOT: exec.kernel
// CHECK-LABEL: func.func @committed
// CHECK-NEXT: exec.launch @pointwise_0
// CHECK-NEXT: return
func.func @committed(%p: tensor<8xf32> {dtc.role = #dtc.role<master, "p">}, %g: tensor<8xf32>,
                     %m: tensor<8xf32> {dtc.role = #dtc.role<state, "p", momentum_buffer>},
                     %lr: tensor<f64>, %s: tensor<f32>, %faults: tensor<f32>)
    -> (tensor<8xf16>, tensor<8xf32> {dtc.role = #dtc.role<master, "p">},
        tensor<8xf32> {dtc.role = #dtc.role<state, "p", momentum_buffer>}) {
  %0, %1 = "dtc.sgd_update"(%p, %g, %m, %lr, %s) {momentum = 0.9, weightDecay = 0.1} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f64>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
  %2 = dtc.commit %0, %p, %faults : tensor<8xf32>, tensor<f32>
  %3 = dtc.commit %1, %m, %faults : tensor<8xf32>, tensor<f32>
  %4 = arith.truncf %2 : tensor<8xf32> to tensor<8xf16>
  return %4, %2, %3 : tensor<8xf16>, tensor<8xf32>, tensor<8xf32>
}
