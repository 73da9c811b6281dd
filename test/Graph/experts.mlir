// Ops of mixtures of experts: round trip, their rules where experts may be shared out (4 experts, 8 rows of a sample:
// 4 parts), and what they compute on one device.
// RUN: dtc-opt %s | dtc-opt | FileCheck %s
// RUN: dtc-opt %s -test-sharding-rule -o /dev/null 2>&1 | FileCheck %s --check-prefix=RULE

// CHECK-LABEL: @layer
func.func @layer(%x: tensor<2x8x6xf32>, %i: tensor<2x8xi64>, %w: tensor<4x10x6xf32>) -> tensor<2x8x10xf32> {
  // RULE{LITERAL}: ([a,b,e],[a,b])->([a,(c d),e]) {a=2,b=8,c=4,d=2,e=6} whole{b,d} linear{{0}}
  // CHECK: dtc.dispatch %{{.*}}, %{{.*}} experts 4 : tensor<2x8x6xf32>, tensor<2x8xi64>
  %0 = dtc.dispatch %x, %i experts 4 : tensor<2x8x6xf32>, tensor<2x8xi64>
  // RULE{LITERAL}: ([a,b],[a,b])->([a,(c d)]) {a=2,b=8,c=4,d=2} whole{b,d} linear{{0}}
  %1 = dtc.dispatch %i, %i experts 4 : tensor<2x8xi64>, tensor<2x8xi64>
  // RULE{LITERAL}: ([b,(a c),e],[a,d,e],[b,(a c)])->([b,(a c),d]) {a=4,b=2,c=2,d=10,e=6} reduce{e} linear{{0},{1}}
  // CHECK: dtc.grouped_contract %{{.*}} [0, 1, 4], %{{.*}} [2, 3, 4] -> [0, 1, 3] by %{{.*}} [0, 1] of 2 : tensor<2x8x6xf32>, tensor<4x10x6xf32>, tensor<2x8xi64> -> tensor<2x8x10xf32>
  %2 = dtc.grouped_contract %0 [0, 1, 4], %w [2, 3, 4] -> [0, 1, 3] by %1 [0, 1] of 2 : tensor<2x8x6xf32>, tensor<4x10x6xf32>, tensor<2x8xi64> -> tensor<2x8x10xf32>
  // RULE{LITERAL}: ([b,(a c),d],[b,(a c),e],[b,(a c)])->([a,d,e]) {a=4,b=2,c=2,d=10,e=6} reduce{b,c} linear{{0},{1}}
  %3 = dtc.grouped_contract %2 [0, 1, 3], %0 [0, 1, 4] -> [2, 3, 4] by %1 [0, 1] of 2 : tensor<2x8x10xf32>, tensor<2x8x6xf32>, tensor<2x8xi64> -> tensor<4x10x6xf32>
  // RULE{LITERAL}: ([a,(c d),e],[a,b])->([a,b,e]) {a=2,b=8,c=4,d=2,e=10} whole{b,d} linear{{0}}
  // CHECK: dtc.combine %{{.*}}, %{{.*}} experts 4 : tensor<2x8x10xf32>, tensor<2x8xi64>
  %4 = dtc.combine %2, %i experts 4 : tensor<2x8x10xf32>, tensor<2x8xi64>
  return %4 : tensor<2x8x10xf32>
}

// 6 experts and 4 rows: 2 parts of 3 experts and 2 rows.
// CHECK-LABEL: @uneven
func.func @uneven(%x: tensor<2x4x6xf32>, %i: tensor<2x4xi64>, %w: tensor<6x10x6xf32>) -> tensor<2x4x10xf32> {
  // RULE{LITERAL}: ([b,(a c),f],[(a d),e,f],[b,(a c)])->([b,(a c),e]) {a=2,b=2,c=2,d=3,e=10,f=6} reduce{f} whole{d} linear{{0},{1}}
  %0 = dtc.grouped_contract %x [0, 1, 4], %w [2, 3, 4] -> [0, 1, 3] by %i [0, 1] of 2 : tensor<2x4x6xf32>, tensor<6x10x6xf32>, tensor<2x4xi64> -> tensor<2x4x10xf32>
  return %0 : tensor<2x4x10xf32>
}
