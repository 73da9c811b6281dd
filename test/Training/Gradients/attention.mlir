// RUN: dtc-opt --dtc-check-gradients --verify-diagnostics %s

// expected-remark@+1 {{gradient ok: 108 elements}}
func.func @plain(%q: tensor<1x3x2x6xf32>, %k: tensor<1x4x2x6xf32>, %v: tensor<1x4x2x3xf32>) -> tensor<1x3x2x3xf32> attributes {check_gradients} {
  %y, %lse = dtc.attention %q, %k, %v scale 0.4 : tensor<1x3x2x6xf32>, tensor<1x4x2x6xf32>, tensor<1x4x2x3xf32> -> tensor<1x3x2x3xf32>, tensor<1x2x3xf32>
  return %y : tensor<1x3x2x3xf32>
}

// As many queries as keys: the causal mask is the lower triangle.
// expected-remark@+1 {{gradient ok: 80 elements}}
func.func @causal(%q: tensor<2x4x1x3xf32>, %k: tensor<2x4x1x3xf32>, %v: tensor<2x4x1x4xf32>) -> tensor<2x4x1x4xf32> attributes {check_gradients} {
  %y, %lse = dtc.attention %q, %k, %v scale 0.7 causal : tensor<2x4x1x3xf32>, tensor<2x4x1x3xf32>, tensor<2x4x1x4xf32> -> tensor<2x4x1x4xf32>, tensor<2x1x4xf32>
  return %y : tensor<2x4x1x4xf32>
}

// More keys than queries: the last query sees all; and more queries than keys:
// the first ones see nothing.
// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @causal_more_keys(%q: tensor<1x2x1x3xf32>, %k: tensor<1x4x1x3xf32>, %v: tensor<1x4x1x3xf32>) -> tensor<1x2x1x3xf32> attributes {check_gradients} {
  %y, %lse = dtc.attention %q, %k, %v scale 0.7 causal : tensor<1x2x1x3xf32>, tensor<1x4x1x3xf32>, tensor<1x4x1x3xf32> -> tensor<1x2x1x3xf32>, tensor<1x1x2xf32>
  return %y : tensor<1x2x1x3xf32>
}

// expected-remark@+1 {{gradient ok: 24 elements}}
func.func @causal_more_queries(%q: tensor<1x4x1x3xf32>, %k: tensor<1x2x1x3xf32>, %v: tensor<1x2x1x3xf32>) -> tensor<1x4x1x3xf32> attributes {check_gradients} {
  %y, %lse = dtc.attention %q, %k, %v scale 0.7 causal : tensor<1x4x1x3xf32>, tensor<1x2x1x3xf32>, tensor<1x2x1x3xf32> -> tensor<1x4x1x3xf32>, tensor<1x1x4xf32>
  return %y : tensor<1x4x1x3xf32>
}

// Each query sees its last two keys.
// expected-remark@+1 {{gradient ok: 80 elements}}
func.func @window(%q: tensor<2x4x1x3xf32>, %k: tensor<2x4x1x3xf32>, %v: tensor<2x4x1x4xf32>) -> tensor<2x4x1x4xf32> attributes {check_gradients} {
  %y, %lse = dtc.attention %q, %k, %v scale 0.7 causal window 2 : tensor<2x4x1x3xf32>, tensor<2x4x1x3xf32>, tensor<2x4x1x4xf32> -> tensor<2x4x1x4xf32>, tensor<2x1x4xf32>
  return %y : tensor<2x4x1x4xf32>
}

// Windows end where queries do, of 4 keys at 3 and 4; a bias gets its gradient, too.
// expected-remark@+1 {{gradient ok: 52 elements}}
func.func @window_more_keys(%q: tensor<1x2x2x3xf32>, %k: tensor<1x4x1x3xf32>, %v: tensor<1x4x1x3xf32>, %bias: tensor<1x2x2x4xf32>) -> tensor<1x2x2x3xf32> attributes {check_gradients} {
  %y, %lse = dtc.attention %q, %k, %v bias %bias : tensor<1x2x2x4xf32> scale 0.7 causal window 3 : tensor<1x2x2x3xf32>, tensor<1x4x1x3xf32>, tensor<1x4x1x3xf32> -> tensor<1x2x2x3xf32>, tensor<1x2x2xf32>
  return %y : tensor<1x2x2x3xf32>
}

// expected-remark@+1 {{gradient ok: 96 elements}}
func.func @grouped_causal(%q: tensor<1x3x6x3xf32>, %k: tensor<1x3x2x3xf32>, %v: tensor<1x3x2x4xf32>) -> tensor<1x3x6x4xf32> attributes {check_gradients} {
  %y, %lse = dtc.attention %q, %k, %v scale 0.5 causal : tensor<1x3x6x3xf32>, tensor<1x3x2x3xf32>, tensor<1x3x2x4xf32> -> tensor<1x3x6x4xf32>, tensor<1x6x3xf32>
  return %y : tensor<1x3x6x4xf32>
}

// A learned bias gets its gradient too.
// expected-remark@+1 {{gradient ok: 96 elements}}
func.func @grouped_bias(%q: tensor<1x2x4x3xf32>, %k: tensor<1x4x2x3xf32>, %v: tensor<1x4x2x2xf32>, %bias: tensor<1x4x2x4xf32>) -> tensor<1x2x4x2xf32> attributes {check_gradients} {
  %y, %lse = dtc.attention %q, %k, %v bias %bias : tensor<1x4x2x4xf32> scale 0.5 : tensor<1x2x4x3xf32>, tensor<1x4x2x3xf32>, tensor<1x4x2x2xf32> -> tensor<1x2x4x2xf32>, tensor<1x4x2xf32>
  return %y : tensor<1x2x4x2xf32>
}

// A mask that hides every key of one query.
// expected-remark@+1 {{gradient ok: 24 elements}}
func.func @masked_row(%q: tensor<1x2x1x4xf32>, %k: tensor<1x2x1x4xf32>, %v: tensor<1x2x1x4xf32>) -> tensor<1x2x1x4xf32> attributes {check_gradients} {
  %bias = arith.constant dense<[[[[0.0, 0xFF800000], [0xFF800000, 0xFF800000]]]]> : tensor<1x1x2x2xf32>
  %y, %lse = dtc.attention %q, %k, %v bias %bias : tensor<1x1x2x2xf32> scale 0.5 : tensor<1x2x1x4xf32>, tensor<1x2x1x4xf32>, tensor<1x2x1x4xf32> -> tensor<1x2x1x4xf32>, tensor<1x1x2xf32>
  return %y : tensor<1x2x1x4xf32>
}

// A bias hides all keys of the first query, which then sees all of them alike, and one of the second.
// expected-remark@+1 {{gradient ok: 6 elements}}
func.func @hidden_keys(%v: tensor<1x3x1x2xf32>) -> tensor<1x2x1x2xf32> attributes {check_gradients} {
  %q = arith.constant dense<[[[[0.3, -0.2]], [[0.5, 0.1]]]]> : tensor<1x2x1x2xf32>
  %k = arith.constant dense<[[[[0.7, 0.4]], [[-0.6, 0.2]], [[0.1, -0.9]]]]> : tensor<1x3x1x2xf32>
  %bias = arith.constant dense<[[[[-3.40282347E+38, -3.40282347E+38, -3.40282347E+38], [0.0, -3.40282347E+38, 0.0]]]]> : tensor<1x1x2x3xf32>
  %y, %lse = dtc.attention %q, %k, %v bias %bias : tensor<1x1x2x3xf32> scale 0.5 : tensor<1x2x1x2xf32>, tensor<1x3x1x2xf32>, tensor<1x3x1x2xf32> -> tensor<1x2x1x2xf32>, tensor<1x1x2xf32>
  return %y : tensor<1x2x1x2xf32>
}
