// A kernel of several pieces finds by its block's number which of them it does, and then moves whole
// accesses as one for a single tensor does.
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels --test-emit-ptx -o /dev/null | FileCheck %s
// REQUIRES: gpu
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels --test-run-cuda-kernels -o /dev/null

// CHECK: .visible .entry pointwise_0(
// CHECK: .reqntid 256
// CHECK: setp.
// CHECK: ld.global.v4.{{[fb]}}32
// CHECK: st.global.v4.{{[fb]}}32
// CHECK-NOT: .local
// CHECK: ret;
// CHECK-NOT: .entry
func.func @three(
    %p: tensor<64xf32> {dtc.role = #dtc.role<master, "p">}, %g: tensor<64xf32>,
    %q: tensor<96x64xf32> {dtc.role = #dtc.role<master, "q">}, %h: tensor<96x64xf32>,
    %r: tensor<3000xf32> {dtc.role = #dtc.role<master, "r">}, %i: tensor<3000xf32>,
    %lr: tensor<f64>, %scale: tensor<f32>)
    -> (tensor<64xbf16>, tensor<64xf32> {dtc.role = #dtc.role<master, "p">},
        tensor<96x64xbf16>, tensor<96x64xf32> {dtc.role = #dtc.role<master, "q">},
        tensor<3000xbf16>, tensor<3000xf32> {dtc.role = #dtc.role<master, "r">}) {
  %0 = "dtc.sgd_update"(%p, %g, %lr, %scale) {momentum = 0.0, weightDecay = 0.1} : (tensor<64xf32>, tensor<64xf32>, tensor<f64>, tensor<f32>) -> tensor<64xf32>
  %1 = "dtc.sgd_update"(%q, %h, %lr, %scale) {momentum = 0.0, weightDecay = 0.1} : (tensor<96x64xf32>, tensor<96x64xf32>, tensor<f64>, tensor<f32>) -> tensor<96x64xf32>
  %2 = "dtc.sgd_update"(%r, %i, %lr, %scale) {momentum = 0.0, weightDecay = 0.1} : (tensor<3000xf32>, tensor<3000xf32>, tensor<f64>, tensor<f32>) -> tensor<3000xf32>
  %4 = arith.truncf %0 : tensor<64xf32> to tensor<64xbf16>
  %5 = arith.truncf %1 : tensor<96x64xf32> to tensor<96x64xbf16>
  %6 = arith.truncf %2 : tensor<3000xf32> to tensor<3000xbf16>
  return %4, %0, %5, %1, %6, %2 : tensor<64xbf16>, tensor<64xf32>, tensor<96x64xbf16>, tensor<96x64xf32>, tensor<3000xbf16>, tensor<3000xf32>
}
