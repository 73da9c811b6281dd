// What slots rows have, small enough to check by hand: 2 sections of 4 rows, 2 parts of 2 experts, 2 slots each. Rows 2 and 5
// choose no expert, and row 3 finds part 0 full. Slots that no row has are 0, or -1 of integers.
// RUN: dtc-opt %s -split-input-file -dtc-interpret -o /dev/null | FileCheck %s

// CHECK: result 0: tensor<1x8xi64> {{\[\[}}0, 1, -1, -1, 2, -1, 0, 3]]
// CHECK: result 1: tensor<1x2x2x2xf32> {{\[\[\[\[}}1, 2], [0, 0]], {{\[\[}}7, 0], [5, 8]]]]
// CHECK: result 2: tensor<1x2x2x2xi64> {{\[\[\[\[}}0, 1], [-1, -1]], {{\[\[}}0, -1], [3, 2]]]]
// CHECK: result 3: tensor<1x8xf32> {{\[\[}}1, 2, 0, 0, 5, 0, 7, 8]]
func.func @main() -> (tensor<1x8xi64>, tensor<1x2x2x2xf32>, tensor<1x2x2x2xi64>, tensor<1x8xf32>) {
  %i = arith.constant dense<[[0, 1, 7, 1, 3, -1, 0, 2]]> : tensor<1x8xi64>
  %x = arith.constant dense<[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]]> : tensor<1x8xf32>
  %s = dtc.expert_slots %i experts 4 sections 2 parts 2 capacity 2 : tensor<1x8xi64>
  %0 = dtc.to_slots %x, %s : tensor<1x8xf32>, tensor<1x8xi64> -> tensor<1x2x2x2xf32>
  %1 = dtc.to_slots %i, %s : tensor<1x8xi64>, tensor<1x8xi64> -> tensor<1x2x2x2xi64>
  %2 = dtc.from_slots %0, %s : tensor<1x2x2x2xf32>, tensor<1x8xi64> -> tensor<1x8xf32>
  return %s, %0, %1, %2 : tensor<1x8xi64>, tensor<1x2x2x2xf32>, tensor<1x2x2x2xi64>, tensor<1x8xf32>
}

// -----

// Two rows of a token choose different parts: each has its token's slot of its part. Row 3 chooses no expert.
// CHECK: result 0: tensor<1x8xi64> {{\[\[}}2, 0, 3, -1, 0, 2, 1, 3]]
// CHECK: result 1: tensor<1x2x2x2xf32> {{\[\[\[\[}}2, 0], [1, 3]], {{\[\[}}5, 7], [6, 8]]]]
// CHECK: result 2: tensor<1x2x2x2xi64> {{\[\[\[\[}}0, -1], [1, 1]], {{\[\[}}0, 0], [1, 1]]]]
// CHECK: result 3: tensor<1x8xf32> {{\[\[}}1, 2, 3, 0, 5, 6, 7, 8]]
func.func @main() -> (tensor<1x8xi64>, tensor<1x2x2x2xf32>, tensor<1x2x2x2xi64>, tensor<1x8xf32>) {
  %i = arith.constant dense<[[1, 0, 1, 2, 0, 1, 0, 1]]> : tensor<1x8xi64>
  %x = arith.constant dense<[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]]> : tensor<1x8xf32>
  %s = dtc.expert_slots %i experts 2 sections 2 parts 2 capacity 2 apart 2 : tensor<1x8xi64>
  %0 = dtc.to_slots %x, %s apart 2 : tensor<1x8xf32>, tensor<1x8xi64> -> tensor<1x2x2x2xf32>
  %1 = dtc.to_slots %i, %s apart 2 : tensor<1x8xi64>, tensor<1x8xi64> -> tensor<1x2x2x2xi64>
  %2 = dtc.from_slots %0, %s apart 2 : tensor<1x2x2x2xf32>, tensor<1x8xi64> -> tensor<1x8xf32>
  return %s, %0, %1, %2 : tensor<1x8xi64>, tensor<1x2x2x2xf32>, tensor<1x2x2x2xi64>, tensor<1x8xf32>
}

// -----

// Tiles of 2: of part 0 expert 0 has rows 0, 3 and 6, and so two tiles of its three, and expert 1 has row 1. Expert 3 has the
// first tile of part 1, as nobody chose expert 2. Row 5 chooses no expert.
// CHECK: result 0: tensor<1x8xi64> {{\[\[}}0, 4, 6, 1, 7, -1, 2, 8]]
// CHECK: result 1: tensor<1x2x6xf32> {{\[\[\[}}1, 4, 7, 0, 2, 0], [3, 5, 8, 0, 0, 0]]]
// CHECK: result 2: tensor<1x2x3xi64> {{\[\[\[}}0, 0, 1], [3, 3, -1]]]
// CHECK: result 3: tensor<1x8xf32> {{\[\[}}1, 2, 3, 4, 5, 0, 7, 8]]
func.func @main() -> (tensor<1x8xi64>, tensor<1x2x6xf32>, tensor<1x2x3xi64>, tensor<1x8xf32>) {
  %i = arith.constant dense<[[0, 1, 3, 0, 3, 4, 0, 3]]> : tensor<1x8xi64>
  %x = arith.constant dense<[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]]> : tensor<1x8xf32>
  %s = dtc.expert_slots %i experts 4 sections 1 parts 2 capacity 6 tile 2 : tensor<1x8xi64>
  %0 = dtc.to_slots %x, %s tile 2 : tensor<1x8xf32>, tensor<1x8xi64> -> tensor<1x2x6xf32>
  %1 = dtc.to_slots %i, %s tile 2 : tensor<1x8xi64>, tensor<1x8xi64> -> tensor<1x2x6xi64>
  %2 = dtc.slice %1 offsets [0, 0, 0] strides [1, 1, 2] : tensor<1x2x6xi64> -> tensor<1x2x3xi64>
  %3 = dtc.from_slots %0, %s tile 2 : tensor<1x2x6xf32>, tensor<1x8xi64> -> tensor<1x8xf32>
  return %s, %0, %2, %3 : tensor<1x8xi64>, tensor<1x2x6xf32>, tensor<1x2x3xi64>, tensor<1x8xf32>
}

// -----

// Rows of several chunks: row i chooses expert i mod 4, behind i / 4 earlier ones, in tiles and in slots of parts.
// CHECK: result 0: tensor<1xi64> [0]
// CHECK: result 1: tensor<1xi64> [0]
func.func @main() -> (tensor<1xi64>, tensor<1xi64>) {
  %i = dtc.iota 1 : tensor<1x512xi64>
  %4 = arith.constant dense<4> : tensor<1x512xi64>
  %q = arith.divsi %i, %4 : tensor<1x512xi64>
  %m = arith.muli %q, %4 : tensor<1x512xi64>
  %c = arith.subi %i, %m : tensor<1x512xi64>
  %each = arith.constant dense<128> : tensor<1x512xi64>
  %first = arith.muli %c, %each : tensor<1x512xi64>
  %expected = arith.addi %first, %q : tensor<1x512xi64>
  %s = dtc.expert_slots %c experts 4 sections 1 parts 1 capacity 536 tile 8 : tensor<1x512xi64>
  %t = dtc.expert_slots %c experts 4 sections 1 parts 4 capacity 128 : tensor<1x512xi64>
  %ns = arith.cmpi ne, %s, %expected : tensor<1x512xi64>
  %nt = arith.cmpi ne, %t, %expected : tensor<1x512xi64>
  %ws = arith.extui %ns : tensor<1x512xi1> to tensor<1x512xi64>
  %wt = arith.extui %nt : tensor<1x512xi1> to tensor<1x512xi64>
  %0 = dtc.reduce sum %ws [1] : tensor<1x512xi64> -> tensor<1xi64>
  %1 = dtc.reduce sum %wt [1] : tensor<1x512xi64> -> tensor<1xi64>
  return %0, %1 : tensor<1xi64>, tensor<1xi64>
}
