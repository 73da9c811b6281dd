// What kernels and libraries compute, on parts of tensors and on other sizes than a kernel was made for.
// RUN: dtc-opt %s -split-input-file -dtc-interpret=fp64 -o /dev/null | FileCheck %s

// CHECK: result 0: tensor<2x2xf32> {{\[\[}}15, 22], [31, 46]]
// CHECK: result 1: tensor<2x2xf32> {{\[\[}}25, 42], [41, 66]]
// CHECK: result 2: tensor<2x2xf32> {{\[\[}}15, 22], [31, 46]]
// CHECK: result 3: tensor<2xf32> [7, 15]
// CHECK: result 4: tensor<2xf32> [4, 6]
// CHECK: result 5: tensor<2x1x1xf32> {{\[\[\[}}10]], {{\[\[}}78]]]
func.func @main() -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x1x1xf32>) {
  %x = arith.constant dense<[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]> : tensor<2x4xf32>
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %b = arith.constant dense<[10.0, 20.0]> : tensor<2xf32>
  %0 = exec.matmul %x, %w batch [] mnk [2, 2, 2] strides [4, 1], [2, 1] -> [2, 1] offsets [2, 0]
    : tensor<2x4xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
  %1 = exec.matmul %x, %w with %b batch [] mnk [2, 2, 2] strides [4, 1], [2, 1] -> [2, 1] offsets [2, 0] epilogue <bias>
    : tensor<2x4xf32>, tensor<2x2xf32>, tensor<2xf32> -> tensor<2x2xf32>
  %2, %3 = exec.matmul %x, %w batch [] mnk [2, 2, 2] strides [4, 1], [2, 1] -> [2, 1] offsets [2, 0] epilogue <sum_lhs>
    : tensor<2x4xf32>, tensor<2x2xf32> -> tensor<2x2xf32>, tensor<2xf32>
  %4, %5 = exec.matmul %x, %w batch [] mnk [2, 2, 2] strides [4, 1], [2, 1] -> [2, 1] offsets [2, 0] epilogue <sum_rhs>
    : tensor<2x4xf32>, tensor<2x2xf32> -> tensor<2x2xf32>, tensor<2xf32>
  // The first two elements of each row times its second and fourth.
  %6 = exec.matmul %x, %x batch [2] mnk [1, 1, 2] strides [4, 1, 1], [4, 2, 1] -> [1, 1, 1] offsets [0, 1]
    : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x1x1xf32>
  return %0, %1, %2, %3, %5, %6 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x1x1xf32>
}

// -----

// Each element by itself, so that the kernel serves tensors of any shape.
// CHECK: result 0: tensor<2x2xf32> {{\[\[}}4, 6], [8, 10]]
// CHECK: result 1: tensor<8xf32> [4, 6, 8, 10, 12, 14, 16, 18]
exec.kernel @twice extent 8 scratch 0 flat {
^bb0(%x: tensor<8xf32>, %by: tensor<f32>):
  %one = arith.constant dense<1.0> : tensor<8xf32>
  %0 = dtc.broadcast %by [] : tensor<f32> -> tensor<8xf32>
  %1 = arith.addf %x, %one : tensor<8xf32>
  %2 = arith.mulf %1, %0 : tensor<8xf32>
  exec.yield %2 : tensor<8xf32>
}
func.func @main() -> (tensor<2x2xf32>, tensor<8xf32>) {
  %two = arith.constant dense<2.0> : tensor<f32>
  %a = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %b = arith.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8xf32>
  %0 = exec.launch @twice(%a, %two) extent 4 in_place [-1] : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
  %1 = exec.launch @twice(%b, %two) extent 8 in_place [-1] : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %0, %1 : tensor<2x2xf32>, tensor<8xf32>
}

// -----

// What is added to a product, by strides that transpose its result, and beside a sum.
// CHECK: result 0: tensor<4xf32> [107, 315, 210, 422]
// CHECK: result 1: tensor<2x2xf32> {{\[\[}}107, 210], [315, 422]]
// CHECK: result 2: tensor<2xf32> [4, 6]
func.func @main() -> (tensor<4xf32>, tensor<2x2xf32>, tensor<2xf32>) {
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %line = arith.constant dense<[100.0, 300.0, 200.0, 400.0]> : tensor<4xf32>
  %rows = arith.constant dense<[[100.0, 200.0], [300.0, 400.0]]> : tensor<2x2xf32>
  %0 = exec.matmul %w, %w with %line batch [] mnk [2, 2, 2] strides [2, 1], [2, 1] -> [1, 2] offsets [0, 0]
    : tensor<2x2xf32>, tensor<2x2xf32>, tensor<4xf32> -> tensor<4xf32>
  %1, %2 = exec.matmul %w, %w with %rows batch [] mnk [2, 2, 2] strides [2, 1], [2, 1] -> [2, 1] offsets [0, 0] epilogue <sum_rhs>
    : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>, tensor<2xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<2x2xf32>, tensor<2xf32>
}

// -----

// What the gradient of a convolution's weight is added to.
// CHECK: result 0: tensor<1x1x2x2xf32> {{\[\[\[\[}}112, 216], [324, 428]]]]
func.func @main() -> tensor<1x1x2x2xf32> {
  %x = arith.constant dense<[[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]]> : tensor<1x1x3x3xf32>
  %dy = arith.constant dense<1.0> : tensor<1x1x2x2xf32>
  %before = arith.constant dense<[[[[100.0, 200.0], [300.0, 400.0]]]]> : tensor<1x1x2x2xf32>
  %0 = exec.conv_weight_grad %x, %dy with %before strides [1, 1] pad [0, 0], [0, 0] dilations [1, 1] groups 1
    : tensor<1x1x3x3xf32>, tensor<1x1x2x2xf32> -> tensor<1x1x2x2xf32>
  return %0 : tensor<1x1x2x2xf32>
}

// -----

// GELU and its gradient beside a product, as those of the graph.
// CHECK: result 0: tensor<2x8xf32> {{\[\[}}0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]]
// CHECK: result 1: tensor<2x8xf32> {{\[\[}}0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]]
// CHECK: result 2: tensor<2x8xf32> {{\[\[}}0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]]
func.func @main(%x: tensor<2x4xf32>, %w: tensor<4x8xf32>, %b: tensor<8xf32>, %h: tensor<2x8xf32>)
    -> (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) {
  %0 = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] : tensor<2x4xf32>, tensor<4x8xf32> -> tensor<2x8xf32>
  %1 = dtc.broadcast %b [1] : tensor<8xf32> -> tensor<2x8xf32>
  %2 = arith.addf %0, %1 : tensor<2x8xf32>
  %3 = dtc.activation gelu_tanh %2 : tensor<2x8xf32>
  %4 = dtc.activation_grad gelu_tanh %h, %0 : tensor<2x8xf32>
  %5, %6 = exec.matmul %x, %w with %b batch [] mnk [2, 8, 4] strides [4, 1], [8, 1] -> [8, 1] offsets [0, 0]
    epilogue <bias_gelu> : tensor<2x4xf32>, tensor<4x8xf32>, tensor<8xf32> -> tensor<2x8xf32>, tensor<2x8xf32>
  %7 = exec.matmul %x, %w with %h batch [] mnk [2, 8, 4] strides [4, 1], [8, 1] -> [8, 1] offsets [0, 0]
    epilogue <gelu_grad> : tensor<2x4xf32>, tensor<4x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %8 = arith.subf %3, %5 : tensor<2x8xf32>
  %9 = arith.subf %2, %6 : tensor<2x8xf32>
  %10 = arith.subf %4, %7 : tensor<2x8xf32>
  return %8, %9, %10 : tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>
}

// -----

// Queries, keys and values in one tensor, and their gradients in another. These are computed of the statistics, as libraries do.
// Beside 1 their difference from the gradient of the whole attention is nothing.
// CHECK: result 0: tensor<1x2x1x2xf32> {{\[\[\[\[}}0, 0]], {{\[\[}}0, 0]]]]
// CHECK: result 1: tensor<1x1x2xf32> {{\[\[\[}}0, 0]]]
// CHECK: result 2: tensor<1x2x6xf32> {{\[\[\[}}0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]]]
// CHECK: result 3: tensor<1x2x6xf32> {{\[\[\[}}0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]]]
func.func @main(%qkv: tensor<1x2x6xf32>, %g: tensor<1x2x1x2xf32>)
    -> (tensor<1x2x1x2xf32>, tensor<1x1x2xf32>, tensor<1x2x6xf32>, tensor<1x2x6xf32>) {
  %0 = dtc.slice %qkv offsets [0, 0, 0] strides [1, 1, 1] : tensor<1x2x6xf32> -> tensor<1x2x2xf32>
  %1 = dtc.slice %qkv offsets [0, 0, 2] strides [1, 1, 1] : tensor<1x2x6xf32> -> tensor<1x2x2xf32>
  %2 = dtc.slice %qkv offsets [0, 0, 4] strides [1, 1, 1] : tensor<1x2x6xf32> -> tensor<1x2x2xf32>
  %q = dtc.reshape %0 : tensor<1x2x2xf32> -> tensor<1x2x1x2xf32>
  %k = dtc.reshape %1 : tensor<1x2x2xf32> -> tensor<1x2x1x2xf32>
  %v = dtc.reshape %2 : tensor<1x2x2xf32> -> tensor<1x2x1x2xf32>
  %o, %lse = dtc.attention %q, %k, %v scale 0.5 causal : tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>
    -> tensor<1x2x1x2xf32>, tensor<1x1x2xf32>
  %dq, %dk, %dv = dtc.attention_part_grad %q, %k, %v, %o, %lse, %g scale 0.5 causal
    : tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>, tensor<1x1x2xf32>, tensor<1x2x1x2xf32>
    -> tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>
  %all = dtc.concat 2 (%dq, %dk, %dv) : tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32> -> tensor<1x2x3x2xf32>
  %joined = dtc.reshape %all : tensor<1x2x3x2xf32> -> tensor<1x2x6xf32>
  %p, %m = exec.attention (%qkv, %qkv, %qkv) scale 0.5 causal
    places [#exec.place<0, [1, 2, 1, 2], [12, 6, 2, 1]>, #exec.place<2, [1, 2, 1, 2], [12, 6, 2, 1]>,
            #exec.place<4, [1, 2, 1, 2], [12, 6, 2, 1]>, #exec.place<0, [1, 2, 1, 2], [4, 2, 2, 1]>,
            #exec.place<0, [1, 1, 2], [2, 2, 1]>] into [0, 1]
    : (tensor<1x2x6xf32>, tensor<1x2x6xf32>, tensor<1x2x6xf32>) -> (tensor<1x2x1x2xf32>, tensor<1x1x2xf32>)
  %d = exec.attention backward (%qkv, %qkv, %qkv, %p, %m, %g) scale 0.5 causal
    places [#exec.place<0, [1, 2, 1, 2], [12, 6, 2, 1]>, #exec.place<2, [1, 2, 1, 2], [12, 6, 2, 1]>,
            #exec.place<4, [1, 2, 1, 2], [12, 6, 2, 1]>, #exec.place<0, [1, 2, 1, 2], [4, 2, 2, 1]>,
            #exec.place<0, [1, 1, 2], [2, 2, 1]>, #exec.place<0, [1, 2, 1, 2], [4, 2, 2, 1]>,
            #exec.place<0, [1, 2, 1, 2], [12, 6, 2, 1]>, #exec.place<2, [1, 2, 1, 2], [12, 6, 2, 1]>,
            #exec.place<4, [1, 2, 1, 2], [12, 6, 2, 1]>] into [0, 0, 0]
    : (tensor<1x2x6xf32>, tensor<1x2x6xf32>, tensor<1x2x6xf32>, tensor<1x2x1x2xf32>, tensor<1x1x2xf32>, tensor<1x2x1x2xf32>)
    -> tensor<1x2x6xf32>
  %r0 = arith.subf %o, %p : tensor<1x2x1x2xf32>
  %r1 = arith.subf %lse, %m : tensor<1x1x2xf32>
  %r2 = arith.subf %joined, %d : tensor<1x2x6xf32>
  %wq, %wk, %wv = dtc.attention_grad %q, %k, %v, %o, %lse, %g scale 0.5 causal
    : tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>, tensor<1x1x2xf32>, tensor<1x2x1x2xf32>
    -> tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>
  %whole = dtc.concat 2 (%wq, %wk, %wv) : tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32> -> tensor<1x2x3x2xf32>
  %wjoined = dtc.reshape %whole : tensor<1x2x3x2xf32> -> tensor<1x2x6xf32>
  %one = arith.constant dense<1.0> : tensor<1x2x6xf32>
  %apart = arith.subf %wjoined, %d : tensor<1x2x6xf32>
  %beside = arith.addf %apart, %one : tensor<1x2x6xf32>
  %r3 = arith.subf %beside, %one : tensor<1x2x6xf32>
  return %r0, %r1, %r2, %r3 : tensor<1x2x1x2xf32>, tensor<1x1x2xf32>, tensor<1x2x6xf32>, tensor<1x2x6xf32>
}
