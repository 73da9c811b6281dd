// RUN: dtc-opt --split-input-file --dtc-raise %s | FileCheck %s

// The causal mask is proven from its comparison of positions, whatever the length.
// CHECK-LABEL: func @causal_by_expression
// CHECK-SAME: (%[[Q:.*]]: tensor<2x4096x4x16xf32>, %[[K:.*]]: tensor<2x4096x4x16xf32>, %[[V:.*]]: tensor<2x4096x4x16xf32>)
// CHECK-NEXT: %[[R:.*]], %{{.*}} = dtc.attention %[[Q]], %[[K]], %[[V]] scale 2.500000e-01 causal
// CHECK-NEXT: return %[[R]]
func.func @causal_by_expression(%q: tensor<2x4096x4x16xf32>, %k: tensor<2x4096x4x16xf32>, %v: tensor<2x4096x4x16xf32>) -> tensor<2x4096x4x16xf32> {
  %half = arith.constant dense<0.5> : tensor<2x4096x4x16xf32>
  %zero = arith.constant dense<0.0> : tensor<4096x4096xf32>
  %low = arith.constant dense<-3.40282347E+38> : tensor<4096x4096xf32>
  %row = dtc.iota 0 : tensor<4096x4096xi64>
  %column = dtc.iota 1 : tensor<4096x4096xi64>
  %seen = arith.cmpi sle, %column, %row : tensor<4096x4096xi64>
  %mask = arith.select %seen, %zero, %low : tensor<4096x4096xi1>, tensor<4096x4096xf32>
  %term = dtc.broadcast %mask [2, 3] : tensor<4096x4096xf32> -> tensor<2x4x4096x4096xf32>
  %qs = arith.mulf %q, %half : tensor<2x4096x4x16xf32>
  %ks = arith.mulf %k, %half : tensor<2x4096x4x16xf32>
  %s = dtc.contract %qs [0, 2, 1, 4], %ks [0, 3, 1, 4] -> [0, 1, 2, 3] : tensor<2x4096x4x16xf32>, tensor<2x4096x4x16xf32> -> tensor<2x4x4096x4096xf32>
  %m = arith.addf %s, %term : tensor<2x4x4096x4096xf32>
  %p = dtc.softmax %m 3 : tensor<2x4x4096x4096xf32>
  %r = dtc.contract %p [0, 2, 1, 4], %v [0, 4, 2, 3] -> [0, 1, 2, 3] : tensor<2x4x4096x4096xf32>, tensor<2x4096x4x16xf32> -> tensor<2x4096x4x16xf32>
  return %r : tensor<2x4096x4x16xf32>
}

// -----

// One position off, the mask is not causal: it stays, as a bias.
// CHECK-LABEL: func @strictly_lower
// CHECK: dtc.attention {{.*}} bias %{{.*}} : tensor<2x1x8x8xf32> scale 1.000000e+00 : tensor<2x8x1x16xf32>
func.func @strictly_lower(%q: tensor<2x8x16xf32>, %k: tensor<2x8x16xf32>, %v: tensor<2x8x16xf32>) -> tensor<2x8x16xf32> {
  %zero = arith.constant dense<0.0> : tensor<8x8xf32>
  %low = arith.constant dense<-3.40282347E+38> : tensor<8x8xf32>
  %row = dtc.iota 0 : tensor<8x8xi64>
  %column = dtc.iota 1 : tensor<8x8xi64>
  %seen = arith.cmpi slt, %column, %row : tensor<8x8xi64>
  %mask = arith.select %seen, %zero, %low : tensor<8x8xi1>, tensor<8x8xf32>
  %term = dtc.broadcast %mask [1, 2] : tensor<8x8xf32> -> tensor<2x8x8xf32>
  %s = dtc.contract %q [0, 1, 3], %k [0, 2, 3] -> [0, 1, 2] : tensor<2x8x16xf32>, tensor<2x8x16xf32> -> tensor<2x8x8xf32>
  %m = arith.addf %s, %term : tensor<2x8x8xf32>
  %p = dtc.softmax %m 2 : tensor<2x8x8xf32>
  %r = dtc.contract %p [0, 1, 3], %v [0, 3, 2] -> [0, 1, 2] : tensor<2x8x8xf32>, tensor<2x8x16xf32> -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// -----

// A constant mask is looked at element by element; the guard against NaN goes.
// CHECK-LABEL: func @causal_by_elements
// CHECK: dtc.attention {{.*}} scale 2.500000e-01 causal
// CHECK-NOT: arith.select
func.func @causal_by_elements(%q: tensor<2x2x1x16xf32>, %k: tensor<2x3x1x16xf32>, %v: tensor<2x3x1x16xf32>) -> tensor<2x2x1x16xf32> {
  %four = arith.constant dense<4.0> : tensor<2x1x2x3xf32>
  %zero = arith.constant dense<0.0> : tensor<2x1x2x3xf32>
  %mask = arith.constant dense<[[0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0]]> : tensor<2x3xf32>
  %term = dtc.broadcast %mask [2, 3] : tensor<2x3xf32> -> tensor<2x1x2x3xf32>
  %s = dtc.contract %q [0, 2, 1, 4], %k [0, 3, 1, 4] -> [0, 1, 2, 3] : tensor<2x2x1x16xf32>, tensor<2x3x1x16xf32> -> tensor<2x1x2x3xf32>
  %d = arith.divf %s, %four : tensor<2x1x2x3xf32>
  %m = arith.addf %d, %term : tensor<2x1x2x3xf32>
  %p = dtc.softmax %m 3 : tensor<2x1x2x3xf32>
  %nan = arith.cmpf une, %p, %p : tensor<2x1x2x3xf32>
  %g = arith.select %nan, %zero, %p : tensor<2x1x2x3xi1>, tensor<2x1x2x3xf32>
  %r = dtc.contract %g [0, 2, 1, 4], %v [0, 4, 2, 3] -> [0, 1, 2, 3] : tensor<2x1x2x3xf32>, tensor<2x3x1x16xf32> -> tensor<2x2x1x16xf32>
  return %r : tensor<2x2x1x16xf32>
}

// -----

// Of a sum with the causal mask the rest stays as a bias, here ALiBi's slopes times positions.
// CHECK-LABEL: func @causal_and_slopes
// CHECK: %[[ALIBI:.*]] = dtc.broadcast %{{.*}} [1, 3] : tensor<2x8xf32> -> tensor<2x2x8x8xf32>
// CHECK: dtc.attention {{.*}} bias %[[ALIBI]] : tensor<2x2x8x8xf32> scale 1.000000e+00 causal
func.func @causal_and_slopes(%q: tensor<2x8x2x16xf32>, %k: tensor<2x8x2x16xf32>, %v: tensor<2x8x2x16xf32>) -> tensor<2x2x8x16xf32> {
  %zero = arith.constant dense<0.0> : tensor<8x8xf32>
  %low = arith.constant dense<-3.40282347E+38> : tensor<8x8xf32>
  %slopes = arith.constant dense<[[0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5], [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75]]> : tensor<2x8xf32>
  %row = dtc.iota 0 : tensor<8x8xi64>
  %column = dtc.iota 1 : tensor<8x8xi64>
  %seen = arith.cmpi sle, %column, %row : tensor<8x8xi64>
  %mask = arith.select %seen, %zero, %low : tensor<8x8xi1>, tensor<8x8xf32>
  %term = dtc.broadcast %mask [2, 3] : tensor<8x8xf32> -> tensor<2x2x8x8xf32>
  %alibi = dtc.broadcast %slopes [1, 3] : tensor<2x8xf32> -> tensor<2x2x8x8xf32>
  %s = dtc.contract %q [0, 2, 1, 4], %k [0, 3, 1, 4] -> [0, 1, 2, 3] : tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32> -> tensor<2x2x8x8xf32>
  %a = arith.addf %s, %alibi : tensor<2x2x8x8xf32>
  %m = arith.addf %a, %term : tensor<2x2x8x8xf32>
  %p = dtc.softmax %m 3 : tensor<2x2x8x8xf32>
  %r = dtc.contract %p [0, 1, 2, 4], %v [0, 4, 1, 3] -> [0, 1, 2, 3] : tensor<2x2x8x8xf32>, tensor<2x8x2x16xf32> -> tensor<2x2x8x16xf32>
  return %r : tensor<2x2x8x16xf32>
}

// -----

// What padding hides isn't known: a row could be left without any key.
// CHECK-LABEL: func @causal_and_padding
// CHECK: dtc.attention {{.*}} bias
// CHECK-NOT: causal
// CHECK: return
func.func @causal_and_padding(%q: tensor<2x8x2x16xf32>, %k: tensor<2x8x2x16xf32>, %v: tensor<2x8x2x16xf32>, %padding: tensor<2x8xi1>) -> tensor<2x8x2x16xf32> {
  %zero = arith.constant dense<0.0> : tensor<8x8xf32>
  %low = arith.constant dense<-3.40282347E+38> : tensor<8x8xf32>
  %row = dtc.iota 0 : tensor<8x8xi64>
  %column = dtc.iota 1 : tensor<8x8xi64>
  %seen = arith.cmpi sle, %column, %row : tensor<8x8xi64>
  %mask = arith.select %seen, %zero, %low : tensor<8x8xi1>, tensor<8x8xf32>
  %term = dtc.broadcast %mask [2, 3] : tensor<8x8xf32> -> tensor<2x2x8x8xf32>
  %none = arith.constant dense<0.0> : tensor<2x8xf32>
  %all = arith.constant dense<-3.40282347E+38> : tensor<2x8xf32>
  %keys = arith.select %padding, %all, %none : tensor<2x8xi1>, tensor<2x8xf32>
  %hidden = dtc.broadcast %keys [0, 3] : tensor<2x8xf32> -> tensor<2x2x8x8xf32>
  %bias = arith.addf %hidden, %term : tensor<2x2x8x8xf32>
  %r, %lse = dtc.attention %q, %k, %v bias %bias : tensor<2x2x8x8xf32> scale 1.0 : tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32> -> tensor<2x8x2x16xf32>, tensor<2x2x8xf32>
  return %r : tensor<2x8x2x16xf32>
}

// -----

// The mask of a window becomes an attribute, whatever the order of the conditions and units in shapes.
// CHECK-LABEL: func @window
// CHECK: dtc.attention %arg0, %arg1, %arg1 scale 2.500000e-01 causal window 128 :
func.func @window(%q: tensor<2x4096x4x16xf32>, %k: tensor<2x4096x4x16xf32>) -> tensor<2x4096x4x16xf32> {
  %zero = arith.constant dense<0.0> : tensor<1x4096x4096xf32>
  %low = arith.constant dense<-3.40282347E+38> : tensor<1x4096x4096xf32>
  %before = arith.constant dense<-128> : tensor<4096xi64>
  %i = dtc.iota 0 : tensor<4096xi64>
  %first = arith.addi %i, %before : tensor<4096xi64>
  %column = dtc.broadcast %i [2] : tensor<4096xi64> -> tensor<1x4096x4096xi64>
  %row = dtc.broadcast %i [1] : tensor<4096xi64> -> tensor<1x4096x4096xi64>
  %firsts = dtc.broadcast %first [1] : tensor<4096xi64> -> tensor<1x4096x4096xi64>
  %near = arith.cmpi sgt, %column, %firsts : tensor<1x4096x4096xi64>
  %past = arith.cmpi sle, %column, %row : tensor<1x4096x4096xi64>
  %seen = arith.andi %near, %past : tensor<1x4096x4096xi1>
  %mask = arith.select %seen, %zero, %low : tensor<1x4096x4096xi1>, tensor<1x4096x4096xf32>
  %flat = dtc.reshape %mask : tensor<1x4096x4096xf32> -> tensor<4096x4096xf32>
  %bias = dtc.broadcast %flat [2, 3] : tensor<4096x4096xf32> -> tensor<2x4x4096x4096xf32>
  %y, %lse = dtc.attention %q, %k, %k bias %bias : tensor<2x4x4096x4096xf32> scale 0.25 : tensor<2x4096x4x16xf32>, tensor<2x4096x4x16xf32>, tensor<2x4096x4x16xf32> -> tensor<2x4096x4x16xf32>, tensor<2x4x4096xf32>
  return %y : tensor<2x4096x4x16xf32>
}

// -----

// So does an infinite one, of which other comparisons say what is hidden.
// CHECK-LABEL: func @infinite_window
// CHECK: dtc.attention {{.*}} scale 2.500000e-01 causal window 128 :
func.func @infinite_window(%q: tensor<2x512x4x16xf32>, %k: tensor<2x512x4x16xf32>) -> tensor<2x512x4x16xf32> {
  %zero = arith.constant dense<0.0> : tensor<512x512xf32>
  %low = arith.constant dense<0xFF800000> : tensor<512x512xf32>
  %before = arith.constant dense<-128> : tensor<512xi64>
  %i = dtc.iota 0 : tensor<512xi64>
  %first = arith.addi %i, %before : tensor<512xi64>
  %column = dtc.broadcast %i [1] : tensor<512xi64> -> tensor<512x512xi64>
  %row = dtc.broadcast %i [0] : tensor<512xi64> -> tensor<512x512xi64>
  %firsts = dtc.broadcast %first [0] : tensor<512xi64> -> tensor<512x512xi64>
  %far = arith.cmpi sle, %column, %firsts : tensor<512x512xi64>
  %after = arith.cmpi slt, %row, %column : tensor<512x512xi64>
  %hidden = arith.ori %after, %far : tensor<512x512xi1>
  %mask = arith.select %hidden, %low, %zero : tensor<512x512xi1>, tensor<512x512xf32>
  %bias = dtc.broadcast %mask [2, 3] : tensor<512x512xf32> -> tensor<2x4x512x512xf32>
  %y, %lse = dtc.attention %q, %k, %k bias %bias : tensor<2x4x512x512xf32> scale 0.25 : tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32> -> tensor<2x512x4x16xf32>, tensor<2x4x512xf32>
  return %y : tensor<2x512x4x16xf32>
}

// -----

// Beside a causal mask its other side is enough.
// CHECK-LABEL: func @beside_causal
// CHECK: dtc.attention {{.*}} scale 2.500000e-01 causal window 128 :
func.func @beside_causal(%q: tensor<2x512x4x16xf32>, %k: tensor<2x512x4x16xf32>) -> tensor<2x512x4x16xf32> {
  %zero = arith.constant dense<0.0> : tensor<512x512xf32>
  %low = arith.constant dense<-3.40282347E+38> : tensor<512x512xf32>
  %before = arith.constant dense<-128> : tensor<512xi64>
  %i = dtc.iota 0 : tensor<512xi64>
  %first = arith.addi %i, %before : tensor<512xi64>
  %column = dtc.broadcast %i [1] : tensor<512xi64> -> tensor<512x512xi64>
  %row = dtc.broadcast %i [0] : tensor<512xi64> -> tensor<512x512xi64>
  %firsts = dtc.broadcast %first [0] : tensor<512xi64> -> tensor<512x512xi64>
  %near = arith.cmpi sgt, %column, %firsts : tensor<512x512xi64>
  %mask = arith.select %near, %zero, %low : tensor<512x512xi1>, tensor<512x512xf32>
  %bias = dtc.broadcast %mask [2, 3] : tensor<512x512xf32> -> tensor<2x4x512x512xf32>
  %y, %lse = dtc.attention %q, %k, %k bias %bias : tensor<2x4x512x512xf32> scale 0.25 causal : tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32> -> tensor<2x512x4x16xf32>, tensor<2x4x512xf32>
  return %y : tensor<2x512x4x16xf32>
}

// -----

// A sum of two masks, one of them a product with truths.
// CHECK-LABEL: func @sum_of_masks
// CHECK: dtc.attention {{.*}} scale 2.500000e-01 causal window 128 :
func.func @sum_of_masks(%q: tensor<2x512x4x16xf32>, %k: tensor<2x512x4x16xf32>) -> tensor<2x512x4x16xf32> {
  %zero = arith.constant dense<0.0> : tensor<512x512xf32>
  %low = arith.constant dense<-3.40282347E+38> : tensor<512x512xf32>
  %before = arith.constant dense<-128> : tensor<512xi64>
  %i = dtc.iota 0 : tensor<512xi64>
  %first = arith.addi %i, %before : tensor<512xi64>
  %column = dtc.broadcast %i [1] : tensor<512xi64> -> tensor<512x512xi64>
  %row = dtc.broadcast %i [0] : tensor<512xi64> -> tensor<512x512xi64>
  %firsts = dtc.broadcast %first [0] : tensor<512xi64> -> tensor<512x512xi64>
  %near = arith.cmpi sgt, %column, %firsts : tensor<512x512xi64>
  %after = arith.cmpi sgt, %column, %row : tensor<512x512xi64>
  %one = arith.uitofp %after : tensor<512x512xi1> to tensor<512x512xf32>
  %times = arith.mulf %low, %one : tensor<512x512xf32>
  %other = arith.select %near, %zero, %low : tensor<512x512xi1>, tensor<512x512xf32>
  %mask = arith.addf %times, %other : tensor<512x512xf32>
  %bias = dtc.broadcast %mask [2, 3] : tensor<512x512xf32> -> tensor<2x4x512x512xf32>
  %y, %lse = dtc.attention %q, %k, %k bias %bias : tensor<2x4x512x512xf32> scale 0.25 : tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32> -> tensor<2x512x4x16xf32>, tensor<2x4x512xf32>
  return %y : tensor<2x512x4x16xf32>
}

// -----

// Elements say the same: here of 2 queries that see 2 of 4 keys.
// CHECK-LABEL: func @window_of_elements
// CHECK: dtc.attention %arg0, %arg1, %arg1 scale 2.500000e-01 causal window 2 :
func.func @window_of_elements(%q: tensor<2x2x4x16xf32>, %k: tensor<2x4x4x16xf32>) -> tensor<2x2x4x16xf32> {
  %mask = arith.constant dense<[[0xFF800000, 0.0, 0.0, 0xFF800000], [0xFF800000, 0xFF800000, 0.0, 0.0]]> : tensor<2x4xf32>
  %bias = dtc.broadcast %mask [2, 3] : tensor<2x4xf32> -> tensor<2x4x2x4xf32>
  %y, %lse = dtc.attention %q, %k, %k bias %bias : tensor<2x4x2x4xf32> scale 0.25 : tensor<2x2x4x16xf32>, tensor<2x4x4x16xf32>, tensor<2x4x4x16xf32> -> tensor<2x2x4x16xf32>, tensor<2x4x2xf32>
  return %y : tensor<2x2x4x16xf32>
}

// -----

// Not of a window with a hole.
// CHECK-LABEL: func @hole_in_window
// CHECK: dtc.attention {{.*}} bias
// CHECK-NOT: causal
// CHECK: return
func.func @hole_in_window(%q: tensor<2x2x4x16xf32>, %k: tensor<2x4x4x16xf32>) -> tensor<2x2x4x16xf32> {
  %mask = arith.constant dense<[[0.0, 0.0, 0.0, 0xFF800000], [0.0, 0.0, 0xFF800000, 0.0]]> : tensor<2x4xf32>
  %bias = dtc.broadcast %mask [2, 3] : tensor<2x4xf32> -> tensor<2x4x2x4xf32>
  %y, %lse = dtc.attention %q, %k, %k bias %bias : tensor<2x4x2x4xf32> scale 0.25 : tensor<2x2x4x16xf32>, tensor<2x4x4x16xf32>, tensor<2x4x4x16xf32> -> tensor<2x2x4x16xf32>, tensor<2x4x2xf32>
  return %y : tensor<2x2x4x16xf32>
}

// -----

// A window of all keys is a causal mask.
// CHECK-LABEL: func @window_of_all
// CHECK: dtc.attention %arg0, %arg1, %arg1 scale 2.500000e-01 causal :
func.func @window_of_all(%q: tensor<2x512x4x16xf32>, %k: tensor<2x512x4x16xf32>) -> tensor<2x512x4x16xf32> {
  %zero = arith.constant dense<0.0> : tensor<512x512xf32>
  %low = arith.constant dense<-3.40282347E+38> : tensor<512x512xf32>
  %before = arith.constant dense<-512> : tensor<512xi64>
  %i = dtc.iota 0 : tensor<512xi64>
  %first = arith.addi %i, %before : tensor<512xi64>
  %column = dtc.broadcast %i [1] : tensor<512xi64> -> tensor<512x512xi64>
  %row = dtc.broadcast %i [0] : tensor<512xi64> -> tensor<512x512xi64>
  %firsts = dtc.broadcast %first [0] : tensor<512xi64> -> tensor<512x512xi64>
  %near = arith.cmpi sgt, %column, %firsts : tensor<512x512xi64>
  %past = arith.cmpi sle, %column, %row : tensor<512x512xi64>
  %seen = arith.andi %near, %past : tensor<512x512xi1>
  %mask = arith.select %seen, %zero, %low : tensor<512x512xi1>, tensor<512x512xf32>
  %bias = dtc.broadcast %mask [2, 3] : tensor<512x512xf32> -> tensor<2x4x512x512xf32>
  %y, %lse = dtc.attention %q, %k, %k bias %bias : tensor<2x4x512x512xf32> scale 0.25 : tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32> -> tensor<2x512x4x16xf32>, tensor<2x4x512xf32>
  return %y : tensor<2x512x4x16xf32>
}

// -----

// Keys after the query are seen, too: no window.
// CHECK-LABEL: func @both_sides
// CHECK: dtc.attention {{.*}} bias
// CHECK-NOT: causal
// CHECK: return
func.func @both_sides(%q: tensor<2x512x4x16xf32>, %k: tensor<2x512x4x16xf32>) -> tensor<2x512x4x16xf32> {
  %zero = arith.constant dense<0.0> : tensor<512x512xf32>
  %low = arith.constant dense<-3.40282347E+38> : tensor<512x512xf32>
  %before = arith.constant dense<-128> : tensor<512xi64>
  %i = dtc.iota 0 : tensor<512xi64>
  %first = arith.addi %i, %before : tensor<512xi64>
  %column = dtc.broadcast %i [1] : tensor<512xi64> -> tensor<512x512xi64>
  %row = dtc.broadcast %i [0] : tensor<512xi64> -> tensor<512x512xi64>
  %firsts = dtc.broadcast %first [0] : tensor<512xi64> -> tensor<512x512xi64>
  %near = arith.cmpi sgt, %column, %firsts : tensor<512x512xi64>
  %mask = arith.select %near, %zero, %low : tensor<512x512xi1>, tensor<512x512xf32>
  %bias = dtc.broadcast %mask [2, 3] : tensor<512x512xf32> -> tensor<2x4x512x512xf32>
  %y, %lse = dtc.attention %q, %k, %k bias %bias : tensor<2x4x512x512xf32> scale 0.25 : tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32> -> tensor<2x512x4x16xf32>, tensor<2x4x512xf32>
  return %y : tensor<2x512x4x16xf32>
}

// -----

// What is seen also has other scores than 0: the bias is more than a mask.
// CHECK-LABEL: func @scores_in_window
// CHECK: dtc.attention {{.*}} bias
// CHECK-NOT: causal
// CHECK: return
func.func @scores_in_window(%q: tensor<2x512x4x16xf32>, %k: tensor<2x512x4x16xf32>) -> tensor<2x512x4x16xf32> {
  %zero = arith.constant dense<1.0> : tensor<512x512xf32>
  %low = arith.constant dense<-3.40282347E+38> : tensor<512x512xf32>
  %before = arith.constant dense<-128> : tensor<512xi64>
  %i = dtc.iota 0 : tensor<512xi64>
  %first = arith.addi %i, %before : tensor<512xi64>
  %column = dtc.broadcast %i [1] : tensor<512xi64> -> tensor<512x512xi64>
  %row = dtc.broadcast %i [0] : tensor<512xi64> -> tensor<512x512xi64>
  %firsts = dtc.broadcast %first [0] : tensor<512xi64> -> tensor<512x512xi64>
  %near = arith.cmpi sgt, %column, %firsts : tensor<512x512xi64>
  %past = arith.cmpi sle, %column, %row : tensor<512x512xi64>
  %seen = arith.andi %near, %past : tensor<512x512xi1>
  %mask = arith.select %seen, %zero, %low : tensor<512x512xi1>, tensor<512x512xf32>
  %bias = dtc.broadcast %mask [2, 3] : tensor<512x512xf32> -> tensor<2x4x512x512xf32>
  %y, %lse = dtc.attention %q, %k, %k bias %bias : tensor<2x4x512x512xf32> scale 0.25 : tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32> -> tensor<2x512x4x16xf32>, tensor<2x4x512xf32>
  return %y : tensor<2x512x4x16xf32>
}

// -----

// A query doesn't see itself: not a window of the last keys.
// CHECK-LABEL: func @window_of_none
// CHECK: dtc.attention {{.*}} bias
// CHECK-NOT: causal
// CHECK: return
func.func @window_of_none(%q: tensor<2x512x4x16xf32>, %k: tensor<2x512x4x16xf32>) -> tensor<2x512x4x16xf32> {
  %zero = arith.constant dense<0.0> : tensor<512x512xf32>
  %low = arith.constant dense<-3.40282347E+38> : tensor<512x512xf32>
  %before = arith.constant dense<0> : tensor<512xi64>
  %i = dtc.iota 0 : tensor<512xi64>
  %first = arith.addi %i, %before : tensor<512xi64>
  %column = dtc.broadcast %i [1] : tensor<512xi64> -> tensor<512x512xi64>
  %row = dtc.broadcast %i [0] : tensor<512xi64> -> tensor<512x512xi64>
  %firsts = dtc.broadcast %first [0] : tensor<512xi64> -> tensor<512x512xi64>
  %near = arith.cmpi sgt, %column, %firsts : tensor<512x512xi64>
  %past = arith.cmpi sle, %column, %row : tensor<512x512xi64>
  %seen = arith.andi %near, %past : tensor<512x512xi1>
  %mask = arith.select %seen, %zero, %low : tensor<512x512xi1>, tensor<512x512xf32>
  %bias = dtc.broadcast %mask [2, 3] : tensor<512x512xf32> -> tensor<2x4x512x512xf32>
  %y, %lse = dtc.attention %q, %k, %k bias %bias : tensor<2x4x512x512xf32> scale 0.25 : tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32> -> tensor<2x512x4x16xf32>, tensor<2x4x512xf32>
  return %y : tensor<2x512x4x16xf32>
}

// -----

// One element that a causal mask would not hide: a bias.
// CHECK-LABEL: func @one_element_off
// CHECK: dtc.attention {{.*}} bias
// CHECK-NOT: causal
// CHECK: return
func.func @one_element_off(%q: tensor<2x2x1x16xf32>, %k: tensor<2x2x1x16xf32>, %v: tensor<2x2x1x16xf32>) -> tensor<2x2x1x16xf32> {
  %mask = arith.constant dense<[[0.0, -1.0], [0.0, 0.0]]> : tensor<2x2xf32>
  %term = dtc.broadcast %mask [2, 3] : tensor<2x2xf32> -> tensor<2x1x2x2xf32>
  %s = dtc.contract %q [0, 2, 1, 4], %k [0, 3, 1, 4] -> [0, 1, 2, 3] : tensor<2x2x1x16xf32>, tensor<2x2x1x16xf32> -> tensor<2x1x2x2xf32>
  %m = arith.addf %s, %term : tensor<2x1x2x2xf32>
  %p = dtc.softmax %m 3 : tensor<2x1x2x2xf32>
  %r = dtc.contract %p [0, 2, 1, 4], %v [0, 4, 2, 3] -> [0, 1, 2, 3] : tensor<2x1x2x2xf32>, tensor<2x2x1x16xf32> -> tensor<2x2x1x16xf32>
  return %r : tensor<2x2x1x16xf32>
}

// -----

// Grouped queries: repeated keys and values are seen through.
// CHECK-LABEL: func @grouped
// CHECK-SAME: (%[[Q:.*]]: tensor<2x8x4x16xf32>, %[[K:.*]]: tensor<2x8x2x16xf32>, %[[V:.*]]: tensor<2x8x2x16xf32>)
// CHECK: dtc.attention %[[Q]], %[[K]], %[[V]] scale 1.000000e+00 :
func.func @grouped(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>, %v: tensor<2x8x2x16xf32>) -> tensor<2x8x4x16xf32> {
  %0 = dtc.broadcast %k [0, 1, 2, 4] : tensor<2x8x2x16xf32> -> tensor<2x8x2x2x16xf32>
  %kk = dtc.reshape %0 : tensor<2x8x2x2x16xf32> -> tensor<2x8x4x16xf32>
  %1 = dtc.broadcast %v [0, 1, 2, 4] : tensor<2x8x2x16xf32> -> tensor<2x8x2x2x16xf32>
  %vv = dtc.reshape %1 : tensor<2x8x2x2x16xf32> -> tensor<2x8x4x16xf32>
  %s = dtc.contract %q [0, 2, 1, 4], %kk [0, 3, 1, 4] -> [0, 1, 2, 3] : tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32> -> tensor<2x4x8x8xf32>
  %p = dtc.softmax %s 3 : tensor<2x4x8x8xf32>
  %r = dtc.contract %p [0, 2, 1, 4], %vv [0, 4, 2, 3] -> [0, 1, 2, 3] : tensor<2x4x8x8xf32>, tensor<2x8x4x16xf32> -> tensor<2x8x4x16xf32>
  return %r : tensor<2x8x4x16xf32>
}

// -----

// Heads repeated in another order (tiled, not interleaved) are other heads.
// CHECK-LABEL: func @tiled_heads
// CHECK: dtc.attention %{{.*}} : tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>
func.func @tiled_heads(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>, %v: tensor<2x8x2x16xf32>) -> tensor<2x8x4x16xf32> {
  %0 = dtc.broadcast %k [0, 1, 3, 4] : tensor<2x8x2x16xf32> -> tensor<2x8x2x2x16xf32>
  %kk = dtc.reshape %0 : tensor<2x8x2x2x16xf32> -> tensor<2x8x4x16xf32>
  %1 = dtc.broadcast %v [0, 1, 3, 4] : tensor<2x8x2x16xf32> -> tensor<2x8x2x2x16xf32>
  %vv = dtc.reshape %1 : tensor<2x8x2x2x16xf32> -> tensor<2x8x4x16xf32>
  %s = dtc.contract %q [0, 2, 1, 4], %kk [0, 3, 1, 4] -> [0, 1, 2, 3] : tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32> -> tensor<2x4x8x8xf32>
  %p = dtc.softmax %s 3 : tensor<2x4x8x8xf32>
  %r = dtc.contract %p [0, 2, 1, 4], %vv [0, 4, 2, 3] -> [0, 1, 2, 3] : tensor<2x4x8x8xf32>, tensor<2x8x4x16xf32> -> tensor<2x8x4x16xf32>
  return %r : tensor<2x8x4x16xf32>
}

// -----

// A bias that trains would get no gradient inside attention: nothing is raised.
// CHECK-LABEL: func @trained_bias
// CHECK-NOT: dtc.attention
// CHECK: dtc.softmax
func.func @trained_bias(%q: tensor<2x8x1x16xf32>, %k: tensor<2x8x1x16xf32>, %v: tensor<2x8x1x16xf32>, %b: tensor<8x8xf32> {dtc.role = #dtc.role<parameter, "bias">}) -> tensor<2x8x1x16xf32> {
  %term = dtc.broadcast %b [2, 3] : tensor<8x8xf32> -> tensor<2x1x8x8xf32>
  %s = dtc.contract %q [0, 2, 1, 4], %k [0, 3, 1, 4] -> [0, 1, 2, 3] : tensor<2x8x1x16xf32>, tensor<2x8x1x16xf32> -> tensor<2x1x8x8xf32>
  %m = arith.addf %s, %term : tensor<2x1x8x8xf32>
  %p = dtc.softmax %m 3 : tensor<2x1x8x8xf32>
  %r = dtc.contract %p [0, 2, 1, 4], %v [0, 4, 2, 3] -> [0, 1, 2, 3] : tensor<2x1x8x8xf32>, tensor<2x8x1x16xf32> -> tensor<2x8x1x16xf32>
  return %r : tensor<2x8x1x16xf32>
}

// -----

// Scores that something else reads keep their softmax.
// CHECK-LABEL: func @scores_read
// CHECK-NOT: dtc.attention
func.func @scores_read(%q: tensor<2x8x16xf32>, %k: tensor<2x8x16xf32>, %v: tensor<2x8x16xf32>) -> (tensor<2x8x16xf32>, tensor<2x8x8xf32>) {
  %s = dtc.contract %q [0, 1, 3], %k [0, 2, 3] -> [0, 1, 2] : tensor<2x8x16xf32>, tensor<2x8x16xf32> -> tensor<2x8x8xf32>
  %p = dtc.softmax %s 2 : tensor<2x8x8xf32>
  %r = dtc.contract %p [0, 1, 3], %v [0, 3, 2] -> [0, 1, 2] : tensor<2x8x8xf32>, tensor<2x8x16xf32> -> tensor<2x8x16xf32>
  return %r, %s : tensor<2x8x16xf32>, tensor<2x8x8xf32>
}

// -----

// Keys before 8 - 3 * sample: the second sample does not see all of them.
// CHECK-LABEL: func.func @forward
// CHECK: dtc.attention
// CHECK-SAME: bias
// CHECK-NOT: causal
// CHECK: return
func.func @forward(%q: tensor<2x1x4x8xf32>, %k: tensor<2x8x2x8xf32>, %v: tensor<2x8x2x8xf32>)
    -> tensor<2x1x4x8xf32> {
  %step = arith.constant dense<-3> : tensor<2xi64>
  %first = arith.constant dense<8> : tensor<2xi64>
  %sample = dtc.iota 0 : tensor<2xi64>
  %less = arith.muli %sample, %step : tensor<2xi64>
  %lengths = arith.addi %less, %first : tensor<2xi64>
  %length = dtc.broadcast %lengths [0] : tensor<2xi64> -> tensor<2x4x1x8xi64>
  %key = dtc.iota 3 : tensor<2x4x1x8xi64>
  %seen = arith.cmpi slt, %key, %length : tensor<2x4x1x8xi64>
  %zero = arith.constant dense<0.0> : tensor<2x4x1x8xf32>
  %hidden = arith.constant dense<0xFF800000> : tensor<2x4x1x8xf32>
  %mask = arith.select %seen, %zero, %hidden : tensor<2x4x1x8xi1>, tensor<2x4x1x8xf32>
  %result, %lse = dtc.attention %q, %k, %v bias %mask : tensor<2x4x1x8xf32> scale 0.5
      : tensor<2x1x4x8xf32>, tensor<2x8x2x8xf32>, tensor<2x8x2x8xf32> -> tensor<2x1x4x8xf32>, tensor<2x4x1xf32>
  return %result : tensor<2x1x4x8xf32>
}
