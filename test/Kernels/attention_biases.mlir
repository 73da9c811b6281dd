// A bias is given to a GPU's library in the one form that a true GPU had right: a number of the operands'
// type for each head, query and key, of one sample where all share them, and none that is large. Attention
// with any other becomes products and kernels, as on processors.
// RUN: dtc-opt --target=cuda %s -split-input-file --dtc-decompose-layers | FileCheck %s
// RUN: dtc-opt %s -split-input-file --dtc-decompose-layers | FileCheck %s --check-prefix=CPU

// CPU-NOT: dtc.attention

// Distances by head. The gradient takes the same bias.
// CHECK-LABEL: func.func @distances
// CHECK: %[[BIAS:.*]] = dtc.broadcast %{{.*}} [1, 2, 3] : tensor<4x16x16xbf16> -> tensor<1x4x16x16xbf16>
// CHECK: dtc.attention %arg0, %arg0, %arg0 bias %[[BIAS]] : tensor<1x4x16x16xbf16> scale 5.000000e-01 causal :
// CHECK: dtc.attention_grad %arg0, {{.*}} bias %[[BIAS]] : tensor<1x4x16x16xbf16>
func.func @distances(%q: tensor<2x16x4x8xbf16>, %near: tensor<4x16x16xi1>) -> (tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>) {
  %zero = arith.constant dense<0.0> : tensor<4x16x16xbf16>
  %far = arith.constant dense<-1.0e+3> : tensor<4x16x16xbf16>
  %b = arith.select %near, %zero, %far : tensor<4x16x16xi1>, tensor<4x16x16xbf16>
  %bias = dtc.broadcast %b [1, 2, 3] : tensor<4x16x16xbf16> -> tensor<2x4x16x16xbf16>
  %o, %lse = dtc.attention %q, %q, %q bias %bias : tensor<2x4x16x16xbf16> scale 0.5 causal : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>
  %dq, %dk, %dv = dtc.attention_grad %q, %q, %q, %o, %lse, %q bias %bias : tensor<2x4x16x16xbf16> scale 0.5 causal : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>
  return %o, %dq : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>
}

// -----

// The same in fp32, beside a window, for each sample, and large ones.
// CHECK-LABEL: func.func @unseen
// CHECK-NOT: dtc.attention
// CHECK: return
func.func @unseen(%q: tensor<2x16x4x8xbf16>, %near: tensor<4x16x16xi1>, %own: tensor<2x4x16x16xi1>)
    -> (tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>) {
  %zero = arith.constant dense<0.0> : tensor<4x16x16xf32>
  %far = arith.constant dense<-1.0e+3> : tensor<4x16x16xf32>
  %b = arith.select %near, %zero, %far : tensor<4x16x16xi1>, tensor<4x16x16xf32>
  %wide = dtc.broadcast %b [1, 2, 3] : tensor<4x16x16xf32> -> tensor<2x4x16x16xf32>
  %h = arith.truncf %b : tensor<4x16x16xf32> to tensor<4x16x16xbf16>
  %halves = dtc.broadcast %h [1, 2, 3] : tensor<4x16x16xbf16> -> tensor<2x4x16x16xbf16>
  %none = arith.constant dense<0.0> : tensor<2x4x16x16xbf16>
  %less = arith.constant dense<-1.0> : tensor<2x4x16x16xbf16>
  %each = arith.select %own, %none, %less : tensor<2x4x16x16xi1>, tensor<2x4x16x16xbf16>
  %least = arith.constant dense<-3.38953139E+38> : tensor<4x16x16xbf16>
  %l = arith.minimumf %h, %least : tensor<4x16x16xbf16>
  %large = dtc.broadcast %l [1, 2, 3] : tensor<4x16x16xbf16> -> tensor<2x4x16x16xbf16>
  %o, %ol = dtc.attention %q, %q, %q bias %wide : tensor<2x4x16x16xf32> scale 0.5 : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>
  %p, %pl = dtc.attention %q, %q, %q bias %halves : tensor<2x4x16x16xbf16> scale 0.5 causal window 4 : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>
  %r, %rl = dtc.attention %q, %q, %q bias %each : tensor<2x4x16x16xbf16> scale 0.5 : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>
  %s, %sl = dtc.attention %q, %q, %q bias %large : tensor<2x4x16x16xbf16> scale 0.5 : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>
  return %o, %p, %r, %s : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>
}

// -----

// Masks of keys, of fp32 and of the operands' type.
// CHECK-LABEL: func.func @padding
// CHECK-NOT: dtc.attention
// CHECK: return
func.func @padding(%q: tensor<2x16x4x8xbf16>, %seen: tensor<2x16xi1>) -> (tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>) {
  %zero = arith.constant dense<0.0> : tensor<2x16xf32>
  %lowest = arith.constant dense<-1.0e+3> : tensor<2x16xf32>
  %mask = arith.select %seen, %zero, %lowest : tensor<2x16xi1>, tensor<2x16xf32>
  %bias = dtc.broadcast %mask [0, 3] : tensor<2x16xf32> -> tensor<2x4x16x16xf32>
  %half = arith.truncf %mask : tensor<2x16xf32> to tensor<2x16xbf16>
  %halves = dtc.broadcast %half [0, 3] : tensor<2x16xbf16> -> tensor<2x4x16x16xbf16>
  %o, %ol = dtc.attention %q, %q, %q bias %bias : tensor<2x4x16x16xf32> scale 0.5 : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>
  %p, %pl = dtc.attention %q, %q, %q bias %halves : tensor<2x4x16x16xbf16> scale 0.5 : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>
  return %o, %p : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>
}

// -----

// What is infinite, or what the user gives, isn't known to be small.
// CHECK-LABEL: func.func @unknown
// CHECK-NOT: dtc.attention
// CHECK: return
func.func @unknown(%q: tensor<2x16x4x8xbf16>, %near: tensor<4x16x16xi1>, %given: tensor<4x16x16xbf16>) -> (tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>) {
  %zero = arith.constant dense<0.0> : tensor<4x16x16xbf16>
  %never = arith.constant dense<0xFF80> : tensor<4x16x16xbf16>
  %b = arith.select %near, %zero, %never : tensor<4x16x16xi1>, tensor<4x16x16xbf16>
  %infinite = dtc.broadcast %b [1, 2, 3] : tensor<4x16x16xbf16> -> tensor<2x4x16x16xbf16>
  %theirs = dtc.broadcast %given [1, 2, 3] : tensor<4x16x16xbf16> -> tensor<2x4x16x16xbf16>
  %o, %ol = dtc.attention %q, %q, %q bias %infinite : tensor<2x4x16x16xbf16> scale 0.5 : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>
  %p, %pl = dtc.attention %q, %q, %q bias %theirs : tensor<2x4x16x16xbf16> scale 0.5 : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>, tensor<2x4x16xf32>
  return %o, %p : tensor<2x16x4x8xbf16>, tensor<2x16x4x8xbf16>
}

// -----

// cuDNN has no bias beside a causal mask whose queries begin within the keys. NVIDIA knows of wrong results
// of one query below a causal mask, and has no gradients of one key.
// CHECK-LABEL: func.func @shifted
// CHECK-NOT: dtc.attention
// CHECK: dtc.attention %arg0, %arg1, %arg1 scale 5.000000e-01 causal :
// CHECK-NOT: dtc.attention
// CHECK: return
func.func @shifted(%q: tensor<2x2x4x8xbf16>, %k: tensor<2x3x4x8xbf16>, %one: tensor<2x1x4x8xbf16>)
    -> (tensor<2x2x4x8xbf16>, tensor<2x2x4x8xbf16>, tensor<2x1x4x8xbf16>, tensor<2x2x4x8xbf16>) {
  %near = arith.constant dense<[[0.0, -1.0e+3, 0.0], [-1.0e+3, 0.0, 0.0]]> : tensor<2x3xbf16>
  %bias = dtc.broadcast %near [2, 3] : tensor<2x3xbf16> -> tensor<2x4x2x3xbf16>
  %o, %lse = dtc.attention %q, %k, %k bias %bias : tensor<2x4x2x3xbf16> scale 0.5 causal : tensor<2x2x4x8xbf16>, tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16> -> tensor<2x2x4x8xbf16>, tensor<2x4x2xf32>
  %p, %lsp = dtc.attention %q, %k, %k scale 0.5 causal : tensor<2x2x4x8xbf16>, tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16> -> tensor<2x2x4x8xbf16>, tensor<2x4x2xf32>
  %r, %lsr = dtc.attention %one, %k, %k scale 0.5 causal : tensor<2x1x4x8xbf16>, tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16> -> tensor<2x1x4x8xbf16>, tensor<2x4x1xf32>
  %s, %lss = dtc.attention %q, %one, %one scale 0.5 : tensor<2x2x4x8xbf16>, tensor<2x1x4x8xbf16>, tensor<2x1x4x8xbf16> -> tensor<2x2x4x8xbf16>, tensor<2x4x2xf32>
  return %o, %p, %r, %s : tensor<2x2x4x8xbf16>, tensor<2x2x4x8xbf16>, tensor<2x1x4x8xbf16>, tensor<2x2x4x8xbf16>
}
