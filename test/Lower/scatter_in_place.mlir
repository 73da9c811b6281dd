// RUN: dtc-opt %s --dtc-sum-gradients-early --dtc-start-collectives --dtc-plan-memory=threads=1 --dtc-verify-schedule \
// RUN:   --split-input-file | FileCheck %s

// The rank's part of a gradient lies at the beginning of the gradient's place, from 256 on, where all of it is added up. So
// it does when it is summed over further ranks, of which nothing is computed before the first sum has arrived.
// CHECK-LABEL: func.func @loss_and_grads_last(
// CHECK-SAME: %arg1: tensor<8x4xf32> {{{.*}}exec.offsets = 256 : i64}
// CHECK: %[[G:.*]] = exec.launch @add(%arg0, %arg1) {{.*}} {exec.offsets = array<i64: 256>}
// CHECK-NEXT: %[[F:.*]] = dtc.reshape %[[G]] {exec.offsets = array<i64: 256>}
// CHECK-NEXT: %[[S:.*]] = dist.reduce_scatter sum %[[F]] {{.*}} {exec.offsets = array<i64: 256>, exec.queue = #exec.queue<collective>}
// CHECK-NEXT: %[[A:.*]] = dist.all_reduce sum %[[S]] on @mesh {"group"} {exec.offsets = array<i64: 256>, exec.queue = #exec.queue<collective>}
// CHECK-NEXT: exec.launch @add(%arg0, %arg2)
// CHECK-NEXT: %[[T:.*]] = exec.wait %[[A]] {exec.offsets = array<i64: 256>}
// CHECK-NEXT: return %[[T]]
// CHECK-LABEL: func.func @update(
// CHECK-SAME: %arg0: tensor<16xf32> {{{.*}}exec.offsets = 256 : i64
// CHECK-NEXT: exec.launch @spread
module {
  dist.mesh @mesh ["dp" = 2, "group" = 2]
  exec.kernel @add extent 8 scratch 0 {
  ^bb0(%a: tensor<8x4xf32>, %b: tensor<8x4xf32>):
    %0 = arith.addf %a, %b : tensor<8x4xf32>
    exec.yield %0 : tensor<8x4xf32>
  }
  exec.kernel @spread extent 8 scratch 0 {
  ^bb0(%p: tensor<16xf32>):
    %0 = dtc.reshape %p : tensor<16xf32> -> tensor<4x4xf32>
    %1 = dtc.concat 0(%0, %0) : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    exec.yield %1 : tensor<8x4xf32>
  }
  func.func @loss_and_grads(
      %w: tensor<8x4xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {}]>, dtc.role = #dtc.role<parameter, "w">},
      %g: tensor<8x4xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {}], sum = {"dp", "group"}>, dtc.role = #dtc.role<gradient, "w">},
      %b: tensor<8x4xf32> {dtc.role = #dtc.role<buffer, "b">})
      -> (tensor<8x4xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {}], sum = {"dp", "group"}>, dtc.role = #dtc.role<gradient, "w">},
          tensor<8x4xf32> {dtc.role = #dtc.role<buffer, "b">})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    %0 = exec.launch @add(%w, %g) extent 8 in_place [1] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %1 = exec.launch @add(%w, %b) extent 8 in_place [1] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
  }
  func.func @clear() -> (tensor<8x4xf32> {dtc.role = #dtc.role<gradient, "w">}) attributes {dtc.runs = #dtc.runs<step>} {
    %0 = exec.zero : tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
  func.func @update(%g: tensor<8x4xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {}], sum = {"dp", "group"}>, dtc.role = #dtc.role<gradient, "w">})
      -> (tensor<8x4xf32> {dtc.role = #dtc.role<parameter, "w">}) attributes {dist.local, dtc.runs = #dtc.runs<step>} {
    %flat = dtc.reshape %g : tensor<8x4xf32> -> tensor<32xf32>
    %part = dist.reduce_scatter sum %flat dim 0 on @mesh {"dp"} : tensor<32xf32> -> tensor<16xf32>
    %sum = dist.all_reduce sum %part on @mesh {"group"} : tensor<16xf32>
    %0 = exec.launch @spread(%sum) extent 8 in_place [-1] : (tensor<16xf32>) -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
  exec.schedule microbatches 2 {
    exec.call @clear microbatch 0 slot 0
    exec.call @loss_and_grads microbatch 0 slot 0
    exec.call @loss_and_grads microbatch 1 slot 0
    exec.call @update microbatch 0 slot 0
  }
}

// -----

// With one microbatch nothing is added up, and the place is that of the whole gradient. A gradient that each microbatch
// scatters has a place for its part alone.
// CHECK-LABEL: func.func @loss_and_grads(
// CHECK: %[[G:.*]] = exec.launch @square(%arg0) {{.*}} {exec.offsets = array<i64: 128>}
// CHECK-NEXT: dtc.reshape %[[G]] {exec.offsets = array<i64: 128>}
// CHECK-NEXT: dist.reduce_scatter {{.*}} {exec.offsets = array<i64: 128>, 
// CHECK: %[[H:.*]] = exec.launch @square(%arg0) {{.*}} {exec.offsets = array<i64: 320>}
// CHECK-NEXT: dtc.reshape %[[H]] {exec.offsets = array<i64: 320>}
// CHECK-NEXT: dist.reduce_scatter {{.*}} {exec.offsets = array<i64: 256>, 
module {
  dist.mesh @mesh ["dp" = 2]
  exec.kernel @square extent 8 scratch 0 {
  ^bb0(%a: tensor<8x4xf32>):
    %0 = arith.mulf %a, %a : tensor<8x4xf32>
    exec.yield %0 : tensor<8x4xf32>
  }
  exec.kernel @spread extent 8 scratch 0 {
  ^bb0(%p: tensor<16xf32>, %q: tensor<16xf32>):
    %0 = dtc.reshape %p : tensor<16xf32> -> tensor<4x4xf32>
    %1 = dtc.reshape %q : tensor<16xf32> -> tensor<4x4xf32>
    %2 = dtc.concat 0(%0, %1) : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    exec.yield %2 : tensor<8x4xf32>
  }
  func.func @loss_and_grads(
      %w: tensor<8x4xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {}]>, dtc.role = #dtc.role<parameter, "w">})
      -> (tensor<8x4xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "w">},
          tensor<16xf32> {dtc.role = #dtc.role<gradient, "v">})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    %0 = exec.launch @square(%w) extent 8 in_place [-1] : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %1 = exec.launch @square(%w) extent 8 in_place [-1] : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %flat = dtc.reshape %1 : tensor<8x4xf32> -> tensor<32xf32>
    %part = dist.reduce_scatter sum %flat dim 0 on @mesh {"dp"} : tensor<32xf32> -> tensor<16xf32>
    return %0, %part : tensor<8x4xf32>, tensor<16xf32>
  }
  func.func @update(
      %g: tensor<8x4xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "w">},
      %h: tensor<16xf32> {dtc.role = #dtc.role<gradient, "v">})
      -> (tensor<8x4xf32> {dtc.role = #dtc.role<parameter, "w">}) attributes {dist.local, dtc.runs = #dtc.runs<step>} {
    %flat = dtc.reshape %g : tensor<8x4xf32> -> tensor<32xf32>
    %part = dist.reduce_scatter sum %flat dim 0 on @mesh {"dp"} : tensor<32xf32> -> tensor<16xf32>
    %0 = exec.launch @spread(%part, %h) extent 8 in_place [-1] : (tensor<16xf32>, tensor<16xf32>) -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
  exec.schedule microbatches 1 {
    exec.call @loss_and_grads microbatch 0 slot 0
    exec.call @update microbatch 0 slot 0
  }
}

// -----

// Zeros are put behind a gradient in its place, where its part stays then..
// CHECK-LABEL: func.func @loss_and_grads_last(
// CHECK: %[[G:.*]] = exec.launch @add(%arg0, %arg1) {{.*}} {exec.offsets = array<i64: 192>}
// CHECK-NEXT: %[[F:.*]] = dtc.reshape %[[G]] {exec.offsets = array<i64: 192>}
// CHECK-NEXT: %[[P:.*]] = exec.launch @pad(%[[F]]) {{.*}} {exec.offsets = array<i64: 192>}
// CHECK-NEXT: %[[S:.*]] = dist.reduce_scatter sum %[[P]] {{.*}}exec.offsets = array<i64: 192>
// CHECK-LABEL: func.func @update(
// CHECK-SAME: %arg0: tensor<17xf32> {{{.*}}exec.offsets = 192 : i64
module {
  dist.mesh @mesh ["dp" = 2]
  exec.kernel @add extent 11 scratch 0 {
  ^bb0(%a: tensor<11x3xf32>, %b: tensor<11x3xf32>):
    %0 = arith.addf %a, %b : tensor<11x3xf32>
    exec.yield %0 : tensor<11x3xf32>
  }
  exec.kernel @pad extent 34 scratch 0 {
  ^bb0(%g: tensor<33xf32>):
    %0 = dtc.pad %g low [0] interior [0] value 0.0 : tensor<33xf32> -> tensor<34xf32>
    exec.yield %0 : tensor<34xf32>
  }
  exec.kernel @spread extent 11 scratch 0 {
  ^bb0(%p: tensor<17xf32>):
    %0 = dtc.concat 0(%p, %p) : tensor<17xf32>, tensor<17xf32> -> tensor<34xf32>
    %1 = dtc.slice %0 offsets [0] strides [1] : tensor<34xf32> -> tensor<33xf32>
    %2 = dtc.reshape %1 : tensor<33xf32> -> tensor<11x3xf32>
    exec.yield %2 : tensor<11x3xf32>
  }
  func.func @loss_and_grads(
      %w: tensor<11x3xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {}]>, dtc.role = #dtc.role<parameter, "w">},
      %g: tensor<11x3xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "w">})
      -> (tensor<11x3xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "w">})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    %0 = exec.launch @add(%w, %g) extent 11 in_place [1] : (tensor<11x3xf32>, tensor<11x3xf32>) -> tensor<11x3xf32>
    return %0 : tensor<11x3xf32>
  }
  func.func @clear() -> (tensor<11x3xf32> {dtc.role = #dtc.role<gradient, "w">}) attributes {dtc.runs = #dtc.runs<step>} {
    %0 = exec.zero : tensor<11x3xf32>
    return %0 : tensor<11x3xf32>
  }
  func.func @update(%g: tensor<11x3xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "w">})
      -> (tensor<11x3xf32> {dtc.role = #dtc.role<parameter, "w">}) attributes {dist.local, dtc.runs = #dtc.runs<step>} {
    %flat = dtc.reshape %g : tensor<11x3xf32> -> tensor<33xf32>
    %padded = exec.launch @pad(%flat) extent 34 in_place [0] : (tensor<33xf32>) -> tensor<34xf32>
    %part = dist.reduce_scatter sum %padded dim 0 on @mesh {"dp"} : tensor<34xf32> -> tensor<17xf32>
    %0 = exec.launch @spread(%part) extent 11 in_place [-1] : (tensor<17xf32>) -> tensor<11x3xf32>
    return %0 : tensor<11x3xf32>
  }
  exec.schedule microbatches 2 {
    exec.call @clear microbatch 0 slot 0
    exec.call @loss_and_grads microbatch 0 slot 0
    exec.call @loss_and_grads microbatch 1 slot 0
    exec.call @update microbatch 0 slot 0
  }
}
