// RUN: dtc-opt %s --dtc-bring-from-host | FileCheck %s
// RUN: dtc-opt %s --dtc-bring-from-host --dtc-start-collectives --dtc-plan-memory --dtc-verify-schedule | FileCheck %s --check-prefix=MEMORY
// RUN: dtc-opt %s --dtc-bring-from-host --dtc-plan-memory | sed 's|array<i64: 4096>|array<i64: 4160>|' | not dtc-opt --dtc-verify-schedule 2>&1 | FileCheck %s --check-prefix=MOVED

module {
  dist.mesh @mesh ["dp" = 1]

  exec.kernel @move extent 1024 scratch 0 flat {
  ^bb0(%p: tensor<1024xf32>, %m: tensor<1024xf32>):
    %0 = arith.addf %p, %m : tensor<1024xf32>
    %1 = arith.mulf %p, %m : tensor<1024xf32>
    exec.yield %0, %1 : tensor<1024xf32>, tensor<1024xf32>
  }

  // A part arrives while the one before it is updated. What is on the device is copied beside it.
  // CHECK-LABEL: func.func @update
  // CHECK: %[[FLAT:.*]] = dtc.reshape %arg1 : tensor<64x64xf32> -> tensor<4096xf32>
  // CHECK: %[[A:.*]] = dtc.slice %[[FLAT]] offsets [0]
  // CHECK: %[[INA:.*]] = exec.copy %[[A]] {exec.queue = #exec.queue<copy>} : tensor<1024xf32>
  // CHECK-NEXT: %[[AT:.*]] = exec.wait %[[INA]]
  // CHECK-NEXT: %[[INB:.*]] = exec.copy {{.*}} {exec.queue = #exec.queue<copy>}
  // CHECK-NEXT: %[[PA:.*]] = dtc.slice %arg0 offsets [0] strides [1] {exec.part}
  // CHECK-NEXT: %[[PAT:.*]] = exec.copy %[[PA]] : tensor<1024xf32>
  // CHECK-NEXT: %[[NEW:.*]]:2 = exec.launch @move(%[[PAT]], %[[AT]])
  // CHECK-NEXT: %[[P0:.*]] = exec.copy %[[NEW]]#0 : tensor<1024xf32>
  // CHECK-NEXT: %[[OUTA:.*]] = exec.copy %[[NEW]]#1 to_host {exec.queue = #exec.queue<copy>}
  // CHECK-NEXT: exec.wait %[[INB]]
  // CHECK: %[[P:.*]] = dtc.concat 0(%[[P0]], {{.*}}) {exec.part}
  // CHECK-NEXT: %[[M0:.*]] = exec.wait %[[OUTA]]
  // CHECK: %[[M:.*]] = dtc.concat 0(%[[M0]], {{.*}}) {exec.part}
  // CHECK-NEXT: %[[SQUARE:.*]] = dtc.reshape %[[M]]
  // CHECK-NEXT: return %[[P]], %[[SQUARE]]

  // Parts lie in the places of the whole, on either side. Beside the parameter the device has three
  // parts of the state, and a part of the parameter.
  // MEMORY: exec.arena_bytes = 32768 : i64
  // MEMORY-SAME: exec.host_bytes = 16384 : i64
  // MEMORY: exec.copy {{.*}} {exec.offsets = array<i64: 4096>} : tensor<1024xf32>
  // MEMORY: exec.copy {{.*}} to_host {exec.offsets = array<i64: 4096>, exec.queue
  // MEMORY: dtc.concat 0{{.*}} {exec.offsets = array<i64: 0>, exec.part}

  // MOVED: {{has a part that doesn't lie behind the one before it|is not where its operand is}}
  func.func @update(
      %p: tensor<4096xf32> {dtc.role = #dtc.role<parameter, "a">},
      %m: tensor<64x64xf32> {dtc.role = #dtc.role<state, "a", exp_avg>, dist.on_host})
      -> (tensor<4096xf32> {dtc.role = #dtc.role<parameter, "a">},
          tensor<64x64xf32> {dtc.role = #dtc.role<state, "a", exp_avg>, dist.on_host})
      attributes {dtc.runs = #dtc.runs<step>} {
    %flat = dtc.reshape %m : tensor<64x64xf32> -> tensor<4096xf32>
    %p0 = dtc.slice %p offsets [0] strides [1] {exec.part} : tensor<4096xf32> -> tensor<1024xf32>
    %p1 = dtc.slice %p offsets [1024] strides [1] {exec.part} : tensor<4096xf32> -> tensor<1024xf32>
    %p2 = dtc.slice %p offsets [2048] strides [1] {exec.part} : tensor<4096xf32> -> tensor<1024xf32>
    %p3 = dtc.slice %p offsets [3072] strides [1] {exec.part} : tensor<4096xf32> -> tensor<1024xf32>
    %m0 = dtc.slice %flat offsets [0] strides [1] {exec.part} : tensor<4096xf32> -> tensor<1024xf32>
    %m1 = dtc.slice %flat offsets [1024] strides [1] {exec.part} : tensor<4096xf32> -> tensor<1024xf32>
    %m2 = dtc.slice %flat offsets [2048] strides [1] {exec.part} : tensor<4096xf32> -> tensor<1024xf32>
    %m3 = dtc.slice %flat offsets [3072] strides [1] {exec.part} : tensor<4096xf32> -> tensor<1024xf32>
    %0:2 = exec.launch @move(%p0, %m0) extent 1024 in_place [0, 1] : (tensor<1024xf32>, tensor<1024xf32>) -> (tensor<1024xf32>, tensor<1024xf32>)
    %1:2 = exec.launch @move(%p1, %m1) extent 1024 in_place [0, 1] : (tensor<1024xf32>, tensor<1024xf32>) -> (tensor<1024xf32>, tensor<1024xf32>)
    %2:2 = exec.launch @move(%p2, %m2) extent 1024 in_place [0, 1] : (tensor<1024xf32>, tensor<1024xf32>) -> (tensor<1024xf32>, tensor<1024xf32>)
    %3:2 = exec.launch @move(%p3, %m3) extent 1024 in_place [0, 1] : (tensor<1024xf32>, tensor<1024xf32>) -> (tensor<1024xf32>, tensor<1024xf32>)
    %new = dtc.concat 0 (%0#0, %1#0, %2#0, %3#0) {exec.part} : tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32> -> tensor<4096xf32>
    %moved = dtc.concat 0 (%0#1, %1#1, %2#1, %3#1) {exec.part} : tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32> -> tensor<4096xf32>
    %square = dtc.reshape %moved : tensor<4096xf32> -> tensor<64x64xf32>
    return %new, %square : tensor<4096xf32>, tensor<64x64xf32>
  }

  exec.schedule microbatches 1 {
    exec.call @update microbatch 0 slot 0
  }
}
