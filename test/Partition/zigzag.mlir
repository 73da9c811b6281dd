// Parts in zig-zag: ranks compute what one computes, whichever factors the axis splits, alone, with
// another axis behind or in front of it, and beside one.
// RUN: dtc-opt %s -test-partition="trials=0 given" | FileCheck %s

// CHECK: test.partitions = {{[0-9][0-9][0-9]}}

dist.mesh @mesh ["cp" = 2, "tp" = 2] {dist.zigzag = #dist.axes<{"cp"}>}

// Positions, masks, drawn numbers, and whatever is put together along dimensions.
func.func @block(%x: tensor<4x8x8xf32>, %table: tensor<8x8xf32>, %wq: tensor<8x4x4xf32>,
                 %wk: tensor<8x4x4xf32>, %wo: tensor<4x4x8xf32>,
                 %keys: tensor<4xi64>) -> (tensor<4x8x8xf32>, tensor<8x8xf32>) {
  %i = dtc.iota 1 : tensor<4x8x8xf32>
  %p = arith.mulf %x, %i : tensor<4x8x8xf32>
  %b = dtc.broadcast %table [1, 2] : tensor<8x8xf32> -> tensor<4x8x8xf32>
  %n = arith.addf %p, %b : tensor<4x8x8xf32>
  %q = dtc.contract %n [0, 1, 2], %wq [2, 3, 4] -> [0, 1, 3, 4] : tensor<4x8x8xf32>, tensor<8x4x4xf32> -> tensor<4x8x4x4xf32>
  %k = dtc.contract %n [0, 1, 2], %wk [2, 3, 4] -> [0, 1, 3, 4] : tensor<4x8x8xf32>, tensor<8x4x4xf32> -> tensor<4x8x4x4xf32>
  %a, %lse = dtc.attention %q, %k, %k scale 0.7 causal
      : tensor<4x8x4x4xf32>, tensor<4x8x4x4xf32>, tensor<4x8x4x4xf32> -> tensor<4x8x4x4xf32>, tensor<4x4x8xf32>
  %o = dtc.contract %a [0, 1, 2, 3], %wo [2, 3, 4] -> [0, 1, 4] : tensor<4x8x4x4xf32>, tensor<4x4x8xf32> -> tensor<4x8x8xf32>
  %d = dtc.dropout %o keys %keys : tensor<4xi64> ratio 0.5 : tensor<4x8x8xf32>
  %flat = dtc.reshape %d : tensor<4x8x8xf32> -> tensor<32x8xf32>
  %back = dtc.reshape %flat : tensor<32x8xf32> -> tensor<4x8x8xf32>
  %s = dtc.sum %back, %n, %d : tensor<4x8x8xf32>
  %dw = dtc.contract %s [0, 1, 2], %x [0, 1, 3] -> [2, 3] : tensor<4x8x8xf32>, tensor<4x8x8xf32> -> tensor<8x8xf32>
  return %s, %dw : tensor<4x8x8xf32>, tensor<8x8xf32>
}
