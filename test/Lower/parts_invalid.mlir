// RUN: dtc-opt %s -split-input-file -verify-diagnostics
// RUN: not dtc-opt --dtc-cut-offloaded=part-bytes=0 /dev/null 2>&1 | FileCheck %s
// CHECK: a part must have some bytes, got: 0

func.func @value(%x: tensor<8xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{exec.part takes no value, got: 1}}
  %0 = dtc.slice %x offsets [4] strides [1] {exec.part = 1 : i64} : tensor<8xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @op(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{is neither a slice nor a concat, so that it can't have exec.part}}
  %0 = arith.addf %x, %x {exec.part} : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @dimensions(%x: tensor<8x2xf32>) -> tensor<4x2xf32> {
  // expected-error @+1 {{has exec.part, but operands of several dimensions}}
  %0 = dtc.slice %x offsets [4, 0] strides [1, 1] {exec.part} : tensor<8x2xf32> -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

// -----

func.func @stride(%x: tensor<8xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has exec.part, but a stride}}
  %0 = dtc.slice %x offsets [0] strides [2] {exec.part} : tensor<8xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @twice(%x: tensor<8xf32>) -> tensor<16xf32> {
  // expected-error @+1 {{has exec.part, but the same operand twice: 0}}
  %0 = dtc.concat 0 (%x, %x) {exec.part} : tensor<8xf32>, tensor<8xf32> -> tensor<16xf32>
  return %0 : tensor<16xf32>
}
