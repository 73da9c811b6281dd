// Products with the matrices of experts, against the interpreter: more than a tile in each direction, both orders of each
// operand, and choices that are no expert.
// REQUIRES: gpu
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels --test-run-cuda-kernels -o /dev/null
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels | FileCheck %s

// CHECK-LABEL: func.func @forward
// CHECK: exec.launch @products
func.func @forward(%x: tensor<2x3x150x72xbf16>, %w: tensor<3x136x72xbf16>, %p: tensor<2x3x4xf32>) -> tensor<2x3x150x136xbf16> {
  %k = dtc.top_k %p : tensor<2x3x4xf32> -> tensor<2x3x1xi64>
  %r = dtc.reshape %k : tensor<2x3x1xi64> -> tensor<2x3xi64>
  %1 = arith.constant dense<1> : tensor<2x3xi64>
  %c = arith.subi %r, %1 : tensor<2x3xi64>
  %0 = dtc.grouped_contract %x [0, 1, 2, 4], %w [5, 3, 4] -> [0, 1, 2, 3] by %c [0, 1] of 5 : tensor<2x3x150x72xbf16>, tensor<3x136x72xbf16>, tensor<2x3xi64> -> tensor<2x3x150x136xbf16>
  return %0 : tensor<2x3x150x136xbf16>
}

// CHECK-LABEL: func.func @turned
// CHECK: exec.launch @products
func.func @turned(%x: tensor<2x3x40x72xf16>, %w: tensor<3x72x136xf16>, %p: tensor<2x3x4xf32>) -> tensor<2x3x40x136xf32> {
  %k = dtc.top_k %p : tensor<2x3x4xf32> -> tensor<2x3x1xi64>
  %r = dtc.reshape %k : tensor<2x3x1xi64> -> tensor<2x3xi64>
  %1 = arith.constant dense<1> : tensor<2x3xi64>
  %c = arith.subi %r, %1 : tensor<2x3xi64>
  %0 = dtc.grouped_contract %x [0, 1, 2, 4], %w [5, 4, 3] -> [0, 1, 2, 3] by %c [0, 1] of 5 : tensor<2x3x40x72xf16>, tensor<3x72x136xf16>, tensor<2x3xi64> -> tensor<2x3x40x136xf32>
  return %0 : tensor<2x3x40x136xf32>
}

// Products of an expert are added up, in each part of them by itself.
// CHECK-LABEL: func.func @of_parts
// CHECK: exec.launch @products
func.func @of_parts(%x: tensor<2x3x40x72xbf16>, %y: tensor<2x3x40x136xbf16>, %p: tensor<2x3x4xf32>) -> tensor<3x3x136x72xf32> {
  %k = dtc.top_k %p : tensor<2x3x4xf32> -> tensor<2x3x1xi64>
  %r = dtc.reshape %k : tensor<2x3x1xi64> -> tensor<2x3xi64>
  %1 = arith.constant dense<1> : tensor<2x3xi64>
  %c = arith.subi %r, %1 : tensor<2x3xi64>
  %0 = dtc.grouped_contract %y [0, 1, 2, 3], %x [0, 1, 2, 4] -> [1, 5, 3, 4] by %c [0, 1] of 5 : tensor<2x3x40x136xbf16>, tensor<2x3x40x72xbf16>, tensor<2x3xi64> -> tensor<3x3x136x72xf32>
  return %0 : tensor<3x3x136x72xf32>
}

// More products than threads look at together.
// CHECK-LABEL: func.func @of_many
// CHECK: exec.launch @products
func.func @of_many(%x: tensor<300x8x16xbf16>, %y: tensor<300x8x24xbf16>, %p: tensor<300x4xf32>) -> tensor<3x24x16xbf16> {
  %k = dtc.top_k %p : tensor<300x4xf32> -> tensor<300x1xi64>
  %r = dtc.reshape %k : tensor<300x1xi64> -> tensor<3x100xi64>
  %0 = dtc.reshape %x : tensor<300x8x16xbf16> -> tensor<3x100x8x16xbf16>
  %1 = dtc.reshape %y : tensor<300x8x24xbf16> -> tensor<3x100x8x24xbf16>
  %2 = dtc.grouped_contract %0 [0, 1, 2, 4], %1 [0, 1, 2, 3] -> [5, 3, 4] by %r [0, 1] of 5 : tensor<3x100x8x16xbf16>, tensor<3x100x8x24xbf16>, tensor<3x100xi64> -> tensor<3x24x16xbf16>
  return %2 : tensor<3x24x16xbf16>
}

// Rows that choose one by one are read as they are, and so are those whose accesses wouldn't be whole.
// CHECK-LABEL: func.func @one_by_one
// CHECK-NOT: @products
// CHECK: return
func.func @one_by_one(%x: tensor<2x3x72xbf16>, %w: tensor<3x136x72xbf16>, %c: tensor<2x3xi64>) -> tensor<2x3x136xbf16> {
  %0 = dtc.grouped_contract %x [0, 1, 3], %w [4, 2, 3] -> [0, 1, 2] by %c [0, 1] of 4 : tensor<2x3x72xbf16>, tensor<3x136x72xbf16>, tensor<2x3xi64> -> tensor<2x3x136xbf16>
  return %0 : tensor<2x3x136xbf16>
}

// CHECK-LABEL: func.func @uneven
// CHECK-NOT: @products
// CHECK: return
func.func @uneven(%x: tensor<2x3x16x70xbf16>, %w: tensor<3x32x70xbf16>, %c: tensor<2x3xi64>) -> tensor<2x3x16x32xbf16> {
  %0 = dtc.grouped_contract %x [0, 1, 2, 4], %w [5, 3, 4] -> [0, 1, 2, 3] by %c [0, 1] of 5 : tensor<2x3x16x70xbf16>, tensor<3x32x70xbf16>, tensor<2x3xi64> -> tensor<2x3x16x32xbf16>
  return %0 : tensor<2x3x16x32xbf16>
}

// One tensor is both operands, and the kernel has it once.
// CHECK-LABEL: func.func @squared
// CHECK: exec.launch @products_{{[0-9]+}}(%arg0, %{{[0-9]+}}) extent
func.func @squared(%x: tensor<2x3x16x24xbf16>, %p: tensor<2x3x4xf32>) -> tensor<3x24x24xf32> {
  %k = dtc.top_k %p : tensor<2x3x4xf32> -> tensor<2x3x1xi64>
  %r = dtc.reshape %k : tensor<2x3x1xi64> -> tensor<2x3xi64>
  %0 = dtc.grouped_contract %x [0, 1, 2, 3], %x [0, 1, 2, 4] -> [5, 3, 4] by %r [0, 1] of 5 : tensor<2x3x16x24xbf16>, tensor<2x3x16x24xbf16>, tensor<2x3xi64> -> tensor<3x24x24xf32>
  return %0 : tensor<3x24x24xf32>
}

// Neither rows nor columns of the result lie side by side.
// CHECK-LABEL: func.func @turned_batch
// CHECK-NOT: @products
// CHECK: return
func.func @turned_batch(%x: tensor<2x3x16x24xbf16>, %w: tensor<3x32x24xbf16>, %c: tensor<2x3xi64>) -> tensor<2x16x32x3xbf16> {
  %0 = dtc.grouped_contract %x [0, 1, 2, 4], %w [5, 3, 4] -> [0, 2, 3, 1] by %c [0, 1] of 5 : tensor<2x3x16x24xbf16>, tensor<3x32x24xbf16>, tensor<2x3xi64> -> tensor<2x16x32x3xbf16>
  return %0 : tensor<2x16x32x3xbf16>
}
