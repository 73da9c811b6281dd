// Parts of one product are read where they lie, and their gradients are written to where they are joined.
// RUN: dtc-opt --target=cuda %s -split-input-file --dtc-decompose-layers --dtc-normalize-contractions --dtc-attention-calls | FileCheck %s
// RUN: dtc-opt --target=cuda %s -split-input-file --dtc-decompose-layers --dtc-normalize-contractions --dtc-attention-calls | dtc-opt -split-input-file | FileCheck %s
// RUN: env DTC_CUDNN_PARTS=0 dtc-opt --target=cuda %s -split-input-file --dtc-decompose-layers --dtc-normalize-contractions --dtc-attention-calls | FileCheck %s --check-prefix=WHOLE

// Token by token, as in GPT-2.
// CHECK-LABEL: func.func @tokens
// CHECK: %[[QKV:.*]] = exec.matmul
// CHECK-NOT: dtc.slice
// CHECK: %[[O:.*]]:2 = exec.attention(%[[QKV]], %[[QKV]], %[[QKV]]) scale 5.000000e-01 causal places [#exec.place<0, [2, 16, 4, 8], [1536, 96, 8, 1]>, #exec.place<32, [2, 16, 4, 8], [1536, 96, 8, 1]>, #exec.place<64, [2, 16, 4, 8], [1536, 96, 8, 1]>, #exec.place<0, [2, 16, 4, 8], [512, 32, 8, 1]>, #exec.place<0, [2, 4, 16], [64, 16, 1]>] into [0, 1]
// CHECK: %[[GRAD:.*]] = exec.attention backward(%[[QKV]], %[[QKV]], %[[QKV]], %[[O]]#0, %[[O]]#1, %arg2) scale 5.000000e-01 causal places [{{.*}}, #exec.place<0, [2, 16, 4, 8], [1536, 96, 8, 1]>, #exec.place<32, [2, 16, 4, 8], [1536, 96, 8, 1]>, #exec.place<64, [2, 16, 4, 8], [1536, 96, 8, 1]>] into [0, 0, 0] : {{.*}} -> tensor<2x16x3x4x8xbf16>
// CHECK-NOT: dtc.concat
// CHECK: return %[[GRAD]]
// WHOLE-LABEL: func.func @tokens
// WHOLE: exec.attention(%{{.*}}, %{{.*}}, %{{.*}}) scale 5.000000e-01 causal places [#exec.place<0, [2, 16, 4, 8], [512, 32, 8, 1]>, #exec.place<0, [2, 16, 4, 8], [512, 32, 8, 1]>,
// WHOLE: exec.attention backward{{.*}} into [0, 1, 2]
// WHOLE: dtc.concat
func.func @tokens(%x: tensor<2x16x16xbf16>, %w: tensor<16x3x4x8xbf16>, %do: tensor<2x16x4x8xbf16>) -> tensor<2x16x3x4x8xbf16> {
  %qkv = dtc.contract %x [0, 1, 2], %w [2, 3, 4, 5] -> [0, 1, 3, 4, 5] : tensor<2x16x16xbf16>, tensor<16x3x4x8xbf16> -> tensor<2x16x3x4x8xbf16>
  %q1 = dtc.slice %qkv offsets [0, 0, 0, 0, 0] strides [1, 1, 1, 1, 1] : tensor<2x16x3x4x8xbf16> -> tensor<2x16x1x4x8xbf16>
  %k1 = dtc.slice %qkv offsets [0, 0, 1, 0, 0] strides [1, 1, 1, 1, 1] : tensor<2x16x3x4x8xbf16> -> tensor<2x16x1x4x8xbf16>
  %v1 = dtc.slice %qkv offsets [0, 0, 2, 0, 0] strides [1, 1, 1, 1, 1] : tensor<2x16x3x4x8xbf16> -> tensor<2x16x1x4x8xbf16>
  %q = dtc.reshape %q1 : tensor<2x16x1x4x8xbf16> -> tensor<2x16x4x8xbf16>
  %k = dtc.reshape %k1 : tensor<2x16x1x4x8xbf16> -> tensor<2x16x4x8xbf16>
  %v = dtc.reshape %v1 : tensor<2x16x1x4x8xbf16> -> tensor<2x16x4x8xbf16>
  %o, %lse = dtc.attention %q, %k, %v scale 0.5 causal : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>
  %dq, %dk, %dv = dtc.attention_grad %q, %k, %v, %o, %lse, %do scale 0.5 causal : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>
  %dq1 = dtc.reshape %dq : tensor<2x16x4x8xbf16> -> tensor<2x16x1x4x8xbf16>
  %dk1 = dtc.reshape %dk : tensor<2x16x4x8xbf16> -> tensor<2x16x1x4x8xbf16>
  %dv1 = dtc.reshape %dv : tensor<2x16x4x8xbf16> -> tensor<2x16x1x4x8xbf16>
  %d = dtc.concat 2(%dq1, %dk1, %dv1) : tensor<2x16x1x4x8xbf16>, tensor<2x16x1x4x8xbf16>, tensor<2x16x1x4x8xbf16> -> tensor<2x16x3x4x8xbf16>
  return %d : tensor<2x16x3x4x8xbf16>
}

// -----

// Keys and values of one argument, head by head. Keys come in another order. The query's gradient is read
// alone, and that of the keys twice, so that they are no part of what is joined.
// CHECK-LABEL: func.func @heads
// CHECK: exec.attention backward(%arg0, %arg1, %arg1, {{.*}} places [#exec.place<0, [2, 16, 4, 8], [512, 32, 8, 1]>, #exec.place<8, [2, 16, 4, 8], [1024, 16, 256, 1]>, #exec.place<0, [2, 16, 4, 8], [1024, 16, 256, 1]>,
// CHECK-SAME: into [0, 1, 2]
// CHECK: dtc.concat
func.func @heads(%q: tensor<2x16x4x8xbf16>, %vk: tensor<2x4x16x16xbf16>, %lse: tensor<2x4x16xf32>) -> (tensor<2x16x4x16xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>) {
  %v1 = dtc.slice %vk offsets [0, 0, 0, 0] strides [1, 1, 1, 1] : tensor<2x4x16x16xbf16> -> tensor<2x4x16x8xbf16>
  %k1 = dtc.slice %vk offsets [0, 0, 0, 8] strides [1, 1, 1, 1] : tensor<2x4x16x16xbf16> -> tensor<2x4x16x8xbf16>
  %v = dtc.transpose %v1 [0, 2, 1, 3] : tensor<2x4x16x8xbf16> -> tensor<2x16x4x8xbf16>
  %k = dtc.transpose %k1 [0, 2, 1, 3] : tensor<2x4x16x8xbf16> -> tensor<2x16x4x8xbf16>
  %dq, %dk, %dv = dtc.attention_grad %q, %k, %v, %q, %lse, %q scale 0.5 : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>
  %d = dtc.concat 3(%dv, %dk) : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x16xbf16>
  return %d, %dq, %dk : tensor<2x16x4x16xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>
}

// -----

// Copied as before: a part that begins amid 16 bytes, one whose elements are apart, and what a kernel makes.
// CHECK-LABEL: func.func @copied
// CHECK: %[[Q:.*]] = dtc.slice
// CHECK: %[[K:.*]] = dtc.transpose
// CHECK: %[[V:.*]] = dtc.slice
// CHECK: exec.attention(%[[Q]], %[[K]], %[[V]])
// CHECK-SAME: places [#exec.place<0, [2, 16, 4, 8], [512, 32, 8, 1]>, #exec.place<0, [2, 16, 4, 8], [512, 32, 8, 1]>, #exec.place<0, [2, 16, 4, 8], [512, 32, 8, 1]>,
func.func @copied(%x: tensor<2x16x4x12xbf16>, %y: tensor<2x16x8x4xbf16>) -> tensor<2x16x4x8xbf16> {
  %q = dtc.slice %x offsets [0, 0, 0, 4] strides [1, 1, 1, 1] : tensor<2x16x4x12xbf16> -> tensor<2x16x4x8xbf16>
  %k = dtc.transpose %y [0, 1, 3, 2] : tensor<2x16x8x4xbf16> -> tensor<2x16x4x8xbf16>
  %two = arith.addf %x, %x : tensor<2x16x4x12xbf16>
  %v = dtc.slice %two offsets [0, 0, 0, 0] strides [1, 1, 1, 1] : tensor<2x16x4x12xbf16> -> tensor<2x16x4x8xbf16>
  %o, %lse = dtc.attention %q, %k, %v scale 0.5 : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>
  return %o : tensor<2x16x4x8xbf16>
}

// -----

// The rest of the product would be kept with the values, which are a third of it.
// CHECK-LABEL: func.func @third
// CHECK: %[[V:.*]] = dtc.slice
// CHECK: exec.attention(%arg2, %arg2, %[[V]])
func.func @third(%x: tensor<2x16x16xbf16>, %w: tensor<16x4x24xbf16>, %q: tensor<2x16x4x8xbf16>) -> tensor<2x16x4x8xbf16> {
  %qkv = dtc.contract %x [0, 1, 2], %w [2, 3, 4] -> [0, 1, 3, 4] : tensor<2x16x16xbf16>, tensor<16x4x24xbf16> -> tensor<2x16x4x24xbf16>
  %v = dtc.slice %qkv offsets [0, 0, 0, 16] strides [1, 1, 1, 1] : tensor<2x16x4x24xbf16> -> tensor<2x16x4x8xbf16>
  %o, %lse = dtc.attention %q, %q, %v scale 0.5 : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>
  return %o : tensor<2x16x4x8xbf16>
}

// -----

// Every second token: the stride is that of two.
// CHECK-LABEL: func.func @steps
// CHECK-NOT: dtc.slice
// CHECK: exec.attention(%arg0, %arg0, %arg0) scale 5.000000e-01 places [#exec.place<0, [2, 16, 4, 8], [1024, 64, 8, 1]>, #exec.place<32, [2, 16, 4, 8], [1024, 64, 8, 1]>, #exec.place<0, [2, 16, 4, 8], [1024, 64, 8, 1]>,
func.func @steps(%x: tensor<2x32x4x8xbf16>) -> tensor<2x16x4x8xbf16> {
  %q = dtc.slice %x offsets [0, 0, 0, 0] strides [1, 2, 1, 1] : tensor<2x32x4x8xbf16> -> tensor<2x16x4x8xbf16>
  %k = dtc.slice %x offsets [0, 1, 0, 0] strides [1, 2, 1, 1] : tensor<2x32x4x8xbf16> -> tensor<2x16x4x8xbf16>
  %o, %lse = dtc.attention %q, %k, %q scale 0.5 : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>
  return %o : tensor<2x16x4x8xbf16>
}
