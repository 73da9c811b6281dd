// RUN: dtc-opt %s --dtc-cut-offloaded=part-bytes=480 | FileCheck %s
// RUN: dtc-opt %s --dtc-cut-offloaded | FileCheck %s --check-prefix=UNCUT
// RUN: dtc-opt %s --dtc-cut-offloaded=part-bytes=480 --dtc-layers-to-kernels | FileCheck %s --check-prefix=KERNELS
// RUN: dtc-opt --target=cuda %s --dtc-cut-offloaded=part-bytes=480 --dtc-layers-to-kernels | FileCheck %s --check-prefixes=KERNELS,CUDA

module {
  dist.mesh @mesh ["dp" = 1]

  // States are 12 bytes an element with the master, so that a part has 40 elements. Commits and
  // conversions belong to the update. What others read of a parameter stays whole.
  // CHECK-LABEL: func.func @adam
  // CHECK: %[[FLAT:.*]] = dtc.reshape %arg0 : tensor<10x9xf32> -> tensor<90xf32>
  // CHECK: %[[W0:.*]] = dtc.slice %[[FLAT]] offsets [0] strides [1] {exec.part} : tensor<90xf32> -> tensor<40xf32>
  // CHECK: %[[NEW0:[^,]*]], %[[M0:[^,]*]], %[[V0:.*]] = dtc.adam_update %[[W0]],
  // CHECK: %[[KEPT0:.*]] = dtc.commit %[[NEW0]], %[[W0]], %arg8 : tensor<40xf32>
  // CHECK: %[[P0:.*]] = arith.truncf %[[KEPT0]] : tensor<40xf32> to tensor<40xbf16>
  // CHECK: dtc.adam_update
  // CHECK: %[[P1:.*]] = arith.truncf {{.*}} to tensor<40xbf16>
  // CHECK: dtc.slice %[[FLAT]] offsets [80] strides [1] {exec.part} : tensor<90xf32> -> tensor<10xf32>
  // CHECK: dtc.adam_update
  // CHECK: %[[P2:.*]] = arith.truncf {{.*}} to tensor<10xbf16>
  // CHECK-NOT: dtc.adam_update
  // CHECK: dtc.concat 0(%[[M0]], {{.*}}) {exec.part}
  // CHECK: dtc.concat 0(%[[V0]], {{.*}}) {exec.part}
  // CHECK: dtc.concat 0(%[[KEPT0]], {{.*}}) {exec.part} : tensor<40xf32>, tensor<40xf32>, tensor<10xf32> -> tensor<90xf32>
  // CHECK: %[[P:.*]] = dtc.concat 0(%[[P0]], %[[P1]], %[[P2]]) {exec.part} : tensor<40xbf16>, tensor<40xbf16>, tensor<10xbf16> -> tensor<90xbf16>
  // CHECK: %[[WHOLE:.*]] = dtc.reshape %[[P]] : tensor<90xbf16> -> tensor<10x9xbf16>
  // CHECK: return %[[WHOLE]]

  // Parts of one size share a kernel, on processors those of all sizes do.
  // KERNELS-LABEL: func.func @adam
  // KERNELS: %[[PART:.*]] = dtc.slice {{.*}} offsets [0]
  // KERNELS: exec.launch @[[FULL:.*]]({{.*}}%[[PART]]
  // KERNELS: exec.launch @[[FULL]](
  // CUDA-NOT: exec.launch @[[FULL]](
  // KERNELS: exec.launch @
  // KERNELS-NOT: exec.launch
  // KERNELS: dtc.concat 0({{.*}}) {exec.part}

  // UNCUT-LABEL: func.func @adam
  // UNCUT-NOT: exec.part
  func.func @adam(
      %w: tensor<10x9xf32> {dtc.role = #dtc.role<master, "a">, dist.on_host},
      %m: tensor<10x9xf32> {dtc.role = #dtc.role<state, "a", exp_avg>, dist.on_host},
      %v: tensor<10x9xf32> {dtc.role = #dtc.role<state, "a", exp_avg_sq>, dist.on_host},
      %g: tensor<10x9xf32> {dtc.role = #dtc.role<gradient, "a">},
      %lr: tensor<f64>, %scale: tensor<f32>, %c1: tensor<f32>, %c2: tensor<f32>, %faults: tensor<f32>)
      -> (tensor<10x9xbf16> {dtc.role = #dtc.role<parameter, "a">},
          tensor<10x9xf32> {dtc.role = #dtc.role<master, "a">, dist.on_host},
          tensor<10x9xf32> {dtc.role = #dtc.role<state, "a", exp_avg>, dist.on_host},
          tensor<10x9xf32> {dtc.role = #dtc.role<state, "a", exp_avg_sq>, dist.on_host}) {
    %new, %m1, %v1 = dtc.adam_update %w, %g, %m, %v, %lr, %scale, %c1, %c2 {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, weightDecay = 0.1 : f64, decoupled} : (tensor<10x9xf32>, tensor<10x9xf32>, tensor<10x9xf32>, tensor<10x9xf32>, tensor<f64>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<10x9xf32>, tensor<10x9xf32>, tensor<10x9xf32>)
    %kept = dtc.commit %new, %w, %faults : tensor<10x9xf32>, tensor<f32>
    %p = arith.truncf %kept : tensor<10x9xf32> to tensor<10x9xbf16>
    return %p, %kept, %m1, %v1 : tensor<10x9xbf16>, tensor<10x9xf32>, tensor<10x9xf32>, tensor<10x9xf32>
  }

  // A part of 120 elements takes all of the momentum, and what lies on the device isn't cut.
  // CHECK-LABEL: func.func @others
  // CHECK-NOT: exec.part
  func.func @others(
      %p: tensor<120xf32> {dtc.role = #dtc.role<parameter, "a">},
      %b: tensor<120xf32> {dtc.role = #dtc.role<state, "a", momentum_buffer>, dist.on_host},
      %q: tensor<500xf32> {dtc.role = #dtc.role<parameter, "b">},
      %c: tensor<500xf32> {dtc.role = #dtc.role<state, "b", momentum_buffer>},
      %g: tensor<120xf32> {dtc.role = #dtc.role<gradient, "a">},
      %h: tensor<500xf32> {dtc.role = #dtc.role<gradient, "b">}, %lr: tensor<f64>, %scale: tensor<f32>)
      -> (tensor<120xf32>, tensor<120xf32> {dist.on_host}, tensor<500xf32>, tensor<500xf32>) {
    %p1, %b1 = dtc.sgd_update %p, %g, %b, %lr, %scale {momentum = 0.9 : f64, weightDecay = 0.0 : f64} : (tensor<120xf32>, tensor<120xf32>, tensor<120xf32>, tensor<f64>, tensor<f32>) -> (tensor<120xf32>, tensor<120xf32>)
    %q1, %c1 = dtc.sgd_update %q, %h, %c, %lr, %scale {momentum = 0.9 : f64, weightDecay = 0.0 : f64} : (tensor<500xf32>, tensor<500xf32>, tensor<500xf32>, tensor<f64>, tensor<f32>) -> (tensor<500xf32>, tensor<500xf32>)
    return %p1, %b1, %q1, %c1 : tensor<120xf32>, tensor<120xf32>, tensor<500xf32>, tensor<500xf32>
  }

  // One element that is left is no scalar beside those of other parameters: the last part has it, too.
  // CHECK-LABEL: func.func @one_left
  // CHECK: dtc.concat 0({{.*}}) {exec.part} : tensor<120xf32>, tensor<121xf32> -> tensor<241xf32>
  // CHECK-LABEL: func.func @one_more
  // CHECK-NOT: exec.part
  func.func @one_left(
      %p: tensor<241xf32> {dtc.role = #dtc.role<parameter, "a">},
      %b: tensor<241xf32> {dtc.role = #dtc.role<state, "a", momentum_buffer>, dist.on_host},
      %g: tensor<241xf32> {dtc.role = #dtc.role<gradient, "a">}, %lr: tensor<f64>, %scale: tensor<f32>)
      -> (tensor<241xf32>, tensor<241xf32> {dist.on_host}) {
    %p1, %b1 = dtc.sgd_update %p, %g, %b, %lr, %scale {momentum = 0.9 : f64, weightDecay = 0.0 : f64} : (tensor<241xf32>, tensor<241xf32>, tensor<241xf32>, tensor<f64>, tensor<f32>) -> (tensor<241xf32>, tensor<241xf32>)
    return %p1, %b1 : tensor<241xf32>, tensor<241xf32>
  }
  func.func @one_more(
      %p: tensor<121xf32> {dtc.role = #dtc.role<parameter, "a">},
      %b: tensor<121xf32> {dtc.role = #dtc.role<state, "a", momentum_buffer>, dist.on_host},
      %g: tensor<121xf32> {dtc.role = #dtc.role<gradient, "a">}, %lr: tensor<f64>, %scale: tensor<f32>)
      -> (tensor<121xf32>, tensor<121xf32> {dist.on_host}) {
    %p1, %b1 = dtc.sgd_update %p, %g, %b, %lr, %scale {momentum = 0.9 : f64, weightDecay = 0.0 : f64} : (tensor<121xf32>, tensor<121xf32>, tensor<121xf32>, tensor<f64>, tensor<f32>) -> (tensor<121xf32>, tensor<121xf32>)
    return %p1, %b1 : tensor<121xf32>, tensor<121xf32>
  }
}
