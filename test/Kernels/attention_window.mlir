// A window of the last keys is a GPU library's own; on processors, and in fp32, it is a mask.
// RUN: dtc-opt --target=cuda %s -split-input-file --dtc-decompose-layers | FileCheck %s
// RUN: dtc-opt %s -split-input-file --dtc-decompose-layers | FileCheck %s --check-prefix=CPU

// CPU-NOT: dtc.attention

// CHECK-LABEL: func.func @halves
// CHECK: dtc.attention %arg0, %arg0, %arg0 scale 5.000000e-01 causal window 4 :
// CHECK: dtc.attention_grad %arg0, {{.*}} scale 5.000000e-01 causal window 4 :
func.func @halves(%q: tensor<2x16x4x8xbf16>) -> (tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>) {
  %o, %lse = dtc.attention %q, %q, %q scale 0.5 causal window 4 : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>
  %dq, %dk, %dv = dtc.attention_grad %q, %q, %q, %o, %lse, %q scale 0.5 causal window 4 : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>
  return %o, %dq : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>
}

// -----

// CHECK-LABEL: func.func @single
// CHECK-NOT: dtc.attention
// CHECK: arith.andi
// CHECK: return
func.func @single(%q: tensor<2x16x4x8xf32>) -> tensor<2x16x4x8xf32> {
  %o, %lse = dtc.attention %q, %q, %q scale 0.5 causal window 4 : tensor<2x16x4x8xf32>, tensor<2x16x4x8xf32>, tensor<2x16x4x8xf32> -> tensor<2x16x4x8xf32>, tensor<2x4x16xf32>
  return %o : tensor<2x16x4x8xf32>
}
