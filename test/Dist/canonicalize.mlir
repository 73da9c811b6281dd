// RUN: dtc-opt --canonicalize %s | FileCheck %s
// RUN: dtc-opt --dtc-decompose-layers %s | FileCheck %s

dist.mesh @mesh ["tp" = 2]

// A part of a repeated tensor is never computed whole.
// CHECK-LABEL: func.func @repeated
func.func @repeated(%x: tensor<8x16xf32>) -> tensor<8x2x16xf32> {
  // CHECK-NEXT: %[[B:.*]] = dtc.broadcast %arg0 [0, 2] : tensor<8x16xf32> -> tensor<8x2x16xf32>
  // CHECK-NEXT: return %[[B]]
  %0 = dtc.broadcast %x [0, 2] : tensor<8x16xf32> -> tensor<8x4x16xf32>
  %1 = dist.slice %0 dim 1 on @mesh {"tp"} : tensor<8x4x16xf32> -> tensor<8x2x16xf32>
  return %1 : tensor<8x2x16xf32>
}

// CHECK-LABEL: func.func @kept
func.func @kept(%x: tensor<8x16xf32>) -> tensor<8x4x8xf32> {
  // CHECK-NEXT: %[[S:.*]] = dist.slice %arg0 dim 1 on @mesh {"tp"} : tensor<8x16xf32> -> tensor<8x8xf32>
  // CHECK-NEXT: %[[B:.*]] = dtc.broadcast %[[S]] [0, 2] : tensor<8x8xf32> -> tensor<8x4x8xf32>
  // CHECK-NEXT: return %[[B]]
  %0 = dtc.broadcast %x [0, 2] : tensor<8x16xf32> -> tensor<8x4x16xf32>
  %1 = dist.slice %0 dim 2 on @mesh {"tp"} : tensor<8x4x16xf32> -> tensor<8x4x8xf32>
  return %1 : tensor<8x4x8xf32>
}

// CHECK-LABEL: func.func @converted
func.func @converted(%x: tensor<8x16xf32>) -> tensor<8x2x16xbf16> {
  // CHECK-NEXT: %[[B:.*]] = dtc.broadcast %arg0 [0, 2] : tensor<8x16xf32> -> tensor<8x2x16xf32>
  // CHECK-NEXT: %[[T:.*]] = arith.truncf %[[B]] : tensor<8x2x16xf32> to tensor<8x2x16xbf16>
  // CHECK-NEXT: return %[[T]]
  %0 = dtc.broadcast %x [0, 2] : tensor<8x16xf32> -> tensor<8x4x16xf32>
  %1 = arith.truncf %0 : tensor<8x4x16xf32> to tensor<8x4x16xbf16>
  %2 = dist.slice %1 dim 1 on @mesh {"tp"} : tensor<8x4x16xbf16> -> tensor<8x2x16xbf16>
  return %2 : tensor<8x2x16xbf16>
}

// Two large tensors: the sum is computed once, then cut.
// CHECK-LABEL: func.func @computed
func.func @computed(%x: tensor<8x4x16xf32>, %y: tensor<8x16xf32>) -> tensor<8x2x16xf32> {
  // CHECK: arith.addf {{.*}} : tensor<8x4x16xf32>
  // CHECK: dist.slice
  %0 = dtc.broadcast %y [0, 2] : tensor<8x16xf32> -> tensor<8x4x16xf32>
  %1 = arith.addf %x, %0 : tensor<8x4x16xf32>
  %2 = dist.slice %1 dim 1 on @mesh {"tp"} : tensor<8x4x16xf32> -> tensor<8x2x16xf32>
  return %2 : tensor<8x2x16xf32>
}
