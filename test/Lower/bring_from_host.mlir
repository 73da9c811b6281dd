// RUN: dtc-opt %s --dtc-bring-from-host | FileCheck %s
// RUN: dtc-opt %s --dtc-bring-from-host --dtc-start-collectives --dtc-plan-memory --dtc-verify-schedule | FileCheck %s --check-prefix=MEMORY

module {
  dist.mesh @mesh ["dp" = 1]

  exec.kernel @move extent 1024 scratch 0 flat {
  ^bb0(%p: tensor<1024xf32>, %m: tensor<1024xf32>):
    %0 = arith.addf %p, %m : tensor<1024xf32>
    %1 = arith.mulf %p, %m : tensor<1024xf32>
    exec.yield %0, %1 : tensor<1024xf32>, tensor<1024xf32>
  }

  // While one parameter is updated, the next one's state arrives, and the last one's leaves. The
  // last state is read by nothing but the return: it stays where it is.
  // CHECK-LABEL: func.func @update
  // CHECK-SAME: %[[MA:[^:]*]]: tensor<1024xf32> {dtc.role = #dtc.role<state, "a", exp_avg>, exec.space = #exec.space<host>}
  // CHECK-NOT: dist.on_host
  // CHECK: %[[A:.*]] = exec.copy %[[MA]] {exec.queue = #exec.queue<copy>}
  // CHECK-NEXT: %[[AT:.*]] = exec.wait %[[A]]
  // CHECK-NEXT: %[[B:.*]] = exec.copy {{.*}} {exec.queue = #exec.queue<copy>}
  // CHECK-NEXT: %[[NEWA:.*]]:2 = exec.launch @move({{.*}}, %[[AT]])
  // CHECK-NEXT: %[[OUTA:.*]] = exec.copy %[[NEWA]]#1 to_host {exec.queue = #exec.queue<copy>}
  // CHECK-NEXT: %[[BT:.*]] = exec.wait %[[B]]
  // CHECK-NEXT: %[[VIEW:.*]] = dtc.reshape %[[BT]]
  // CHECK-NEXT: %[[C:.*]] = exec.copy {{.*}} {exec.queue = #exec.queue<copy>}
  // CHECK-NEXT: exec.launch @move({{.*}}, %[[VIEW]])
  // CHECK: exec.copy {{.*}} to_host
  // CHECK-NEXT: %[[CT:.*]] = exec.wait %[[C]]
  // CHECK-NEXT: exec.launch @move({{.*}}, %[[CT]])
  // CHECK: exec.wait %[[OUTA]]
  // CHECK: return {{.*}} %arg6 :

  // On the device are three parameters and three states at a time, on the host four states.
  // MEMORY: exec.arena_bytes = 24576 : i64
  // MEMORY-SAME: exec.host_bytes = 16384 : i64
  func.func @update(
      %a: tensor<1024xf32> {dtc.role = #dtc.role<parameter, "a">},
      %b: tensor<1024xf32> {dtc.role = #dtc.role<parameter, "b">},
      %c: tensor<1024xf32> {dtc.role = #dtc.role<parameter, "c">},
      %ma: tensor<1024xf32> {dtc.role = #dtc.role<state, "a", exp_avg>, dist.on_host},
      %mb: tensor<32x32xf32> {dtc.role = #dtc.role<state, "b", exp_avg>, dist.on_host},
      %mc: tensor<1024xf32> {dtc.role = #dtc.role<state, "c", exp_avg>, dist.on_host},
      %md: tensor<1024xf32> {dtc.role = #dtc.role<state, "d", exp_avg>, dist.on_host})
      -> (tensor<1024xf32> {dtc.role = #dtc.role<parameter, "a">},
          tensor<1024xf32> {dtc.role = #dtc.role<parameter, "b">},
          tensor<1024xf32> {dtc.role = #dtc.role<parameter, "c">},
          tensor<1024xf32> {dtc.role = #dtc.role<state, "a", exp_avg>, dist.on_host},
          tensor<32x32xf32> {dtc.role = #dtc.role<state, "b", exp_avg>, dist.on_host},
          tensor<1024xf32> {dtc.role = #dtc.role<state, "c", exp_avg>, dist.on_host},
          tensor<1024xf32> {dtc.role = #dtc.role<state, "d", exp_avg>, dist.on_host})
      attributes {dtc.runs = #dtc.runs<step>} {
    %flat = dtc.reshape %mb : tensor<32x32xf32> -> tensor<1024xf32>
    %0:2 = exec.launch @move(%a, %ma) extent 1024 in_place [0, 1] : (tensor<1024xf32>, tensor<1024xf32>) -> (tensor<1024xf32>, tensor<1024xf32>)
    %1:2 = exec.launch @move(%b, %flat) extent 1024 in_place [0, 1] : (tensor<1024xf32>, tensor<1024xf32>) -> (tensor<1024xf32>, tensor<1024xf32>)
    %square = dtc.reshape %1#1 : tensor<1024xf32> -> tensor<32x32xf32>
    %2:2 = exec.launch @move(%c, %mc) extent 1024 in_place [0, 1] : (tensor<1024xf32>, tensor<1024xf32>) -> (tensor<1024xf32>, tensor<1024xf32>)
    return %0#0, %1#0, %2#0, %0#1, %square, %2#1, %md : tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<32x32xf32>, tensor<1024xf32>, tensor<1024xf32>
  }

  exec.schedule microbatches 1 {
    exec.call @update microbatch 0 slot 0
  }
}
