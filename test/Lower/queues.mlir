// RUN: dtc-opt %s --dtc-plan-memory --dtc-verify-schedule | FileCheck %s
// RUN: dtc-opt %s --verify-roundtrip -o /dev/null

// What was started on another queue keeps its operands' and results' buffers until it is done.

module {
  dist.mesh @mesh ["dp" = 2]

  exec.kernel @exp extent 64 scratch 0 flat {
  ^bb0(%a: tensor<64xf32>):
    %0 = math.exp %a : tensor<64xf32>
    exec.yield %0 : tensor<64xf32>
  }

  // Without queues the second launch writes over what the first made; an all-reduce reads it
  // here until the wait, so another place is taken.
  // CHECK-LABEL: func.func @reduced
  func.func @reduced(%x: tensor<64xf32> {dtc.role = #dtc.role<parameter, "x">})
      -> (tensor<64xf32> {dtc.role = #dtc.role<output, "y">}, tensor<64xf32> {dtc.role = #dtc.role<output, "z">})
      attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    // CHECK: %[[V:.*]] = exec.launch @exp({{.*}}exec.offsets = array<i64: [[A:[0-9]+]]>
    %a = exec.launch @exp(%x) extent 64 in_place [-1] : (tensor<64xf32>) -> tensor<64xf32>
    // CHECK: dist.all_gather %[[V]] {{.*}}exec.queue = #exec.queue<collective>
    %s = dist.all_gather %a dim 0 on @mesh {"dp"} {exec.queue = #exec.queue<collective>} : tensor<64xf32> -> tensor<128xf32>
    // CHECK-NOT: exec.launch {{.*}}exec.offsets = array<i64: [[A]]>
    %b = exec.launch @exp(%x) extent 64 in_place [-1] : (tensor<64xf32>) -> tensor<64xf32>
    %c = exec.launch @exp(%b) extent 64 in_place [-1] : (tensor<64xf32>) -> tensor<64xf32>
    %d = exec.launch @exp(%c) extent 64 in_place [-1] : (tensor<64xf32>) -> tensor<64xf32>
    // CHECK: exec.wait {{.*}} : tensor<128xf32>
    %t = exec.wait %s : tensor<128xf32>
    // Now it is free.
    // CHECK: exec.launch @exp({{.*}}exec.offsets = array<i64: [[A]]>
    %e = exec.launch @exp(%d) extent 64 in_place [-1] : (tensor<64xf32>) -> tensor<64xf32>
    %h = dist.slice %t dim 0 on @mesh {"dp"} : tensor<128xf32> -> tensor<64xf32>
    %f = exec.launch @exp(%e) extent 64 in_place [-1] : (tensor<64xf32>) -> tensor<64xf32>
    return %h, %f : tensor<64xf32>, tensor<64xf32>
  }

  exec.schedule microbatches 1 {
    exec.call @reduced microbatch 0 slot 0
  }
}
