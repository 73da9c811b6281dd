// RUN: dtc-opt %s --dtc-start-collectives --split-input-file | FileCheck %s
// RUN: dtc-opt %s --dtc-start-collectives --dtc-plan-memory --dtc-verify-schedule --split-input-file \
// RUN:   -o /dev/null

module {
  dist.mesh @mesh ["dp" = 2]

  exec.kernel @exp extent 64 scratch 0 flat {
  ^bb0(%a: tensor<64xf32>):
    %0 = math.exp %a : tensor<64xf32>
    exec.yield %0 : tensor<64xf32>
  }

  // Views of what is gathered come behind the wait, which stands before the first reader. The
  // second collective has nothing beside it, but shares the group with the first.
  // CHECK-LABEL: func.func @ahead
  func.func @ahead(%x: tensor<64xf32> {dtc.role = #dtc.role<parameter, "x">})
      -> (tensor<64xf32> {dtc.role = #dtc.role<output, "y">})
      attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    // CHECK: %[[ALL:.*]] = dist.all_gather %arg0 {{.*}}exec.queue = #exec.queue<collective>
    // CHECK-NEXT: exec.launch @exp(%arg0)
    %s = dist.all_gather %x dim 0 on @mesh {"dp"} : tensor<64xf32> -> tensor<128xf32>
    %v = dtc.reshape %s : tensor<128xf32> -> tensor<2x64xf32>
    %b = exec.launch @exp(%x) extent 64 in_place [-1] : (tensor<64xf32>) -> tensor<64xf32>
    // CHECK-NEXT: %[[THERE:.*]] = exec.wait %[[ALL]]
    // CHECK-NEXT: %[[VIEW:.*]] = dtc.reshape %[[THERE]]
    // CHECK-NEXT: dist.slice %[[VIEW]]
    %h = dist.slice %v dim 0 on @mesh {"dp"} : tensor<2x64xf32> -> tensor<1x64xf32>
    %f = dtc.reshape %h : tensor<1x64xf32> -> tensor<64xf32>
    %c = exec.launch @exp(%b) extent 64 in_place [-1] : (tensor<64xf32>) -> tensor<64xf32>
    // CHECK: %[[SUM:.*]] = dist.all_reduce {{.*}}exec.queue = #exec.queue<collective>
    // CHECK-NEXT: %[[TOTAL:.*]] = exec.wait %[[SUM]]
    // CHECK-NEXT: exec.launch @exp(%[[TOTAL]])
    %r = dist.all_reduce sum %c on @mesh {"dp"} : tensor<64xf32>
    %d = exec.launch @exp(%r) extent 64 in_place [-1] : (tensor<64xf32>) -> tensor<64xf32>
    return %d : tensor<64xf32>
  }

  // Nothing is computed meanwhile: nothing is started.
  // CHECK-LABEL: func.func @alone
  func.func @alone(%x: tensor<64xf32> {dtc.role = #dtc.role<parameter, "x">})
      -> (tensor<64xf32> {dtc.role = #dtc.role<output, "z">})
      attributes {dtc.runs = #dtc.runs<microbatch, backward>} {
    // CHECK-NOT: exec.queue
    // CHECK-NOT: exec.wait
    %b = exec.launch @exp(%x) extent 64 in_place [-1] : (tensor<64xf32>) -> tensor<64xf32>
    %r = dist.all_reduce sum %b on @mesh {"dp"} : tensor<64xf32>
    %d = exec.launch @exp(%r) extent 64 in_place [-1] : (tensor<64xf32>) -> tensor<64xf32>
    return %d : tensor<64xf32>
  }

  exec.schedule microbatches 1 {
    exec.call @ahead microbatch 0 slot 0
    exec.call @alone microbatch 0 slot 0
  }
}

// -----

// What is scattered is waited for where a later sum along another axis is. A sum that reads another one waits for nothing
// but that.
module {
  dist.mesh @mesh ["dp" = 2, "tp" = 2]

  exec.kernel @exp extent 64 scratch 0 flat {
  ^bb0(%a: tensor<64xf32>):
    %0 = math.exp %a : tensor<64xf32>
    exec.yield %0 : tensor<64xf32>
  }

  // CHECK-LABEL: func.func @scattered
  func.func @scattered(%x: tensor<64xf32> {dtc.role = #dtc.role<parameter, "x">})
      -> (tensor<64xf32> {dtc.role = #dtc.role<output, "y">}, tensor<64xf32> {dtc.role = #dtc.role<output, "z">})
      attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    // CHECK: %[[PART:.*]] = dist.reduce_scatter
    // CHECK: %[[SUM:.*]] = dist.all_reduce
    // CHECK-NEXT: %[[TOTAL:.*]] = exec.wait %[[SUM]]
    // CHECK-NEXT: %[[THERE:.*]] = exec.wait %[[PART]]
    // CHECK-NEXT: exec.launch @exp(%[[TOTAL]])
    // CHECK-NEXT: %[[VIEW:.*]] = dtc.reshape %[[THERE]]
    // CHECK-NEXT: %[[ALL:.*]] = dist.all_gather %[[VIEW]]
    // CHECK-NEXT: %[[MOST:.*]] = dist.all_reduce sum %[[ALL]] on @mesh {"tp"}
    // CHECK-NEXT: exec.launch
    // CHECK-NEXT: %[[LAST:.*]] = exec.wait %[[MOST]]
    // CHECK-NEXT: return %{{.*}}, %[[LAST]]
    %s = dist.reduce_scatter sum %x dim 0 on @mesh {"dp"} : tensor<64xf32> -> tensor<32xf32>
    %b = exec.launch @exp(%x) extent 64 in_place [-1] : (tensor<64xf32>) -> tensor<64xf32>
    %r = dist.all_reduce sum %b on @mesh {"tp"} : tensor<64xf32>
    %c = exec.launch @exp(%r) extent 64 in_place [-1] : (tensor<64xf32>) -> tensor<64xf32>
    %v = dtc.reshape %s : tensor<32xf32> -> tensor<32xf32>
    %p = dist.all_gather %v dim 0 on @mesh {"dp"} : tensor<32xf32> -> tensor<64xf32>
    %q = dist.all_reduce sum %p on @mesh {"tp"} : tensor<64xf32>
    %d = exec.launch @exp(%c) extent 64 in_place [-1] : (tensor<64xf32>) -> tensor<64xf32>
    return %d, %q : tensor<64xf32>, tensor<64xf32>
  }

  exec.schedule microbatches 1 {
    exec.call @scattered microbatch 0 slot 0
  }
}
