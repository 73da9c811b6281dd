// RUN: dtc-opt --dtc-train="hidden-ways=3 hidden-multiple=3 hidden-is-priced" %s --split-input-file | FileCheck %s
// A half more would be added, of which no price is known.
// RUN: dtc-opt --dtc-train="hidden-ways=3 hidden-multiple=3" %s --split-input-file | FileCheck --check-prefix=SAME %s
// RUN: dtc-opt --dtc-train="hidden-ways=2 hidden-multiple=2 hidden-is-priced" %s --split-input-file | FileCheck --check-prefix=SAME %s
// The plan whose padding this is had none of these dimensions, or one of each.
// RUN: dtc-opt --dtc-train="hidden-ways=3 hidden-multiple=3 hidden-is-priced hidden-of-some hidden-among=0:out_bias" %s --split-input-file | FileCheck --check-prefix=SAME %s
// RUN: dtc-opt --dtc-train="hidden-ways=3 hidden-multiple=3 hidden-is-priced hidden-of-some hidden-among=2:qkv,0:q" %s --split-input-file | FileCheck %s

// The fused projection, its bias and the output projection get two heads; files fill the first four.
// CHECK:       dtc.parameter trainable @qkv : tensor<8x3x6x2xf32> file tensor<8x24xf32> {dtc.filled = array<i64: 8, 3, 4, 2>}
// CHECK:       dtc.parameter trainable @bias : tensor<3x6x2xf32> file tensor<24xf32> {dtc.filled = array<i64: 3, 4, 2>}
// CHECK:       dtc.parameter trainable @out : tensor<6x2x8xf32> file tensor<8x8xf32> {dtc.filled = array<i64: 4, 2, 8>}
// CHECK:       dtc.parameter trainable @out_bias : tensor<8xf32> file tensor<8xf32>{{$}}
// CHECK-LABEL: func.func @loss_and_grads(
// CHECK:         dtc.attention {{.*}} causal {{.*}} : tensor<2x4x6x2xf32>, tensor<2x4x6x2xf32>, tensor<2x4x6x2xf32> -> tensor<2x4x6x2xf32>, tensor<2x6x4xf32>
// CHECK:         dtc.attention_grad {{.*}} -> tensor<2x4x6x2xf32>, tensor<2x4x6x2xf32>, tensor<2x4x6x2xf32>
// CHECK-LABEL: func.func @update(
// CHECK-SAME:    tensor<8x3x6x2xf32> {dtc.role = #dtc.role<state, "qkv", exp_avg>}

// SAME: dtc.parameter trainable @qkv : tensor<8x3x4x2xf32> file tensor<8x24xf32>{{$}}
// SAME: dtc.parameter trainable @out : tensor<4x2x8xf32> file tensor<8x8xf32>{{$}}
module {
  dtc.parameter trainable @qkv : tensor<8x3x4x2xf32> file tensor<8x24xf32>
  dtc.parameter trainable @bias : tensor<3x4x2xf32> file tensor<24xf32>
  dtc.parameter trainable @out : tensor<4x2x8xf32> file tensor<8x8xf32>
  dtc.parameter trainable @out_bias : tensor<8xf32> file tensor<8xf32>
  func.func @forward(
      %qkv: tensor<8x3x4x2xf32> {dtc.role = #dtc.role<parameter, "qkv">},
      %bias: tensor<3x4x2xf32> {dtc.role = #dtc.role<parameter, "bias">},
      %out: tensor<4x2x8xf32> {dtc.role = #dtc.role<parameter, "out">},
      %out_bias: tensor<8xf32> {dtc.role = #dtc.role<parameter, "out_bias">},
      %x: tensor<2x4x8xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<2x4x8xf32> {dtc.role = #dtc.role<output, "y">}) {
    %0 = dtc.contract %x [0, 1, 5], %qkv [5, 2, 3, 4] -> [0, 1, 2, 3, 4] : tensor<2x4x8xf32>, tensor<8x3x4x2xf32> -> tensor<2x4x3x4x2xf32>
    %1 = dtc.broadcast %bias [2, 3, 4] : tensor<3x4x2xf32> -> tensor<2x4x3x4x2xf32>
    %2 = arith.addf %0, %1 : tensor<2x4x3x4x2xf32>
    %3 = dtc.slice %2 offsets [0, 0, 0, 0, 0] strides [1, 1, 1, 1, 1] : tensor<2x4x3x4x2xf32> -> tensor<2x4x1x4x2xf32>
    %4 = dtc.slice %2 offsets [0, 0, 1, 0, 0] strides [1, 1, 1, 1, 1] : tensor<2x4x3x4x2xf32> -> tensor<2x4x1x4x2xf32>
    %5 = dtc.slice %2 offsets [0, 0, 2, 0, 0] strides [1, 1, 1, 1, 1] : tensor<2x4x3x4x2xf32> -> tensor<2x4x1x4x2xf32>
    %6 = dtc.reshape %3 : tensor<2x4x1x4x2xf32> -> tensor<2x4x4x2xf32>
    %7 = dtc.reshape %4 : tensor<2x4x1x4x2xf32> -> tensor<2x4x4x2xf32>
    %8 = dtc.reshape %5 : tensor<2x4x1x4x2xf32> -> tensor<2x4x4x2xf32>
    %9, %lse = dtc.attention %6, %7, %8 scale 5.0e-01 causal : tensor<2x4x4x2xf32>, tensor<2x4x4x2xf32>, tensor<2x4x4x2xf32> -> tensor<2x4x4x2xf32>, tensor<2x4x4xf32>
    %10 = dtc.contract %9 [0, 1, 3, 4], %out [3, 4, 2] -> [0, 1, 2] : tensor<2x4x4x2xf32>, tensor<4x2x8xf32> -> tensor<2x4x8xf32>
    %11 = dtc.broadcast %out_bias [2] : tensor<8xf32> -> tensor<2x4x8xf32>
    %12 = arith.addf %10, %11 : tensor<2x4x8xf32>
    return %12 : tensor<2x4x8xf32>
  }
}

// -----

// Two queries share each head of keys, so three heads of keys have six of queries. Queries are normalized head by head, and
// what turns them is the same for all heads. The bias is, too.
// CHECK:       dtc.parameter trainable @q : tensor<6x2x8xf32> file tensor<8x8xf32> {dtc.filled = array<i64: 4, 2, 8>}
// CHECK:       dtc.parameter trainable @k : tensor<3x2x8xf32> file tensor<4x8xf32> {dtc.filled = array<i64: 2, 2, 8>}
// CHECK:       dtc.parameter trainable @v : tensor<3x2x8xf32> file tensor<4x8xf32> {dtc.filled = array<i64: 2, 2, 8>}
// CHECK:       dtc.parameter trainable @scale : tensor<2xf32> file tensor<2xf32>{{$}}
// CHECK:       dtc.parameter trainable @out : tensor<8x6x2xf32> file tensor<8x8xf32> {dtc.filled = array<i64: 8, 4, 2>}
// CHECK-LABEL: func.func @loss_and_grads(
// CHECK-DAG:     dtc.broadcast {{.*}} [1, 3] {{.*}}-> tensor<2x4x6x2xf32>
// CHECK-DAG:     dtc.rms_norm {{.*}} -> tensor<2x4x6x2xf32>, tensor<2x4x6xf32>
// CHECK:         dtc.attention {{.*}} bias {{.*}} : tensor<2x4x6x2xf32>, tensor<2x4x3x2xf32>, tensor<2x4x3x2xf32> -> tensor<2x4x6x2xf32>, tensor<2x6x4xf32>

// SAME: dtc.parameter trainable @q : tensor<4x2x8xf32> file tensor<8x8xf32>{{$}}
// SAME: dtc.parameter trainable @k : tensor<2x2x8xf32> file tensor<4x8xf32>{{$}}
module {
  dtc.parameter trainable @q : tensor<4x2x8xf32> file tensor<8x8xf32>
  dtc.parameter trainable @k : tensor<2x2x8xf32> file tensor<4x8xf32>
  dtc.parameter trainable @v : tensor<2x2x8xf32> file tensor<4x8xf32>
  dtc.parameter trainable @scale : tensor<2xf32> file tensor<2xf32>
  dtc.parameter trainable @out : tensor<8x4x2xf32> file tensor<8x8xf32>
  func.func @forward(
      %q: tensor<4x2x8xf32> {dtc.role = #dtc.role<parameter, "q">},
      %k: tensor<2x2x8xf32> {dtc.role = #dtc.role<parameter, "k">},
      %v: tensor<2x2x8xf32> {dtc.role = #dtc.role<parameter, "v">},
      %scale: tensor<2xf32> {dtc.role = #dtc.role<parameter, "scale">},
      %out: tensor<8x4x2xf32> {dtc.role = #dtc.role<parameter, "out">},
      %x: tensor<2x4x8xf32> {dtc.role = #dtc.role<input, "x">},
      %turn: tensor<4x2xf32> {dtc.role = #dtc.role<input, "turn">},
      %mask: tensor<4x4xf32> {dtc.role = #dtc.role<input, "mask">})
      -> (tensor<2x4x8xf32> {dtc.role = #dtc.role<output, "y">}) {
    %0 = dtc.contract %x [0, 1, 4], %q [2, 3, 4] -> [0, 1, 2, 3] : tensor<2x4x8xf32>, tensor<4x2x8xf32> -> tensor<2x4x4x2xf32>
    %1 = dtc.contract %x [0, 1, 4], %k [2, 3, 4] -> [0, 1, 2, 3] : tensor<2x4x8xf32>, tensor<2x2x8xf32> -> tensor<2x4x2x2xf32>
    %2 = dtc.contract %x [0, 1, 4], %v [2, 3, 4] -> [0, 1, 2, 3] : tensor<2x4x8xf32>, tensor<2x2x8xf32> -> tensor<2x4x2x2xf32>
    %3, %rstd = dtc.rms_norm %0 scale %scale : tensor<2xf32> eps 1.0e-6 : tensor<2x4x4x2xf32> -> tensor<2x4x4x2xf32>, tensor<2x4x4xf32>
    %4 = dtc.broadcast %turn [1, 3] : tensor<4x2xf32> -> tensor<2x4x4x2xf32>
    %5 = arith.mulf %3, %4 : tensor<2x4x4x2xf32>
    %6 = dtc.slice %3 offsets [0, 0, 0, 0] strides [1, 1, 1, 1] : tensor<2x4x4x2xf32> -> tensor<2x4x4x1xf32>
    %7 = dtc.slice %3 offsets [0, 0, 0, 1] strides [1, 1, 1, 1] : tensor<2x4x4x2xf32> -> tensor<2x4x4x1xf32>
    %8 = dtc.concat 3(%7, %6) : tensor<2x4x4x1xf32>, tensor<2x4x4x1xf32> -> tensor<2x4x4x2xf32>
    %9 = arith.mulf %8, %4 : tensor<2x4x4x2xf32>
    %10 = arith.addf %5, %9 : tensor<2x4x4x2xf32>
    %11 = dtc.broadcast %mask [2, 3] : tensor<4x4xf32> -> tensor<2x4x4x4xf32>
    %12, %lse = dtc.attention %10, %1, %2 bias %11 : tensor<2x4x4x4xf32> scale 5.0e-01 : tensor<2x4x4x2xf32>, tensor<2x4x2x2xf32>, tensor<2x4x2x2xf32> -> tensor<2x4x4x2xf32>, tensor<2x4x4xf32>
    %13 = dtc.contract %12 [0, 1, 3, 4], %out [2, 3, 4] -> [0, 1, 2] : tensor<2x4x4x2xf32>, tensor<8x4x2xf32> -> tensor<2x4x8xf32>
    return %13 : tensor<2x4x8xf32>
  }
}
