// RUN: dtc-opt %s --dtc-start-collectives --test-exposed-collectives -o /dev/null | FileCheck %s

// The gather has one launch beside it, of 2 us and what moves. The sum has none: all of it is exposed.
// CHECK: {"collectives":[
// CHECK-SAME: {"axes":"dp","beside_s":2.0{{[0-9]*}}e-06,"bytes":512,"calls":1,"exposed_s":{{[0-9.e-]+}},"kind":"all_gather","seconds":{{[0-9.e-]+}}}
// CHECK-SAME: {"axes":"dp","beside_s":0,"bytes":256,"calls":1,"exposed_s":[[SUM:[0-9.e-]+]],"kind":"all_reduce","seconds":[[SUM]]}
// CHECK-SAME: "computing_s":6.0{{[0-9]*}}e-06,"step_s":{{[0-9.e-]+}}}
module {
  dist.mesh @mesh ["dp" = 2]

  exec.kernel @exp extent 64 scratch 0 flat {
  ^bb0(%a: tensor<64xf32>):
    %0 = math.exp %a : tensor<64xf32>
    exec.yield %0 : tensor<64xf32>
  }

  func.func @step(%x: tensor<64xf32> {dtc.role = #dtc.role<parameter, "x">})
      -> (tensor<64xf32> {dtc.role = #dtc.role<output, "y">})
      attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    %s = dist.all_gather %x dim 0 on @mesh {"dp"} : tensor<64xf32> -> tensor<128xf32>
    %b = exec.launch @exp(%x) extent 64 in_place [-1] : (tensor<64xf32>) -> tensor<64xf32>
    %h = dist.slice %s dim 0 on @mesh {"dp"} : tensor<128xf32> -> tensor<64xf32>
    %c = exec.launch @exp(%h) extent 64 in_place [-1] : (tensor<64xf32>) -> tensor<64xf32>
    %r = dist.all_reduce sum %c on @mesh {"dp"} : tensor<64xf32>
    %d = exec.launch @exp(%r) extent 64 in_place [-1] : (tensor<64xf32>) -> tensor<64xf32>
    return %d : tensor<64xf32>
  }

  exec.schedule microbatches 1 {
    exec.call @step microbatch 0 slot 0
  }
}
