// A bias that is certain to be finite is given to a GPU's library without what repeats, and not too
// low, where that is asked for; attention with any other becomes products and kernels, as on processors.
// RUN: env DTC_CUDNN_BIAS=1 DTC_CUDNN_WINDOW=1 dtc-opt --target=cuda %s -split-input-file --dtc-decompose-layers | FileCheck %s
// RUN: dtc-opt --target=cuda %s -split-input-file --dtc-decompose-layers | FileCheck %s --check-prefix=UNTRUSTED
// RUN: dtc-opt %s -split-input-file --dtc-decompose-layers | FileCheck %s --check-prefix=CPU

// CPU-NOT: dtc.attention
// UNTRUSTED-NOT: dtc.attention

// A mask of keys. The gradient takes the same bias. Where it hides all 16 keys of a query, that of the
// result is divided by them.
// CHECK-LABEL: func.func @padding
// CHECK-DAG: %[[LEAST:.*]] = arith.constant dense<-1.000000e+30> : tensor<2x16xf32>
// CHECK-DAG: %[[MASK:.*]] = arith.select %arg1
// CHECK: %[[BOUNDED:.*]] = arith.maximumf %[[MASK]], %[[LEAST]] : tensor<2x16xf32>
// CHECK: %[[BIAS:.*]] = dtc.reshape %[[BOUNDED]] : tensor<2x16xf32> -> tensor<2x1x1x16xf32>
// CHECK: %[[RESULT:.*]], %[[LSE:.*]] = dtc.attention %arg0, %arg0, %arg0 bias %[[BIAS]] : tensor<2x1x1x16xf32> scale 5.000000e-01 :
// CHECK: %[[HIDDEN:.*]] = arith.cmpf olt, %[[LSE]], %{{.*}} : tensor<2x4x16xf32>
// CHECK: %[[SHARE:.*]] = arith.select %[[HIDDEN]], %{{.*}}, %{{.*}} : tensor<2x4x16xi1>
// CHECK: arith.mulf
// CHECK: %[[GRAD:.*]] = arith.truncf
// CHECK: dtc.attention_grad %arg0, %arg0, %arg0, %[[RESULT]], %[[LSE]], %[[GRAD]] bias %[[BIAS]] : tensor<2x1x1x16xf32>
func.func @padding(%q: tensor<2x16x4x8xbf16>, %seen: tensor<2x16xi1>) -> (tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>) {
  %zero = arith.constant dense<0.0> : tensor<2x16xf32>
  %lowest = arith.constant dense<-3.40282347E+38> : tensor<2x16xf32>
  %mask = arith.select %seen, %zero, %lowest : tensor<2x16xi1>, tensor<2x16xf32>
  %bias = dtc.broadcast %mask [0, 3] : tensor<2x16xf32> -> tensor<2x4x16x16xf32>
  %o, %lse = dtc.attention %q, %q, %q bias %bias : tensor<2x4x16x16xf32> scale 0.5 : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>
  %dq, %dk, %dv = dtc.attention_grad %q, %q, %q, %o, %lse, %q bias %bias : tensor<2x4x16x16xf32> scale 0.5 : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>
  return %o, %dq : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>
}

// -----

// A window of positions, the same for all samples and heads, beside a causal mask.
// CHECK-LABEL: func.func @window
// CHECK: dtc.attention %arg0, %arg0, %arg0 bias %{{.*}} : tensor<1x1x2x2xf32> scale 5.000000e-01 causal :
func.func @window(%q: tensor<2x2x4x8xbf16>) -> tensor<2x2x4x8xbf16> {
  %near = arith.constant dense<[[0.0, -1.0e+4], [-1.0e+4, 0.0]]> : tensor<2x2xf32>
  %bias = dtc.broadcast %near [2, 3] : tensor<2x2xf32> -> tensor<2x4x2x2xf32>
  %o, %lse = dtc.attention %q, %q, %q bias %bias : tensor<2x4x2x2xf32> scale 0.5 causal : tensor<2x2x4x8xbf16>, tensor<2x2x4x8xbf16>, tensor<2x2x4x8xbf16> -> tensor<2x2x4x8xbf16>, tensor<2x4x2xf32>
  return %o : tensor<2x2x4x8xbf16>
}

// -----

// A window of the last keys is the library's own; on processors it is a mask. Where a bias hides all
// that a query sees, the gradient is divided by as many keys: 1, 2 and 2.
// CHECK-LABEL: func.func @sliding
// CHECK: dtc.attention %arg0, {{.*}} scale 5.000000e-01 causal window 2 :
// CHECK: arith.constant dense<[1.000000e+00, 5.000000e-01, 5.000000e-01]> : tensor<3xf32>
// CHECK: dtc.attention_grad %arg0, {{.*}} scale 5.000000e-01 causal window 2 :
func.func @sliding(%q: tensor<2x3x4x8xbf16>, %bias: tensor<2x3xi1>) -> (tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16>) {
  %zero = arith.constant dense<0.0> : tensor<2x3xf32>
  %lowest = arith.constant dense<-3.40282347E+38> : tensor<2x3xf32>
  %mask = arith.select %bias, %zero, %lowest : tensor<2x3xi1>, tensor<2x3xf32>
  %all = dtc.broadcast %mask [0, 3] : tensor<2x3xf32> -> tensor<2x4x3x3xf32>
  %o, %lse = dtc.attention %q, %q, %q bias %all : tensor<2x4x3x3xf32> scale 0.5 causal window 2 : tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16> -> tensor<2x3x4x8xbf16>, tensor<2x4x3xf32>
  %dq, %dk, %dv = dtc.attention_grad %q, %q, %q, %o, %lse, %q bias %all : tensor<2x4x3x3xf32> scale 0.5 causal window 2 : tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16>, tensor<2x4x3xf32>, tensor<2x3x4x8xbf16> -> tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16>
  return %o, %dq : tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16>
}

// -----

// A mask of -infinity may leave a row with nothing that is seen.
// CHECK-LABEL: func.func @infinite
// CHECK-NOT: dtc.attention
// CHECK: return
func.func @infinite(%q: tensor<2x16x4x8xbf16>, %seen: tensor<2x16xi1>) -> tensor<2x16x4x8xbf16> {
  %zero = arith.constant dense<0.0> : tensor<2x16xf32>
  %lowest = arith.constant dense<0xFF800000> : tensor<2x16xf32>
  %mask = arith.select %seen, %zero, %lowest : tensor<2x16xi1>, tensor<2x16xf32>
  %bias = dtc.broadcast %mask [0, 3] : tensor<2x16xf32> -> tensor<2x4x16x16xf32>
  %o, %lse = dtc.attention %q, %q, %q bias %bias : tensor<2x4x16x16xf32> scale 0.5 : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>
  return %o : tensor<2x16x4x8xbf16>
}

// -----

// So may the sum of two masks, the type of halves, which has no such number, and what the user gives.
// CHECK-LABEL: func.func @unknown
// CHECK-NOT: dtc.attention
// CHECK: return
func.func @unknown(%q: tensor<2x16x4x8xbf16>, %seen: tensor<2x16xi1>, %given: tensor<2x4x16x16xf32>)
    -> (tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>) {
  %zero = arith.constant dense<0.0> : tensor<2x16xf32>
  %lowest = arith.constant dense<-3.40282347E+38> : tensor<2x16xf32>
  %mask = arith.select %seen, %zero, %lowest : tensor<2x16xi1>, tensor<2x16xf32>
  %twice = arith.addf %mask, %mask : tensor<2x16xf32>
  %sum = dtc.broadcast %twice [0, 3] : tensor<2x16xf32> -> tensor<2x4x16x16xf32>
  %half = arith.truncf %mask : tensor<2x16xf32> to tensor<2x16xbf16>
  %halves = dtc.broadcast %half [0, 3] : tensor<2x16xbf16> -> tensor<2x4x16x16xbf16>
  %o, %lse = dtc.attention %q, %q, %q bias %given : tensor<2x4x16x16xf32> scale 0.5 : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>
  %p, %lsp = dtc.attention %q, %q, %q bias %sum : tensor<2x4x16x16xf32> scale 0.5 : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>
  %r, %lsr = dtc.attention %q, %q, %q bias %halves : tensor<2x4x16x16xbf16> scale 0.5 : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>
  return %o, %p, %r : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>
}

// -----

// cuDNN has no bias beside a causal mask whose queries begin within the keys. NVIDIA knows of wrong results
// of one query below a causal mask, and has no gradients of one key.
// UNTRUSTED-LABEL: func.func @shifted
// UNTRUSTED: dtc.attention %arg0, %arg1, %arg1 scale 5.000000e-01 causal :
// UNTRUSTED-NOT: dtc.attention
// CHECK-LABEL: func.func @shifted
// CHECK-NOT: dtc.attention
// CHECK: dtc.attention %arg0, %arg1, %arg1 scale 5.000000e-01 causal :
// CHECK-NOT: dtc.attention
// CHECK: return
func.func @shifted(%q: tensor<2x2x4x8xbf16>, %k: tensor<2x3x4x8xbf16>, %one: tensor<2x1x4x8xbf16>)
    -> (tensor<2x2x4x8xbf16>, tensor<2x2x4x8xbf16>, tensor<2x1x4x8xbf16>, tensor<2x2x4x8xbf16>) {
  %near = arith.constant dense<[[0.0, -1.0e+4, 0.0], [-1.0e+4, 0.0, 0.0]]> : tensor<2x3xf32>
  %bias = dtc.broadcast %near [2, 3] : tensor<2x3xf32> -> tensor<2x4x2x3xf32>
  %o, %lse = dtc.attention %q, %k, %k bias %bias : tensor<2x4x2x3xf32> scale 0.5 causal : tensor<2x2x4x8xbf16>, tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16> -> tensor<2x2x4x8xbf16>, tensor<2x4x2xf32>
  %p, %lsp = dtc.attention %q, %k, %k scale 0.5 causal : tensor<2x2x4x8xbf16>, tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16> -> tensor<2x2x4x8xbf16>, tensor<2x4x2xf32>
  %r, %lsr = dtc.attention %one, %k, %k scale 0.5 causal : tensor<2x1x4x8xbf16>, tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16> -> tensor<2x1x4x8xbf16>, tensor<2x4x1xf32>
  %s, %lss = dtc.attention %q, %one, %one scale 0.5 : tensor<2x2x4x8xbf16>, tensor<2x1x4x8xbf16>, tensor<2x1x4x8xbf16> -> tensor<2x2x4x8xbf16>, tensor<2x4x2xf32>
  return %o, %p, %r, %s : tensor<2x2x4x8xbf16>, tensor<2x2x4x8xbf16>, tensor<2x1x4x8xbf16>, tensor<2x2x4x8xbf16>
}
