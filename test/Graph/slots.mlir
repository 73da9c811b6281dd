// Rows that have slots with their experts: round trip, rules, what the ops compute, and all ranks against one.
// RUN: dtc-opt %s | dtc-opt | FileCheck %s
// RUN: dtc-opt %s -test-sharding-rule -o /dev/null 2>&1 | FileCheck %s --check-prefix=RULE
// RUN: dtc-opt %s -test-sharding-rule-numerics | FileCheck %s --check-prefix=RANKS
// RUN: dtc-opt %s -test-partition="isolate trials=20 int-bound=8" -o /dev/null
// RUN: dtc-opt %s -test-partition="isolate trials=20 int-bound=8 mesh=2,2,2 seed=7" -o /dev/null

// 4 experts in 2 parts, 8 rows of a sample in 2 sections, 4 slots for each part of a section.
// RANKS-LABEL: @layer({{.*}}test.shardings
// CHECK-LABEL: @layer
func.func @layer(%x: tensor<2x8x6xf32>, %i: tensor<2x8xi64>, %local: tensor<2x2x2x4xi64>, %w: tensor<2x2x10x6xf32>, %dy: tensor<2x2x2x4x10xf32>) -> tensor<2x8x10xf32> {
  // RULE{LITERAL}: ([a,(b c)])->([a,(b c)]) {a=2,b=2,c=4} whole{c}
  // CHECK: dtc.expert_slots %{{.*}} experts 4 sections 2 parts 2 capacity 4 : tensor<2x8xi64>
  %s = dtc.expert_slots %i experts 4 sections 2 parts 2 capacity 4 : tensor<2x8xi64>
  // RULE{LITERAL}: ([a,(b c),f],[a,(b c)])->([a,b,d,e,f]) {a=2,b=2,c=4,d=2,e=4,f=6} whole{c,e} linear{{0}}
  // CHECK: dtc.to_slots %{{.*}}, %{{.*}} : tensor<2x8x6xf32>, tensor<2x8xi64> -> tensor<2x2x2x4x6xf32>
  %0 = dtc.to_slots %x, %s : tensor<2x8x6xf32>, tensor<2x8xi64> -> tensor<2x2x2x4x6xf32>
  // RULE{LITERAL}: ([a,f,g,b,e],[g,c,d,e],[a,f,g,b])->([a,f,g,b,d]) {a=2,b=4,c=2,d=10,e=6,f=2,g=2} reduce{e} whole{c} linear{{0},{1}}
  %1 = dtc.grouped_contract %0 [0, 5, 6, 1, 4], %w [6, 2, 3, 4] -> [0, 5, 6, 1, 3] by %local [0, 5, 6, 1] of 2 : tensor<2x2x2x4x6xf32>, tensor<2x2x10x6xf32>, tensor<2x2x2x4xi64> -> tensor<2x2x2x4x10xf32>
  // The gradient of the weights.
  %2 = dtc.grouped_contract %dy [0, 5, 6, 1, 3], %0 [0, 5, 6, 1, 4] -> [6, 2, 3, 4] by %local [0, 5, 6, 1] of 2 : tensor<2x2x2x4x10xf32>, tensor<2x2x2x4x6xf32>, tensor<2x2x2x4xi64> -> tensor<2x2x10x6xf32>
  // RULE{LITERAL}: ([a,b,d,e,f],[a,(b c)])->([a,(b c),f]) {a=2,b=2,c=4,d=2,e=4,f=10} reduce{d} whole{c,e} linear{{0}}
  %3 = dtc.from_slots %1, %s : tensor<2x2x2x4x10xf32>, tensor<2x8xi64> -> tensor<2x8x10xf32>
  // Without sections, of integers.
  // RULE{LITERAL}: ([a,b],[a,b])->([a,c,d]) {a=2,b=8,c=2,d=8} whole{b,d}
  %4 = dtc.to_slots %i, %s : tensor<2x8xi64>, tensor<2x8xi64> -> tensor<2x2x8xi64>
  // RULE{LITERAL}: ([a,c,d],[a,b])->([a,b]) {a=2,b=8,c=2,d=8} reduce{c} whole{b,d} linear{{0}}
  %5 = dtc.from_slots %4, %s : tensor<2x2x8xi64>, tensor<2x8xi64> -> tensor<2x8xi64>
  return %3 : tensor<2x8x10xf32>
}

// The two rows of a token choose different parts, which have a slot for each token.
// RANKS-LABEL: @tokens({{.*}}test.shardings
// CHECK-LABEL: @tokens
func.func @tokens(%x: tensor<2x8x6xf32>, %i: tensor<2x8xi64>) -> tensor<2x8x6xf32> {
  // RULE{LITERAL}: ([a,(b c)])->([a,(b c)]) {a=2,b=2,c=4} whole{c}
  // CHECK: dtc.expert_slots %{{.*}} experts 4 sections 2 parts 4 capacity 2 apart 2 : tensor<2x8xi64>
  %s = dtc.expert_slots %i experts 4 sections 2 parts 4 capacity 2 apart 2 : tensor<2x8xi64>
  // RULE{LITERAL}: ([a,(b c),f],[a,(b c)])->([a,b,d,e,f]) {a=2,b=2,c=4,d=4,e=2,f=6} whole{c,e} linear{{0}}
  // CHECK: dtc.to_slots %{{.*}}, %{{.*}} apart 2 : tensor<2x8x6xf32>, tensor<2x8xi64> -> tensor<2x2x4x2x6xf32>
  %0 = dtc.to_slots %x, %s apart 2 : tensor<2x8x6xf32>, tensor<2x8xi64> -> tensor<2x2x4x2x6xf32>
  // RULE{LITERAL}: ([a,b,d,e,f],[a,(b c)])->([a,(b c),f]) {a=2,b=2,c=4,d=4,e=2,f=6} reduce{d} whole{c,e} linear{{0}}
  // CHECK: dtc.from_slots %{{.*}}, %{{.*}} apart 2 : tensor<2x2x4x2x6xf32>, tensor<2x8xi64> -> tensor<2x8x6xf32>
  %1 = dtc.from_slots %0, %s apart 2 : tensor<2x2x4x2x6xf32>, tensor<2x8xi64> -> tensor<2x8x6xf32>
  return %1 : tensor<2x8x6xf32>
}
