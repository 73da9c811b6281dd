// oneDNN has no fp16 on most processors: products are those of f32 there, rounded to what they were.
// RUN: dtc-opt %s --dtc-decompose-layers | FileCheck %s
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers | FileCheck %s --check-prefix=CUDA

// What several products read stays in fp16 between them: each has copies of its own.
// CHECK-LABEL: @product
// CHECK-DAG: %[[A:.*]] = dtc.barrier %arg0
// CHECK-DAG: %[[B:.*]] = dtc.barrier %arg1
// CHECK-DAG: %[[WA:.*]] = arith.extf %[[A]] : tensor<4x8xf16> to tensor<4x8xf32>
// CHECK-DAG: %[[WB:.*]] = arith.extf %[[B]] : tensor<6x8xf16> to tensor<6x8xf32>
// CHECK: %[[Y:.*]] = dtc.contract %[[WA]] [0, 2], %[[WB]] [1, 2] -> [0, 1] : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
// CHECK: %[[R:.*]] = arith.truncf %[[Y]] : tensor<4x6xf32> to tensor<4x6xf16>
// CHECK-DAG: %[[C:.*]] = dtc.barrier %arg0
// CHECK-DAG: %[[WC:.*]] = arith.extf %[[C]] : tensor<4x8xf16> to tensor<4x8xf32>
// CHECK: %[[Z:.*]] = dtc.contract %[[WC]] [0, 2], {{.*}} -> tensor<4x6xf32>
// CHECK: return %[[R]], %[[Z]]
// CUDA-LABEL: @product
// CUDA-NEXT: dtc.contract {{.*}} -> tensor<4x6xf16>
// CUDA-NEXT: dtc.contract {{.*}} -> tensor<4x6xf32>
// CUDA-NEXT: return
func.func @product(%a: tensor<4x8xf16>, %b: tensor<6x8xf16>) -> (tensor<4x6xf16>, tensor<4x6xf32>) {
  %0 = dtc.contract %a [0, 2], %b [1, 2] -> [0, 1] : tensor<4x8xf16>, tensor<6x8xf16> -> tensor<4x6xf16>
  %1 = dtc.contract %a [0, 2], %b [1, 2] -> [0, 1] : tensor<4x8xf16>, tensor<6x8xf16> -> tensor<4x6xf32>
  return %0, %1 : tensor<4x6xf16>, tensor<4x6xf32>
}

// So does a weight that layers share, each by a view of its own.
// CHECK-LABEL: @shared_weight
// CHECK-DAG: dtc.barrier {{.*}} : tensor<6x8xf16>
// CHECK-DAG: dtc.barrier {{.*}} : tensor<6x8xf16>
// CHECK: return
func.func @shared_weight(%a: tensor<4x8xf16>, %c: tensor<4x8xf16>, %w: tensor<6x2x4xf16>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %0 = dtc.reshape %w {dtc.id = 1 : i64} : tensor<6x2x4xf16> -> tensor<6x8xf16>
  %1 = dtc.contract %a [0, 2], %0 [1, 2] -> [0, 1] : tensor<4x8xf16>, tensor<6x8xf16> -> tensor<4x6xf32>
  %2 = dtc.reshape %w {dtc.id = 2 : i64} : tensor<6x2x4xf16> -> tensor<6x8xf16>
  %3 = dtc.contract %c [0, 2], %2 [1, 2] -> [0, 1] : tensor<4x8xf16>, tensor<6x8xf16> -> tensor<4x6xf32>
  return %1, %3 : tensor<4x6xf32>, tensor<4x6xf32>
}

// A rounded product that several ops read is stored as such.
// CHECK-LABEL: @alone
// CHECK-NOT: dtc.barrier %arg
// CHECK: %[[R:.*]] = arith.truncf {{.*}} : tensor<4x6xf32> to tensor<4x6xf16>
// CHECK: %[[S:.*]] = dtc.barrier %[[R]]
// CHECK: return %[[S]], %[[S]]
func.func @alone(%a: tensor<4x8xf16>, %b: tensor<6x8xf16>) -> (tensor<4x6xf16>, tensor<4x6xf16>) {
  %0 = dtc.contract %a [0, 2], %b [1, 2] -> [0, 1] : tensor<4x8xf16>, tensor<6x8xf16> -> tensor<4x6xf16>
  return %0, %0 : tensor<4x6xf16>, tensor<4x6xf16>
}

// CHECK-LABEL: @convolution
// CHECK: %[[DW:.*]] = dtc.conv_weight_grad {{.*}} : tensor<4x8x5x5xf32>, tensor<4x12x3x3xf32> -> tensor<12x8x3x3xf32>
// CHECK: return %[[DW]]
func.func @convolution(%x: tensor<4x8x5x5xf16>, %y: tensor<4x12x3x3xf16>) -> tensor<12x8x3x3xf32> {
  %0 = dtc.conv_weight_grad %x, %y strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] groups 1 : tensor<4x8x5x5xf16>, tensor<4x12x3x3xf16> -> tensor<12x8x3x3xf32>
  return %0 : tensor<12x8x3x3xf32>
}

// What ops compute alike is one product: attention's scores in both passes.
// CHECK-LABEL: @alike
// CHECK: %[[S:.*]] = dtc.contract {{.*}} -> tensor<4x6xf32>
// CHECK-NOT: dtc.contract
// CHECK: return %[[S]], %[[S]]
func.func @alike(%a: tensor<4x8xf16>, %b: tensor<6x8xf16>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %0 = dtc.contract %a [0, 2], %b [1, 2] -> [0, 1] : tensor<4x8xf16>, tensor<6x8xf16> -> tensor<4x6xf32>
  %1 = dtc.contract %a [0, 2], %b [1, 2] -> [0, 1] : tensor<4x8xf16>, tensor<6x8xf16> -> tensor<4x6xf32>
  return %0, %1 : tensor<4x6xf32>, tensor<4x6xf32>
}

// A sum with a bias is computed again behind the next product: it is the rounded product that waits.
// CHECK-LABEL: @far
// CHECK: %[[Y:.*]] = dtc.contract
// CHECK: %[[R:.*]] = arith.truncf %[[Y]]
// CHECK: dtc.barrier %[[R]]
func.func @far(%x: tensor<4x4xf16>, %w: tensor<4x4xf16>, %b: tensor<4xf16>, %v: tensor<4x4xf16>) -> tensor<4x4xf16> {
  %0 = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] : tensor<4x4xf16>, tensor<4x4xf16> -> tensor<4x4xf16>
  %1 = dtc.broadcast %b [1] : tensor<4xf16> -> tensor<4x4xf16>
  %2 = arith.addf %0, %1 : tensor<4x4xf16>
  %3 = arith.mulf %2, %2 : tensor<4x4xf16>
  %4 = dtc.contract %3 [0, 2], %v [2, 1] -> [0, 1] : tensor<4x4xf16>, tensor<4x4xf16> -> tensor<4x4xf16>
  %5 = arith.mulf %4, %2 : tensor<4x4xf16>
  return %5 : tensor<4x4xf16>
}

// Before that, kernels round what the product left.
// CHECK-LABEL: @near
// CHECK: %[[Y:.*]] = dtc.contract
// CHECK: arith.truncf %[[Y]]
// CHECK-NOT: dtc.barrier
// CHECK: return
func.func @near(%x: tensor<4x4xf16>, %w: tensor<4x4xf16>, %b: tensor<4xf16>, %v: tensor<4x4xf16>) -> tensor<4x4xf16> {
  %0 = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] : tensor<4x4xf16>, tensor<4x4xf16> -> tensor<4x4xf16>
  %1 = dtc.broadcast %b [1] : tensor<4xf16> -> tensor<4x4xf16>
  %2 = arith.addf %0, %1 : tensor<4x4xf16>
  %3 = arith.mulf %2, %2 : tensor<4x4xf16>
  %4 = dtc.contract %3 [0, 2], %v [2, 1] -> [0, 1] : tensor<4x4xf16>, tensor<4x4xf16> -> tensor<4x4xf16>
  return %4 : tensor<4x4xf16>
}

// A part of what several products read is read where the whole lies: none has a copy of the part alone. So is
// what is repeated.
// CHECK-LABEL: @views
// CHECK-DAG: %[[A:.*]] = dtc.barrier %arg0 : tensor<4x5xf16>
// CHECK-DAG: dtc.slice %[[A]]
// CHECK-DAG: %[[B:.*]] = dtc.barrier %arg1
// CHECK-DAG: dtc.broadcast %[[B]]
// CHECK: dtc.contract
// CHECK-NOT: dtc.barrier %{{[0-9]+}} : tensor<4x4xf16>
// CHECK: return
func.func @views(%p: tensor<4x5xf16>, %k: tensor<4xf16>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x5xf16>) {
  %part = dtc.slice %p offsets [0, 0] strides [1, 1] : tensor<4x5xf16> -> tensor<4x4xf16>
  %rows = dtc.broadcast %k [1] : tensor<4xf16> -> tensor<4x4xf16>
  %0 = dtc.contract %part [0, 2], %rows [2, 1] -> [0, 1] : tensor<4x4xf16>, tensor<4x4xf16> -> tensor<4x4xf32>
  %1 = dtc.contract %part [2, 0], %rows [2, 1] -> [0, 1] : tensor<4x4xf16>, tensor<4x4xf16> -> tensor<4x4xf32>
  return %0, %1, %p : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x5xf16>
}
