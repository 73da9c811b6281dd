// RUN: dtc-opt %s --pass-pipeline="builtin.module(builtin.module(dtc-plan-memory,dtc-verify-schedule))" --verify-roundtrip | FileCheck %s

// Two roles. Places of the inbox, the outbox and of what is kept follow the step's own: as many
// as calls name. What is kept on the host has an arena of its own.

module {
  // CHECK: exec.ranks = array<i32: 0, 1>
  module @first attributes {exec.ranks = array<i32: 0, 1>} {
    dist.mesh @mesh ["dp" = 2]
    exec.kernel @exp extent 16 scratch 0 flat {
    ^bb0(%a: tensor<16xf32>):
      %0 = math.exp %a : tensor<16xf32>
      exec.yield %0 : tensor<16xf32>
    }
    // x at 0 (4 microbatches), outbox from 256 on.
    // CHECK-LABEL: func.func @forward
    // CHECK-SAME: exec.offsets = 0
    func.func @forward(%x: tensor<16xf32> {dtc.role = #dtc.role<input, "x">})
        -> (tensor<16xf32> {dtc.role = #dtc.role<outbox, "a">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
      // CHECK: exec.launch {{.*}} {exec.offsets = array<i64: 256>}
      %a = exec.launch @exp(%x) extent 16 in_place [0] : (tensor<16xf32>) -> tensor<16xf32>
      // CHECK: exec.send {{.*}} to [2, 3] channel 0 {{{.*}}exec.queue = #exec.queue<send>} : tensor<16xf32>
      exec.send %a to [2, 3] channel 0 {exec.queue = #exec.queue<send>} : tensor<16xf32>
      return %a : tensor<16xf32>
    }
    // CHECK: exec.call @forward microbatch 1 slot 0 outbox 1
    exec.schedule microbatches 4 {
      exec.call @forward microbatch 0 slot 0
      exec.call @forward microbatch 1 slot 0 outbox 1
      exec.call @forward microbatch 2 slot 0
      exec.call @forward microbatch 3 slot 0 outbox 1
    }
  }

  // CHECK: exec.host_bytes = 64 : i64
  // CHECK-SAME: exec.ranks = array<i32: 2, 3>
  module @second attributes {exec.ranks = array<i32: 2, 3>} {
    dist.mesh @mesh ["dp" = 2]
    exec.kernel @exp extent 16 scratch 0 flat {
    ^bb0(%a: tensor<16xf32>):
      %0 = math.exp %a : tensor<16xf32>
      exec.yield %0 : tensor<16xf32>
    }
    // CHECK-LABEL: func.func @receive
    func.func @receive() -> (tensor<16xf32> {dtc.role = #dtc.role<inbox, "a">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
      // CHECK: exec.receive from [0, 1] channel 0 {exec.offsets = array<i64: [[IN:[0-9]+]]>, exec.queue = #exec.queue<receive>} : tensor<16xf32>
      %a = exec.receive from [0, 1] channel 0 {exec.queue = #exec.queue<receive>} : tensor<16xf32>
      return %a : tensor<16xf32>
    }
    // CHECK-LABEL: func.func @forward
    // CHECK-SAME: exec.offsets = [[IN]]
    func.func @forward(%a: tensor<16xf32> {dtc.role = #dtc.role<inbox, "a">})
        -> (tensor<16xf32> {dtc.role = #dtc.role<output, "y">}, tensor<16xf32> {dtc.role = #dtc.role<kept, "k">, exec.space = #exec.space<host>})
        attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
      %b = exec.wait %a : tensor<16xf32>
      %y = exec.launch @exp(%b) extent 16 in_place [-1] : (tensor<16xf32>) -> tensor<16xf32>
      // CHECK: exec.copy {{.*}} to_host {exec.offsets = array<i64: 0>, exec.queue = #exec.queue<copy>}
      %k = exec.copy %b to_host {exec.queue = #exec.queue<copy>} : tensor<16xf32>
      %w = exec.wait %k : tensor<16xf32>
      return %y, %w : tensor<16xf32>, tensor<16xf32>
    }
    // CHECK: exec.call @receive microbatch 1 slot 0 inbox 1
    exec.schedule microbatches 4 {
      exec.call @receive microbatch 0 slot 0
      exec.call @receive microbatch 1 slot 0 inbox 1
      exec.call @forward microbatch 0 slot 0
      exec.call @receive microbatch 2 slot 0
      exec.call @forward microbatch 1 slot 0 inbox 1
      exec.call @receive microbatch 3 slot 0 inbox 1
      exec.call @forward microbatch 2 slot 0
      exec.call @forward microbatch 3 slot 0 inbox 1
    }
  }
}
