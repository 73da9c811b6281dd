// Megatron's layouts by hand: column then row parallel, one reduction each.
// RUN: dtc-opt %s -split-input-file -dtc-pipeline=partition | FileCheck %s

dist.mesh @mesh ["dp" = 2, "tp" = 2]

// CHECK-LABEL: func.func @mlp
// CHECK-COUNT-1: dist.all_reduce sum %{{.*}} on @mesh {"tp"} : tensor<4x16xf32>
// CHECK-NOT: dist.all
// CHECK: return
func.func @mlp(%x: tensor<8x16xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}, {}]>},
               %w1: tensor<16x32xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"tp"}]>},
               %b1: tensor<32xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}]>},
               %w2: tensor<32x16xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}, {}]>},
               %b2: tensor<16xf32>) -> tensor<8x16xf32> {
  %0 = dtc.contract %x [0, 1], %w1 [1, 2] -> [0, 2] : tensor<8x16xf32>, tensor<16x32xf32> -> tensor<8x32xf32>
  %1 = dtc.broadcast %b1 [1] : tensor<32xf32> -> tensor<8x32xf32>
  %2 = arith.addf %0, %1 : tensor<8x32xf32>
  %3 = dtc.activation gelu %2 : tensor<8x32xf32>
  %4 = dtc.contract %3 [0, 1], %w2 [1, 2] -> [0, 2] : tensor<8x32xf32>, tensor<32x16xf32> -> tensor<8x16xf32>
  %5 = dtc.broadcast %b2 [1] : tensor<16xf32> -> tensor<8x16xf32>
  %6 = arith.addf %4, %5 : tensor<8x16xf32>
  return %6 : tensor<8x16xf32>
}

// -----

// Rows of the table and columns of the logits are split by tp: the look-up
// shifts its indices, the loss takes a maximum, a sum and the target's logit.
dist.mesh @mesh ["tp" = 4]

// CHECK-LABEL: func.func @vocabulary
// CHECK: dist.axis_index @mesh {"tp"}
// CHECK: %[[I:.*]] = arith.subi %arg1
// CHECK: %[[E:.*]] = dtc.gather %arg0, %[[I]] axis 0 : tensor<4x8xf32>, tensor<6xi64> -> tensor<6x8xf32>
// CHECK: %[[X:.*]] = dist.all_reduce sum %[[E]] on @mesh {"tp"} : tensor<6x8xf32>
// CHECK: %[[L:.*]] = dtc.contract %[[X]] [0, 1], %arg0 [2, 1] -> [0, 2] : tensor<6x8xf32>, tensor<4x8xf32> -> tensor<6x4xf32>
// CHECK: dist.all_reduce max %{{.*}} on @mesh {"tp"} : tensor<6xf32>
// CHECK: dist.all_reduce sum %{{.*}} on @mesh {"tp"} : tensor<6xf32>
// CHECK: dtc.pick %{{.*}} : tensor<6x4xf32>, tensor<6xi64> -> tensor<6xf32>
// CHECK: dist.all_reduce sum %{{.*}} on @mesh {"tp"} : tensor<6xf32>
// CHECK-NOT: dist.all
// CHECK: return
func.func @vocabulary(%table: tensor<16x8xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}, {}]>},
                      %ids: tensor<6xi64>, %target: tensor<6xi64>) -> tensor<6xf32> {
  %x = dtc.gather %table, %ids axis 0 : tensor<16x8xf32>, tensor<6xi64> -> tensor<6x8xf32>
  %logits = dtc.contract %x [0, 1], %table [2, 1] -> [0, 2]
      {dist.op = #dist.op_sharding<@mesh, [{}, {}, {"tp"}]>}
      : tensor<6x8xf32>, tensor<16x8xf32> -> tensor<6x16xf32>
  %loss, %lse = dtc.cross_entropy %logits, %target ignore -100
      {dist.op = #dist.op_sharding<@mesh, [{}, {"tp"}]>}
      : tensor<6x16xf32>, tensor<6xi64> -> tensor<6xf32>, tensor<6xf32>
  return %loss : tensor<6xf32>
}

// -----

// A fused projection seen as [k, 3, h, e] splits by heads.
dist.mesh @mesh ["tp" = 2]

// CHECK-LABEL: func.func @heads
// CHECK: dtc.contract %arg0 {{.*}}, %arg1 {{.*}} -> tensor<2x4x3x2x4xf32>
// CHECK: dtc.attention {{.*}} : tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>
// CHECK: %[[Y:.*]] = dtc.contract {{.*}} -> tensor<2x4x16xf32>
// CHECK-NEXT: dist.all_reduce sum %[[Y]] on @mesh {"tp"}
// CHECK-NOT: dist.
// CHECK: return
func.func @heads(%x: tensor<2x4x16xf32>,
                 %qkv: tensor<16x3x4x4xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {}, {"tp"}, {}]>},
                 %out: tensor<4x4x16xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}, {}, {}]>}) -> tensor<2x4x16xf32> {
  %p = dtc.contract %x [0, 1, 2], %qkv [2, 3, 4, 5] -> [0, 1, 3, 4, 5]
      : tensor<2x4x16xf32>, tensor<16x3x4x4xf32> -> tensor<2x4x3x4x4xf32>
  %q0 = dtc.slice %p offsets [0, 0, 0, 0, 0] strides [1, 1, 1, 1, 1] : tensor<2x4x3x4x4xf32> -> tensor<2x4x1x4x4xf32>
  %k0 = dtc.slice %p offsets [0, 0, 1, 0, 0] strides [1, 1, 1, 1, 1] : tensor<2x4x3x4x4xf32> -> tensor<2x4x1x4x4xf32>
  %v0 = dtc.slice %p offsets [0, 0, 2, 0, 0] strides [1, 1, 1, 1, 1] : tensor<2x4x3x4x4xf32> -> tensor<2x4x1x4x4xf32>
  %q = dtc.reshape %q0 : tensor<2x4x1x4x4xf32> -> tensor<2x4x4x4xf32>
  %k = dtc.reshape %k0 : tensor<2x4x1x4x4xf32> -> tensor<2x4x4x4xf32>
  %v = dtc.reshape %v0 : tensor<2x4x1x4x4xf32> -> tensor<2x4x4x4xf32>
  %a, %lse = dtc.attention %q, %k, %v scale 0.5 causal
      : tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32> -> tensor<2x4x4x4xf32>, tensor<2x4x4xf32>
  %y = dtc.contract %a [0, 1, 2, 3], %out [2, 3, 4] -> [0, 1, 4]
      : tensor<2x4x4x4xf32>, tensor<4x4x16xf32> -> tensor<2x4x16xf32>
  return %y : tensor<2x4x16xf32>
}

// -----

// Two key-value heads under tp = 4: split by tp.0, copied along tp.1, along
// which the four query heads of a group are shared out.
dist.mesh @mesh ["tp.0" = 2 of "tp", "tp.1" = 2 of "tp"]

// CHECK-LABEL: func.func @grouped
// CHECK: dtc.attention %arg0, %arg1, %arg2 {{.*}} : tensor<2x4x2x4xf32>, tensor<2x4x1x4xf32>, tensor<2x4x1x4xf32> -> tensor<2x4x2x4xf32>
// CHECK-NOT: dist.
// CHECK: return
func.func @grouped(%q: tensor<2x4x8x4xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {}, {"tp.0", "tp.1"}, {}]>},
                   %k: tensor<2x4x2x4xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {}, {"tp.0"}, {}]>},
                   %v: tensor<2x4x2x4xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {}, {"tp.0"}, {}]>}) -> tensor<2x4x8x4xf32> {
  %a, %lse = dtc.attention %q, %k, %v scale 0.5 causal
      : tensor<2x4x8x4xf32>, tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32> -> tensor<2x4x8x4xf32>, tensor<2x8x4xf32>
  return %a : tensor<2x4x8x4xf32>
}

// CHECK-LABEL: func.func @grouped_gradient
// The keys' and values' gradients are summed over the query heads that share them.
// CHECK: %[[Q:.*]], %[[K:.*]], %[[V:.*]] = dtc.attention_grad
// CHECK-DAG: dist.all_reduce sum %{{.*}} on @mesh {"tp.1"} : tensor<2x4x1x4xf32>
// CHECK-NOT: {"tp.0"} : tensor
func.func @grouped_gradient(%q: tensor<2x4x8x4xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {}, {"tp.0", "tp.1"}, {}]>},
                            %k: tensor<2x4x2x4xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {}, {"tp.0"}, {}]>},
                            %lse: tensor<2x8x4xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"tp.0", "tp.1"}, {}]>})
    -> (tensor<2x4x8x4xf32>, tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>) {
  %dq, %dk, %dv = dtc.attention_grad %q, %k, %k, %q, %lse, %q scale 0.5 causal
      : tensor<2x4x8x4xf32>, tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>, tensor<2x4x8x4xf32>, tensor<2x8x4xf32>, tensor<2x4x8x4xf32>
      -> tensor<2x4x8x4xf32>, tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>
  return %dq, %dk, %dv : tensor<2x4x8x4xf32>, tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>
}
