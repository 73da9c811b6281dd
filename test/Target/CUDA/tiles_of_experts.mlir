// Products of whole tiles of 128 and of 64 rows, forward and back to rows and to weights, by both orders of the weights: what
// test_registers.py assembles.
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels --test-emit-ptx -o /dev/null | FileCheck %s
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32

func.func @forward(%x: tensor<2x20x128x1024xbf16>, %w: tensor<8x3584x1024xbf16>, %c: tensor<2x20xi64>) -> tensor<2x20x128x3584xbf16> {
  %0 = dtc.grouped_contract %x [0, 1, 2, 4], %w [5, 3, 4] -> [0, 1, 2, 3] by %c [0, 1] of 5 : tensor<2x20x128x1024xbf16>, tensor<8x3584x1024xbf16>, tensor<2x20xi64> -> tensor<2x20x128x3584xbf16>
  return %0 : tensor<2x20x128x3584xbf16>
}

func.func @turned(%x: tensor<2x20x128x3584xbf16>, %w: tensor<8x3584x1024xbf16>, %c: tensor<2x20xi64>) -> tensor<2x20x128x1024xbf16> {
  %0 = dtc.grouped_contract %x [0, 1, 2, 4], %w [5, 4, 3] -> [0, 1, 2, 3] by %c [0, 1] of 5 : tensor<2x20x128x3584xbf16>, tensor<8x3584x1024xbf16>, tensor<2x20xi64> -> tensor<2x20x128x1024xbf16>
  return %0 : tensor<2x20x128x1024xbf16>
}

func.func @weights(%y: tensor<2x20x128x3584xbf16>, %x: tensor<2x20x128x1024xbf16>, %c: tensor<2x20xi64>) -> tensor<8x3584x1024xf32> {
  %0 = dtc.grouped_contract %y [0, 1, 2, 3], %x [0, 1, 2, 4] -> [5, 3, 4] by %c [0, 1] of 5 : tensor<2x20x128x3584xbf16>, tensor<2x20x128x1024xbf16>, tensor<2x20xi64> -> tensor<8x3584x1024xf32>
  return %0 : tensor<8x3584x1024xf32>
}

func.func @forward_of_64(%x: tensor<2x1x40x64x1024xf16>, %w: tensor<8x1024x3584xf16>, %c: tensor<2x1x40xi64>) -> tensor<2x1x40x64x3584xf16> {
  %0 = dtc.grouped_contract %x [0, 6, 1, 2, 4], %w [5, 4, 3] -> [0, 6, 1, 2, 3] by %c [0, 6, 1] of 5 : tensor<2x1x40x64x1024xf16>, tensor<8x1024x3584xf16>, tensor<2x1x40xi64> -> tensor<2x1x40x64x3584xf16>
  return %0 : tensor<2x1x40x64x3584xf16>
}

func.func @weights_of_parts(%y: tensor<2x2x20x64x3584xf16>, %x: tensor<2x2x20x64x1024xf16>, %c: tensor<2x2x20xi64>) -> tensor<2x4x1024x3584xf16> {
  %0 = dtc.grouped_contract %y [0, 6, 1, 2, 3], %x [0, 6, 1, 2, 4] -> [6, 5, 4, 3] by %c [0, 6, 1] of 5 : tensor<2x2x20x64x3584xf16>, tensor<2x2x20x64x1024xf16>, tensor<2x2x20xi64> -> tensor<2x4x1024x3584xf16>
  return %0 : tensor<2x4x1024x3584xf16>
}
