// RUN: dtc-opt %s --dtc-build-schedule=microbatches=2 --dtc-plan-memory=threads=1 --dtc-verify-schedule | FileCheck %s

// Arena: parameter 0-256, momentum 256-512, gradient 512-768, loss 768-832,
// count 832-896, lr 896-960, step 960-1024, input 1024 (2 x 512), target 2048 (2 x 32).
// CHECK: module attributes {exec.arena_bytes = {{.*}} : i64, exec.threads = 1 : i64}

dist.mesh @mesh ["dp" = 2]

exec.kernel @square extent 8 scratch 0 flat {
^bb0(%a: tensor<8x16xf32>):
  %0 = arith.mulf %a, %a : tensor<8x16xf32>
  exec.yield %0 : tensor<8x16xf32>
}
exec.kernel @reduce extent 8 scratch 128 {
^bb0(%a: tensor<8x16xf32>, %t: tensor<8xi32>, %n: tensor<f32>, %before: tensor<f32>):
  %0 = dtc.reduce sum %a [0, 1] : tensor<8x16xf32> -> tensor<f32>
  %1 = arith.addf %0, %before : tensor<f32>
  exec.yield %1 : tensor<f32>
}
exec.kernel @add extent 64 scratch 0 flat {
^bb0(%a: tensor<4x16xf32>, %b: tensor<4x16xf32>):
  %0 = arith.addf %a, %b : tensor<4x16xf32>
  exec.yield %0 : tensor<4x16xf32>
}
exec.kernel @count extent 1 scratch 0 {
^bb0(%t: tensor<16xi32>):
  %0 = arith.sitofp %t : tensor<16xi32> to tensor<16xf32>
  %1 = dtc.reduce sum %0 [0] : tensor<16xf32> -> tensor<f32>
  exec.yield %1 : tensor<f32>
}
exec.kernel @sgd extent 64 scratch 0 {
^bb0(%p: tensor<4x16xf32>, %m: tensor<4x16xf32>, %g: tensor<4x16xf32>, %lr: tensor<f64>):
  %0 = arith.addf %m, %g : tensor<4x16xf32>
  %1 = arith.subf %p, %0 : tensor<4x16xf32>
  exec.yield %1, %0 : tensor<4x16xf32>, tensor<4x16xf32>
}
exec.kernel @mean extent 1 scratch 0 {
^bb0(%l: tensor<f32>, %n: tensor<f32>):
  %0 = arith.divf %l, %n : tensor<f32>
  exec.yield %0 : tensor<f32>
}

// The prologue sees the targets of both microbatches as one tensor.
// CHECK-LABEL: func.func @prologue
// CHECK-SAME: exec.offsets = 2048
// CHECK: exec.launch @count({{.*}}exec.offsets = array<i64: 832>
func.func @prologue(%t: tensor<16xi32> {dtc.role = #dtc.role<target, "target">})
    -> (tensor<f32> {dtc.role = #dtc.role<count, "">}) attributes {dtc.runs = #dtc.runs<step>} {
  %0 = exec.launch @count(%t) extent 1 in_place [-1] : (tensor<16xi32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// CHECK-LABEL: func.func @clear
// CHECK: exec.zero {exec.offsets = array<i64: 768>} : tensor<f32>
// CHECK: exec.zero {exec.offsets = array<i64: 512>} : tensor<4x16xf32>

// CHECK-LABEL: func.func @loss_and_grads
// CHECK-SAME: exec.offsets = 0
// CHECK-SAME: exec.offsets = 1024
// CHECK-SAME: exec.offsets = 2048
// CHECK-SAME: exec.offsets = 832
// CHECK-SAME: exec.offsets = 768
// CHECK-SAME: exec.offsets = 512
func.func @loss_and_grads(
    %p: tensor<4x16xf32> {dtc.role = #dtc.role<parameter, "w">},
    %x: tensor<8x16xf32> {dtc.role = #dtc.role<input, "x">},
    %t: tensor<8xi32> {dtc.role = #dtc.role<target, "target">},
    %n: tensor<f32> {dtc.role = #dtc.role<scalar, "", count>},
    %l: tensor<f32> {dtc.role = #dtc.role<loss, "">},
    %g: tensor<4x16xf32> {dtc.role = #dtc.role<gradient, "w">})
    -> (tensor<f32> {dtc.role = #dtc.role<loss, "">},
        tensor<4x16xf32> {dtc.role = #dtc.role<gradient, "w">}) attributes {dtc.runs = #dtc.runs<microbatch, forward|backward>} {
  // CHECK: exec.launch @square({{.*}}) {{.*}}exec.offsets = array<i64: [[A:.*]]>}
  %a = exec.launch @square(%x) extent 8 in_place [0] : (tensor<8x16xf32>) -> tensor<8x16xf32>
  // A temporary that dies is written over; a view lies where its operand does.
  // CHECK: exec.launch @square({{.*}}) {{.*}}exec.offsets = array<i64: [[A]]>}
  %b = exec.launch @square(%a) extent 8 in_place [0] : (tensor<8x16xf32>) -> tensor<8x16xf32>
  // CHECK: dtc.reshape {{.*}}exec.offsets = array<i64: [[A]]>}
  %c = dtc.reshape %b : tensor<8x16xf32> -> tensor<2x4x16xf32>
  %c1 = dtc.reshape %c : tensor<2x4x16xf32> -> tensor<8x16xf32>
  // The sum goes where the one before is.
  // CHECK: exec.launch @reduce({{.*}}) {{.*}}exec.offsets = array<i64: 768>, exec.scratch = array<i64: {{[0-9]*}}, 128>}
  %loss = exec.launch @reduce(%b, %t, %n, %l) extent 8 in_place [3] : (tensor<8x16xf32>, tensor<8xi32>, tensor<f32>, tensor<f32>) -> tensor<f32>
  // CHECK: exec.matmul {{.*}}exec.offsets = array<i64: [[D:.*]]>
  %d = exec.matmul %c1, %x batch [] mnk [4, 16, 8] strides [1, 16], [16, 1] -> [16, 1] offsets [0, 0] : tensor<8x16xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
  // CHECK: exec.launch @add({{.*}}) {{.*}}exec.offsets = array<i64: 512>}
  %sum = exec.launch @add(%g, %d) extent 64 in_place [0] : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  return %loss, %sum : tensor<f32>, tensor<4x16xf32>
}

// CHECK-LABEL: func.func @update
func.func @update(
    %p: tensor<4x16xf32> {dtc.role = #dtc.role<parameter, "w">},
    %m: tensor<4x16xf32> {dtc.role = #dtc.role<state, "w", momentum_buffer>},
    %g: tensor<4x16xf32> {dtc.role = #dtc.role<gradient, "w">},
    %l: tensor<f32> {dtc.role = #dtc.role<loss, "">},
    %lr: tensor<f64> {dtc.role = #dtc.role<scalar, "", lr>},
    %step: tensor<f64> {dtc.role = #dtc.role<scalar, "", step>},
    %n: tensor<f32> {dtc.role = #dtc.role<scalar, "", count>})
    -> (tensor<4x16xf32> {dtc.role = #dtc.role<parameter, "w">},
        tensor<4x16xf32> {dtc.role = #dtc.role<state, "w", momentum_buffer>},
        tensor<f32> {dtc.role = #dtc.role<loss, "">}) attributes {dtc.runs = #dtc.runs<step>} {
  // The next step clears the gradient: it may be summed up where it is.
  // CHECK: dist.all_reduce {{.*}} {exec.offsets = array<i64: 512>}
  %h = dist.all_reduce sum %g on @mesh {"dp"} : tensor<4x16xf32>
  // CHECK: exec.launch @sgd({{.*}}) {{.*}}exec.offsets = array<i64: 0, 256>}
  %0:2 = exec.launch @sgd(%p, %m, %h, %lr) extent 64 in_place [0, 1] : (tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>, tensor<f64>) -> (tensor<4x16xf32>, tensor<4x16xf32>)
  // The mean may not be written over the sum while that is read: it is copied there.
  // CHECK: exec.launch @mean
  %1 = exec.launch @mean(%l, %n) extent 1 in_place [-1] : (tensor<f32>, tensor<f32>) -> tensor<f32>
  // CHECK: exec.copy {{.*}} {exec.offsets = array<i64: 768>}
  return %0#0, %0#1, %1 : tensor<4x16xf32>, tensor<4x16xf32>, tensor<f32>
}

// CHECK: exec.schedule microbatches 2
// CHECK-NEXT: exec.call @prologue microbatch 0 slot 0
// CHECK-NEXT: exec.call @clear microbatch 0 slot 0
// CHECK-NEXT: exec.call @loss_and_grads microbatch 0 slot 0
// CHECK-NEXT: exec.call @loss_and_grads microbatch 1 slot 0
// CHECK-NEXT: exec.call @update microbatch 0 slot 0
