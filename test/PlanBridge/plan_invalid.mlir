// RUN: not dtc-opt "--dtc-plan=devices=4 plan=dp=3" %s 2>&1 | FileCheck %s --check-prefix=DEGREES
// RUN: not dtc-opt "--dtc-plan=devices=4 plan=dpp=2" %s 2>&1 | FileCheck %s --check-prefix=KEY
// RUN: not dtc-opt "--dtc-plan=devices=4 plan=pp=2" %s 2>&1 | FileCheck %s --check-prefix=STAGES
// RUN: not dtc-opt "--dtc-plan=devices=8 plan=dp=8" %s 2>&1 | FileCheck %s --check-prefix=BATCH
// RUN: not dtc-opt "--dtc-plan=devices=2 cluster=dgx" %s 2>&1 | FileCheck %s --check-prefix=CLUSTER

// DEGREES: error: plan: dp = 3 doesn't divide the number of devices: 4
// KEY: error: plan: unknown key: dpp (did you mean dp?)
// STAGES: error: no plan for 4 devices: the forward pass has 1 ops, too few for as many stages: 2
// BATCH: error: no plan for 8 devices: dp doesn't divide the batch of 4: 8
// CLUSTER: error: unknown cluster: dgx
module {
  func.func @forward(%x: tensor<4x8xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4x8xf32> {dtc.role = #dtc.role<output, "y">}) {
    %0 = math.tanh %x : tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}
