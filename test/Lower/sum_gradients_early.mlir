// RUN: dtc-opt %s --dtc-sum-gradients-early --split-input-file | FileCheck %s

// There are four calls, of 128 KiB or more where gradients are left for the others: %w and %b, %d, %e, and %f. What
// the update computes with before it sums it (%c) stays there, as does the loss. The last of two microbatches has a
// function of its own, which says so.
// CHECK-LABEL: func.func @loss_and_grads(
// CHECK-NOT: all_reduce
// CHECK: return
// CHECK-LABEL: func.func @loss_and_grads_last(
// CHECK-SAME: -> (tensor<f32> {{.*}}, tensor<16384xf32> {dist.sharding = #dist.sharding<@mesh, [{}]>, dtc.role = #dtc.role<gradient, "w">}
// CHECK: %[[W:.*]] = arith.addf %arg1
// CHECK-NEXT: %[[B:.*]] = arith.addf %arg2
// CHECK-NEXT: %[[S:.*]]:2 = dist.all_reduce sum %[[W]], %[[B]] on @mesh {"dp"}
// CHECK-NEXT: %[[C:.*]] = arith.addf %arg3
// CHECK-NEXT: %[[D:.*]] = arith.addf %arg4
// CHECK-NEXT: %[[T:.*]] = dist.all_reduce sum %[[D]] on @mesh {"dp"}
// CHECK-NEXT: %[[E:.*]] = arith.addf %arg5
// CHECK-NEXT: %[[U:.*]] = dist.all_reduce sum %[[E]] on @mesh {"dp"}
// CHECK-NEXT: %[[F:.*]] = arith.addf %arg6
// CHECK-NEXT: %[[V:.*]] = dist.all_reduce sum %[[F]] on @mesh {"dp"}
// CHECK-NEXT: return %arg0, %[[S]]#0, %[[S]]#1, %[[C]], %[[T]], %[[U]], %[[V]]
// CHECK-LABEL: func.func @update(
// CHECK-SAME: %[[L:[^:]*]]: tensor<f32> {dist.sharding = #dist.sharding<@mesh, [], sum = {"dp"}>
// CHECK-SAME: %[[GW:[^:]*]]: tensor<16384xf32> {dist.sharding = #dist.sharding<@mesh, [{}]>, dtc.role = #dtc.role<gradient, "w">}
// CHECK-SAME: %[[GB:[^:]*]]: tensor<16384xf32> {dist.sharding = #dist.sharding<@mesh, [{}]>, dtc.role = #dtc.role<gradient, "b">}
// CHECK-SAME: %[[GC:[^:]*]]: tensor<32768xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>
// CHECK: %[[TWICE:.*]] = arith.addf %[[GC]], %[[GC]]
// CHECK: %[[REST:.*]]:2 = dist.all_reduce sum %[[L]], %[[TWICE]] on @mesh {"dp"}
// CHECK: return %[[GW]], %[[GB]], %[[REST]]#1, %{{.*}}, %{{.*}}, %{{.*}}, %[[REST]]#0
// CHECK: exec.schedule microbatches 2 {
// CHECK-NEXT: exec.call @loss_and_grads microbatch 0
// CHECK-NEXT: exec.call @loss_and_grads_last microbatch 1
// CHECK-NEXT: exec.call @update

module {
  dist.mesh @mesh ["dp" = 2]
  func.func @loss_and_grads(
      %l: tensor<f32> {dist.sharding = #dist.sharding<@mesh, [], sum = {"dp"}>, dtc.role = #dtc.role<loss, "">},
      %w: tensor<16384xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "w">},
      %b: tensor<16384xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "b">},
      %c: tensor<32768xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "c">},
      %d: tensor<65536xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "d">},
      %e: tensor<16384xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "e">},
      %f: tensor<16384xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "f">})
      -> (tensor<f32> {dist.sharding = #dist.sharding<@mesh, [], sum = {"dp"}>, dtc.role = #dtc.role<loss, "">},
          tensor<16384xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "w">},
          tensor<16384xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "b">},
          tensor<32768xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "c">},
          tensor<65536xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "d">},
          tensor<16384xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "e">},
          tensor<16384xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "f">})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    %0 = arith.addf %w, %w : tensor<16384xf32>
    %1 = arith.addf %b, %b : tensor<16384xf32>
    %2 = arith.addf %c, %c : tensor<32768xf32>
    %3 = arith.addf %d, %d : tensor<65536xf32>
    %4 = arith.addf %e, %e : tensor<16384xf32>
    %5 = arith.addf %f, %f : tensor<16384xf32>
    return %l, %0, %1, %2, %3, %4, %5 : tensor<f32>, tensor<16384xf32>, tensor<16384xf32>, tensor<32768xf32>, tensor<65536xf32>, tensor<16384xf32>, tensor<16384xf32>
  }
  func.func @update(
      %l: tensor<f32> {dist.sharding = #dist.sharding<@mesh, [], sum = {"dp"}>, dtc.role = #dtc.role<loss, "">},
      %w: tensor<16384xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "w">},
      %b: tensor<16384xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "b">},
      %c: tensor<32768xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "c">},
      %d: tensor<65536xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "d">},
      %e: tensor<16384xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "e">},
      %f: tensor<16384xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "f">})
      -> (tensor<16384xf32>, tensor<16384xf32>, tensor<32768xf32>, tensor<65536xf32>, tensor<16384xf32>, tensor<16384xf32>, tensor<f32>) attributes {dist.local, dtc.runs = #dtc.runs<step>} {
    %twice = arith.addf %c, %c : tensor<32768xf32>
    %0:7 = dist.all_reduce sum %w, %l, %b, %twice, %d, %e, %f on @mesh {"dp"} : tensor<16384xf32>, tensor<f32>, tensor<16384xf32>, tensor<32768xf32>, tensor<65536xf32>, tensor<16384xf32>, tensor<16384xf32>
    return %0#0, %0#2, %0#3, %0#4, %0#5, %0#6, %0#1 : tensor<16384xf32>, tensor<16384xf32>, tensor<32768xf32>, tensor<65536xf32>, tensor<16384xf32>, tensor<16384xf32>, tensor<f32>
  }
  exec.schedule microbatches 2 {
    exec.call @loss_and_grads microbatch 0 slot 0
    exec.call @loss_and_grads microbatch 1 slot 0
    exec.call @update microbatch 0 slot 0
  }
}

// -----

// One microbatch needs no second function.
// CHECK-LABEL: func.func @loss_and_grads(
// CHECK: %[[G:.*]] = math.exp
// CHECK-NEXT: %[[S:.*]] = dist.all_reduce sum %[[G]]
// CHECK-NEXT: return %[[S]]
// CHECK-NOT: _last
// CHECK-LABEL: func.func @update(
// CHECK-NEXT: return %arg0
module {
  dist.mesh @mesh ["dp" = 2]
  func.func @loss_and_grads(%x: tensor<8xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<8xf32> {dtc.role = #dtc.role<gradient, "w">})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    %0 = math.exp %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func @update(%w: tensor<8xf32> {dtc.role = #dtc.role<gradient, "w">}) -> tensor<8xf32>
      attributes {dist.local, dtc.runs = #dtc.runs<step>} {
    %0 = dist.all_reduce sum %w on @mesh {"dp"} : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  exec.schedule microbatches 1 {
    exec.call @loss_and_grads microbatch 0 slot 0
    exec.call @update microbatch 0 slot 0
  }
}

// -----

// What the update scatters is scattered there, too: flattened, in calls of their own, of 25 MB and more. A part stays at the
// beginning of its gradient's place. What is read as a whole (%v) stays in the update.
// CHECK-LABEL: func.func @loss_and_grads(
// CHECK-NOT: reduce_scatter
// CHECK-LABEL: func.func @loss_and_grads_last(
// CHECK-SAME: %arg0: tensor<4096x2048xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"tp"}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "u">}
// CHECK-SAME: -> (tensor<4194304xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp", "dp"}]>, dtc.role = #dtc.role<gradient, "u">, exec.room = tensor<4096x2048xf32, #dist.sharding<@mesh, [{}, {"tp"}], sum = {"dp"}>>}
// CHECK: %[[U:.*]] = arith.addf %arg0
// CHECK-NEXT: %[[FU:.*]] = dtc.reshape %[[U]] : tensor<4096x2048xf32> -> tensor<8388608xf32>
// CHECK-NEXT: %[[SU:.*]] = dist.reduce_scatter sum %[[FU]] dim 0 on @mesh {"dp"} : tensor<8388608xf32> -> tensor<4194304xf32>
// CHECK-NEXT: %[[V:.*]] = arith.addf %arg1
// CHECK-NEXT: %[[W:.*]] = arith.addf %arg2
// CHECK-NEXT: %[[SW:.*]] = dist.reduce_scatter sum %[[W]] dim 0 on @mesh {"dp"} : tensor<8388608xf32> -> tensor<4194304xf32>
// CHECK-NEXT: return %[[SU]], %[[V]], %[[SW]]
// CHECK-LABEL: func.func @update(
// CHECK-SAME: %[[GU:[^:]*]]: tensor<4194304xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp", "dp"}]>, dtc.role = #dtc.role<gradient, "u">, exec.room = tensor<4096x2048xf32, #dist.sharding<@mesh, [{}, {"tp"}], sum = {"dp"}>>}
// CHECK-SAME: %[[GV:[^:]*]]: tensor<8388608xf32>
// CHECK-SAME: %[[GW:[^:]*]]: tensor<4194304xf32>
// CHECK-NEXT: %[[SV:.*]] = dist.reduce_scatter sum %[[GV]] dim 0 on @mesh {"dp"} : tensor<8388608xf32> -> tensor<4194304xf32>
// CHECK-NEXT: return %[[GU]], %[[SV]], %[[GW]], %[[GV]]
module {
  dist.mesh @mesh ["dp" = 2, "tp" = 2]
  func.func @loss_and_grads(
      %u: tensor<4096x2048xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"tp"}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "u">},
      %v: tensor<8388608xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "v">},
      %w: tensor<8388608xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "w">})
      -> (tensor<4096x2048xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"tp"}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "u">},
          tensor<8388608xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "v">},
          tensor<8388608xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "w">})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    %0 = arith.addf %u, %u : tensor<4096x2048xf32>
    %1 = arith.addf %v, %v : tensor<8388608xf32>
    %2 = arith.addf %w, %w : tensor<8388608xf32>
    return %0, %1, %2 : tensor<4096x2048xf32>, tensor<8388608xf32>, tensor<8388608xf32>
  }
  func.func @update(
      %u: tensor<4096x2048xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"tp"}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "u">},
      %v: tensor<8388608xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "v">},
      %w: tensor<8388608xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "w">})
      -> (tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<8388608xf32>) attributes {dist.local, dtc.runs = #dtc.runs<step>} {
    %flat = dtc.reshape %u : tensor<4096x2048xf32> -> tensor<8388608xf32>
    %0:3 = dist.reduce_scatter sum %v, %flat, %w dim 0 on @mesh {"dp"} : tensor<8388608xf32>, tensor<8388608xf32>, tensor<8388608xf32> -> tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>
    return %0#1, %0#0, %0#2, %v : tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>, tensor<8388608xf32>
  }
  exec.schedule microbatches 2 {
    exec.call @loss_and_grads microbatch 0 slot 0
    exec.call @loss_and_grads microbatch 1 slot 0
    exec.call @update microbatch 0 slot 0
  }
}

// -----

// What is padded is padded there, too, in the gradient's own place, which has room for the zeros in every function.
// CHECK-LABEL: func.func @loss_and_grads(
// CHECK-SAME: %arg0: tensor<3x5xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"tp"}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "u">, exec.room = tensor<16xf32, #dist.sharding<@mesh, [{"tp"}], sum = {"dp"}>>}
// CHECK-SAME: -> (tensor<3x5xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"tp"}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "u">, exec.room = tensor<16xf32, #dist.sharding<@mesh, [{"tp"}], sum = {"dp"}>>}
// CHECK-NOT: reduce_scatter
// CHECK-LABEL: func.func @loss_and_grads_last(
// CHECK-SAME: -> (tensor<8xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp", "dp"}]>, dtc.role = #dtc.role<gradient, "u">, exec.room = tensor<16xf32, #dist.sharding<@mesh, [{"tp"}], sum = {"dp"}>>}
// CHECK: %[[U:.*]] = arith.addf %arg0
// CHECK-NEXT: %[[FU:.*]] = dtc.reshape %[[U]] : tensor<3x5xf32> -> tensor<15xf32>
// CHECK-NEXT: %[[PU:.*]] = exec.launch @pad(%[[FU]]) {{.*}} : (tensor<15xf32>) -> tensor<16xf32>
// CHECK-NEXT: %[[SU:.*]] = dist.reduce_scatter sum %[[PU]] dim 0 on @mesh {"dp"} : tensor<16xf32> -> tensor<8xf32>
// CHECK-NEXT: return %[[SU]]
// CHECK-LABEL: func.func @clear(
// CHECK-SAME: exec.room = tensor<16xf32
// CHECK-LABEL: func.func @update(
// CHECK-SAME: %[[GU:[^:]*]]: tensor<8xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp", "dp"}]>, dtc.role = #dtc.role<gradient, "u">, exec.room = tensor<16xf32
// CHECK-NEXT: return %[[GU]]
module {
  dist.mesh @mesh ["dp" = 2, "tp" = 2]
  exec.kernel @pad extent 16 scratch 0 {
  ^bb0(%g: tensor<15xf32>):
    %0 = dtc.pad %g low [0] interior [0] value 0.0 : tensor<15xf32> -> tensor<16xf32>
    exec.yield %0 : tensor<16xf32>
  }
  func.func @loss_and_grads(
      %u: tensor<3x5xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"tp"}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "u">})
      -> (tensor<3x5xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"tp"}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "u">})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    %0 = arith.addf %u, %u : tensor<3x5xf32>
    return %0 : tensor<3x5xf32>
  }
  func.func @clear() -> (tensor<3x5xf32> {dtc.role = #dtc.role<gradient, "u">}) attributes {dtc.runs = #dtc.runs<step>} {
    %0 = exec.zero : tensor<3x5xf32>
    return %0 : tensor<3x5xf32>
  }
  func.func @update(
      %u: tensor<3x5xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"tp"}], sum = {"dp"}>, dtc.role = #dtc.role<gradient, "u">})
      -> tensor<8xf32> attributes {dist.local, dtc.runs = #dtc.runs<step>} {
    %flat = dtc.reshape %u : tensor<3x5xf32> -> tensor<15xf32>
    %padded = exec.launch @pad(%flat) extent 16 in_place [0] : (tensor<15xf32>) -> tensor<16xf32>
    %0 = dist.reduce_scatter sum %padded dim 0 on @mesh {"dp"} : tensor<16xf32> -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  exec.schedule microbatches 2 {
    exec.call @clear microbatch 0 slot 0
    exec.call @loss_and_grads microbatch 0 slot 0
    exec.call @loss_and_grads microbatch 1 slot 0
    exec.call @update microbatch 0 slot 0
  }
}
