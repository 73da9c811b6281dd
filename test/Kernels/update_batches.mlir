// Equal updates of any sizes are pieces of one kernel on GPUs; on processors each is launched alone.
// RUN: dtc-opt --target=cuda %s -split-input-file --dtc-decompose-layers --dtc-form-kernels | FileCheck %s
// RUN: dtc-opt %s -split-input-file --dtc-decompose-layers --dtc-form-kernels | FileCheck %s --check-prefix=CPU

// The largest comes first. Scalars are the last operands. What isn't a multiple of eight elements
// is moved element by element, in a kernel of its own. The master is replaced, not the parameter.
// CHECK: exec.kernel @pointwise_1 extent 15 scratch 0 flat replaces [-1, 0, -1, 2] geometry <blocks = 2, threads = 256> pieces 2
// CHECK: exec.kernel @pointwise_0 extent 768 scratch 0 flat replaces [-1, 0, -1, 2] geometry <blocks = 4, threads = 256> pieces 2
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<6144xf32>, %{{.*}}: tensor<6144xf32>, %{{.*}}: tensor<64xf32>, %{{.*}}: tensor<64xf32>, %{{.*}}: tensor<f64>, %{{.*}}: tensor<f32>):
// CHECK-LABEL: func.func @sizes
// CHECK-NEXT: exec.launch @pointwise_0(%arg2, %arg3, %arg0, %arg1, %arg8, %arg9) extent 768 in_place [-1, 0, -1, 2]
// CHECK-NEXT: exec.launch @pointwise_1(
// CHECK-NEXT: return
// CPU-LABEL: func.func @sizes
// CPU-COUNT-4: exec.launch
// CPU-NEXT: return
func.func @sizes(
    %p: tensor<64xf32> {dtc.role = #dtc.role<master, "p">}, %g: tensor<64xf32>,
    %q: tensor<96x64xf32> {dtc.role = #dtc.role<master, "q">}, %h: tensor<96x64xf32>,
    %r: tensor<3x5xf32> {dtc.role = #dtc.role<master, "r">}, %i: tensor<3x5xf32>,
    %s: tensor<9xf32> {dtc.role = #dtc.role<master, "s">}, %j: tensor<9xf32>,
    %lr: tensor<f64>, %scale: tensor<f32>)
    -> (tensor<64xbf16>, tensor<64xf32> {dtc.role = #dtc.role<master, "p">},
        tensor<96x64xbf16>, tensor<96x64xf32> {dtc.role = #dtc.role<master, "q">},
        tensor<3x5xbf16>, tensor<3x5xf32> {dtc.role = #dtc.role<master, "r">},
        tensor<9xbf16>, tensor<9xf32> {dtc.role = #dtc.role<master, "s">}) {
  %0 = "dtc.sgd_update"(%p, %g, %lr, %scale) {momentum = 0.0, weightDecay = 0.1} : (tensor<64xf32>, tensor<64xf32>, tensor<f64>, tensor<f32>) -> tensor<64xf32>
  %1 = "dtc.sgd_update"(%q, %h, %lr, %scale) {momentum = 0.0, weightDecay = 0.1} : (tensor<96x64xf32>, tensor<96x64xf32>, tensor<f64>, tensor<f32>) -> tensor<96x64xf32>
  %2 = "dtc.sgd_update"(%r, %i, %lr, %scale) {momentum = 0.0, weightDecay = 0.1} : (tensor<3x5xf32>, tensor<3x5xf32>, tensor<f64>, tensor<f32>) -> tensor<3x5xf32>
  %3 = "dtc.sgd_update"(%s, %j, %lr, %scale) {momentum = 0.0, weightDecay = 0.1} : (tensor<9xf32>, tensor<9xf32>, tensor<f64>, tensor<f32>) -> tensor<9xf32>
  %4 = arith.truncf %0 : tensor<64xf32> to tensor<64xbf16>
  %5 = arith.truncf %1 : tensor<96x64xf32> to tensor<96x64xbf16>
  %6 = arith.truncf %2 : tensor<3x5xf32> to tensor<3x5xbf16>
  %7 = arith.truncf %3 : tensor<9xf32> to tensor<9xbf16>
  return %4, %0, %5, %1, %6, %2, %7, %3 : tensor<64xbf16>, tensor<64xf32>, tensor<96x64xbf16>, tensor<96x64xf32>, tensor<3x5xbf16>, tensor<3x5xf32>, tensor<9xbf16>, tensor<9xf32>
}

// -----

// What another op reads before the last update, what lies on the host, and what takes another rate
// or decays otherwise stay apart.
// CHECK-LABEL: func.func @apart
// CHECK-COUNT-5: exec.launch
// CHECK-NEXT: return
func.func @apart(%p: tensor<64xf32>, %g: tensor<64xf32>, %q: tensor<64xf32>, %h: tensor<64xf32>,
                 %r: tensor<64xf32> {dist.on_host}, %s: tensor<64xf32>, %lr: tensor<f64>,
                 %other: tensor<f64>, %scale: tensor<f32>)
    -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %0 = "dtc.sgd_update"(%p, %g, %lr, %scale) {momentum = 0.0, weightDecay = 0.1} : (tensor<64xf32>, tensor<64xf32>, tensor<f64>, tensor<f32>) -> tensor<64xf32>
  %copy = exec.copy %0 : tensor<64xf32>
  %1 = "dtc.sgd_update"(%q, %h, %lr, %scale) {momentum = 0.0, weightDecay = 0.1} : (tensor<64xf32>, tensor<64xf32>, tensor<f64>, tensor<f32>) -> tensor<64xf32>
  %2 = "dtc.sgd_update"(%q, %h, %other, %scale) {momentum = 0.0, weightDecay = 0.1} : (tensor<64xf32>, tensor<64xf32>, tensor<f64>, tensor<f32>) -> tensor<64xf32>
  %3 = "dtc.sgd_update"(%q, %h, %lr, %scale) {momentum = 0.0, weightDecay = 0.2} : (tensor<64xf32>, tensor<64xf32>, tensor<f64>, tensor<f32>) -> tensor<64xf32>
  %4 = "dtc.sgd_update"(%r, %s, %lr, %scale) {momentum = 0.0, weightDecay = 0.1} : (tensor<64xf32>, tensor<64xf32>, tensor<f64>, tensor<f32>) -> tensor<64xf32>
  return %0, %copy, %1, %2, %3, %4 : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
}

// -----

// An update that is alone in one function is a piece in another.
// CHECK-LABEL: func.func @pair
// CHECK-NEXT: exec.launch @[[PAIR:pointwise_[0-9]+]](%arg0, %arg1, %arg2, %arg3, %arg4, %arg5)
// CHECK-NEXT: return
// CHECK-LABEL: func.func @single
// CHECK-NEXT: exec.launch @pointwise_
// CHECK-NOT: @[[PAIR]](
// CHECK: return
func.func @pair(%p: tensor<64xf32>, %g: tensor<64xf32>, %q: tensor<64xf32>, %h: tensor<64xf32>,
                %lr: tensor<f64>, %scale: tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %0 = "dtc.sgd_update"(%p, %g, %lr, %scale) {momentum = 0.0, weightDecay = 0.1} : (tensor<64xf32>, tensor<64xf32>, tensor<f64>, tensor<f32>) -> tensor<64xf32>
  %1 = "dtc.sgd_update"(%q, %h, %lr, %scale) {momentum = 0.0, weightDecay = 0.1} : (tensor<64xf32>, tensor<64xf32>, tensor<f64>, tensor<f32>) -> tensor<64xf32>
  return %0, %1 : tensor<64xf32>, tensor<64xf32>
}
func.func @single(%p: tensor<64xf32>, %g: tensor<64xf32>, %lr: tensor<f64>, %scale: tensor<f32>)
    -> tensor<64xf32> {
  %0 = "dtc.sgd_update"(%p, %g, %lr, %scale) {momentum = 0.0, weightDecay = 0.1} : (tensor<64xf32>, tensor<64xf32>, tensor<f64>, tensor<f32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
