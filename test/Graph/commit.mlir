// What an update writes unless the step has faults: round trip, rule, and all ranks against one.
// RUN: dtc-opt %s -verify-diagnostics | FileCheck %s
// RUN: dtc-opt %s --verify-roundtrip -o /dev/null
// RUN: dtc-opt %s -test-sharding-rule -o /dev/null 2>&1 | FileCheck %s --check-prefix=RULE
// RUN: dtc-opt %s -test-sharding-rule-numerics | FileCheck %s --check-prefix=RANKS

// CHECK-LABEL: @commit
// RANKS-LABEL: @commit({{.*}}test.shardings
func.func @commit(%fresh: tensor<4x8xf32>, %old: tensor<4x8xf32>, %faults: tensor<f32>, %n: tensor<f32>) {
  // RULE{LITERAL}: ([a,b],[a,b],[])->([a,b]) {a=4,b=8}
  // CHECK: dtc.commit %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<f32>
  %0 = dtc.commit %fresh, %old, %faults : tensor<4x8xf32>, tensor<f32>
  // RULE{LITERAL}: ([],[],[])->([])
  %1 = dtc.commit %n, %n, %faults : tensor<f32>, tensor<f32>
  return
}
