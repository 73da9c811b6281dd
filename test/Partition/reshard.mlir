// One collective for each kind of reshard. An op follows its operand, a result
// is brought into the form that its dist.sharding asks for.
// RUN: dtc-opt %s -dtc-pipeline=partition | FileCheck %s

dist.mesh @mesh ["dp" = 2, "tp" = 4]

// CHECK-LABEL: func.func @all_reduce
// CHECK: %[[Y:.*]] = dtc.contract %arg0 [0, 1], %arg1 [1, 2] -> [0, 2] : tensor<4x16xf32>, tensor<16x8xf32> -> tensor<4x8xf32>
// CHECK: %[[S:.*]] = dist.all_reduce sum %[[Y]] on @mesh {"tp"} : tensor<4x8xf32>
// CHECK: return %[[S]]
func.func @all_reduce(%x: tensor<8x64xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}, {"tp"}]>},
                      %w: tensor<64x8xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}, {}]>})
    -> (tensor<8x8xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}, {}]>}) {
  %y = dtc.contract %x [0, 1], %w [1, 2] -> [0, 2] : tensor<8x64xf32>, tensor<64x8xf32> -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// CHECK-LABEL: func.func @reduce_scatter
// CHECK: dist.reduce_scatter sum %{{.*}} dim 1 on @mesh {"tp"} : tensor<4x8xf32> -> tensor<4x2xf32>
// CHECK-NOT: dist.
func.func @reduce_scatter(%x: tensor<8x64xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}, {"tp"}]>},
                          %w: tensor<64x8xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}, {}]>})
    -> (tensor<8x8xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}, {"tp"}]>}) {
  %y = dtc.contract %x [0, 1], %w [1, 2] -> [0, 2] : tensor<8x64xf32>, tensor<64x8xf32> -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// A maximum is reduced as one.
// CHECK-LABEL: func.func @maximum
// CHECK: dtc.reduce max %arg0 [1] : tensor<8x16xf32> -> tensor<8xf32>
// CHECK: dist.all_reduce max %{{.*}} on @mesh {"tp"} : tensor<8xf32>
func.func @maximum(%x: tensor<8x64xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"tp"}]>}) -> tensor<8xf32> {
  %y = dtc.reduce max %x [1] : tensor<8x64xf32> -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// CHECK-LABEL: func.func @all_gather
// CHECK: dist.all_gather %{{.*}} dim 1 on @mesh {"tp"} : tensor<4x16xf32> -> tensor<4x64xf32>
func.func @all_gather(%x: tensor<8x64xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}, {"tp"}]>})
    -> (tensor<8x64xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}, {}]>}) {
  %y = math.exp %x : tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// CHECK-LABEL: func.func @slice
// CHECK: dist.slice %{{.*}} dim 1 on @mesh {"tp"} : tensor<4x64xf32> -> tensor<4x16xf32>
func.func @slice(%x: tensor<8x64xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}, {}]>})
    -> (tensor<8x64xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}, {"tp"}]>}) {
  %y = math.exp %x : tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// CHECK-LABEL: func.func @all_to_all
// CHECK: dist.all_to_all %{{.*}} split 1 concat 0 on @mesh {"tp"} : tensor<2x64xf32> -> tensor<8x16xf32>
func.func @all_to_all(%x: tensor<8x64xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}, {}]>})
    -> (tensor<8x64xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"tp"}]>}) {
  %y = math.exp %x : tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// CHECK-LABEL: func.func @permute
// CHECK: dist.permute %{{.*}} from [0, 2, 4, 6, 1, 3, 5, 7] on @mesh {"dp", "tp"} : tensor<1x64xf32> -> tensor<1x64xf32>
func.func @permute(%x: tensor<8x64xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp", "tp"}, {}]>})
    -> (tensor<8x64xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp", "dp"}, {}]>}) {
  %y = math.exp %x : tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// Three products of one input share its gather.
// CHECK-LABEL: func.func @shared
// CHECK: %[[X:.*]] = dist.all_gather %arg0 dim 0
// CHECK-COUNT-3: dtc.contract %[[X]]
// CHECK-NOT: dist.
func.func @shared(%x: tensor<8x16xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}, {}]>},
                  %w: tensor<3x16x8xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {}, {"tp"}]>})
    -> (tensor<3x8x8xf32>, tensor<8x3x8xf32>, tensor<8x8x3xf32>) {
  %0 = dtc.contract %x [0, 1], %w [2, 1, 3] -> [2, 0, 3] {dist.op = #dist.op_sharding<@mesh, [{}, {}, {}, {"tp"}]>}
      : tensor<8x16xf32>, tensor<3x16x8xf32> -> tensor<3x8x8xf32>
  %1 = dtc.contract %x [0, 1], %w [2, 1, 3] -> [0, 2, 3] {dist.op = #dist.op_sharding<@mesh, [{}, {}, {}, {"tp"}]>}
      : tensor<8x16xf32>, tensor<3x16x8xf32> -> tensor<8x3x8xf32>
  %2 = dtc.contract %x [0, 1], %w [2, 1, 3] -> [0, 3, 2] {dist.op = #dist.op_sharding<@mesh, [{}, {}, {}, {"tp"}]>}
      : tensor<8x16xf32>, tensor<3x16x8xf32> -> tensor<8x8x3xf32>
  return %0, %1, %2 : tensor<3x8x8xf32>, tensor<8x3x8xf32>, tensor<8x8x3xf32>
}

// Constants, broadcasts and indices are made where they are wanted, not cut.
// CHECK-LABEL: func.func @rebuilt
// CHECK-NOT: dist.slice
// CHECK: arith.constant dense<2.000000e+00> : tensor<4x16xf32>
// CHECK: dist.axis_index @mesh {"tp"}
// CHECK: dtc.iota 1 : tensor<4x16xi64>
// CHECK: dtc.broadcast %arg1 [0] : tensor<4xf32> -> tensor<4x16xf32>
// CHECK-NOT: dist.slice
func.func @rebuilt(%x: tensor<8x64xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}, {"tp"}]>},
                   %b: tensor<8xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}]>}) -> tensor<8x64xf32> {
  %c = arith.constant dense<2.0> : tensor<8x64xf32>
  %i = dtc.iota 1 : tensor<8x64xf32>
  %r = dtc.broadcast %b [0] : tensor<8xf32> -> tensor<8x64xf32>
  %0 = arith.mulf %x, %c : tensor<8x64xf32>
  %1 = arith.addf %0, %i : tensor<8x64xf32>
  %2 = arith.addf %1, %r : tensor<8x64xf32>
  return %2 : tensor<8x64xf32>
}

// Two pending sums are added and take one reduction.
// CHECK-LABEL: func.func @pending_linear
// CHECK: dtc.contract
// CHECK-NEXT: dtc.contract
// CHECK-NEXT: arith.addf
// CHECK-NEXT: dist.all_reduce sum
// CHECK-NEXT: return
func.func @pending_linear(%x: tensor<8x64xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"tp"}]>},
                          %w: tensor<64x8xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}, {}]>},
                          %v: tensor<64x8xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}, {}]>}) -> tensor<8x8xf32> {
  %0 = dtc.contract %x [0, 1], %w [1, 2] -> [0, 2] : tensor<8x64xf32>, tensor<64x8xf32> -> tensor<8x8xf32>
  %1 = dtc.contract %x [0, 1], %v [1, 2] -> [0, 2] : tensor<8x64xf32>, tensor<64x8xf32> -> tensor<8x8xf32>
  %2 = arith.addf %0, %1 : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}
