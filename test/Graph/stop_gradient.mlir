// Round trip, rule, and all ranks against one.
// RUN: dtc-opt %s --verify-roundtrip -o /dev/null
// RUN: dtc-opt %s -verify-diagnostics | FileCheck %s
// RUN: dtc-opt %s -test-sharding-rule -o /dev/null 2>&1 | FileCheck %s --check-prefix=RULE
// RUN: dtc-opt %s -test-sharding-rule-numerics | FileCheck %s --check-prefix=RANKS

// CHECK-LABEL: @stop
// RANKS-LABEL: @stop({{.*}}test.shardings
func.func @stop(%x: tensor<4x8xf32>) {
  // RULE{LITERAL}: ([a,b])->([a,b]) {a=4,b=8}
  // CHECK: dtc.stop_gradient %{{.*}} : tensor<4x8xf32>
  %0 = dtc.stop_gradient %x : tensor<4x8xf32>
  return
}
