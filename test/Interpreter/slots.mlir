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
