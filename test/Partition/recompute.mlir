// RUN: dtc-opt %s -split-input-file --dtc-recompute --verify-roundtrip | FileCheck %s
// RUN: dtc-opt %s -split-input-file --dtc-recompute --canonicalize --cse | FileCheck %s

// A full block keeps its input alone. Its last product is read by nobody, so it isn't computed again.

// CHECK-LABEL: func.func @full(
// CHECK-SAME: %[[W:[^:]*]]: tensor<4x4xf32> {{{[^}]*}}parameter, "w">}
// CHECK-SAME: %[[V:[^:]*]]: tensor<4x4xf32> {{{[^}]*}}parameter, "v">}
// CHECK: %[[X:.*]] = math.exp %{{.*}} {dtc.id = 0 : i64}
// CHECK: %[[H:.*]] = dtc.contract %[[X]] [0, 2], %[[W]] {{.*}}dtc.id = 1
// CHECK: %[[A:.*]] = math.tanh %[[H]] {dtc.id = 2 : i64}
// CHECK: %[[Y:.*]] = dtc.contract %[[A]] [0, 2], %[[V]] {{.*}}dtc.id = 3
// CHECK: %[[DY:.*]] = math.exp %[[Y]]
// CHECK: %[[B:.*]] = dtc.barrier %[[X]] {dtc.backward = #dtc.backward<1, recompute>}
// CHECK: %[[H1:.*]] = dtc.contract %[[B]] [0, 2], %[[W]] {{.*}}dtc.backward = #dtc.backward<1, recompute>
// CHECK: %[[A1:.*]] = math.tanh %[[H1]] {dtc.backward = #dtc.backward<2, recompute>}
// CHECK-NOT: recompute
// CHECK: %[[DV:.*]] = dtc.contract %[[A1]] [2, 0], %[[DY]]
// CHECK: %[[DA:.*]] = dtc.contract %[[DY]]
// CHECK: %[[DH:.*]] = arith.mulf %[[DA]], %[[A1]]
// CHECK: dtc.contract %[[B]] [2, 0], %[[DH]]
// CHECK-NOT: dist.recompute
func.func @full(
    %w0: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "u">},
    %w: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w">},
    %v: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "v">})
    -> (tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "w">}, tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "v">}) {
  %x = math.exp %w0 {dtc.id = 0 : i64} : tensor<4x4xf32>
  %h = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] {dist.recompute = #dist.recompute<full, 0>, dtc.id = 1 : i64} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %a = math.tanh %h {dist.recompute = #dist.recompute<full, 0>, dtc.id = 2 : i64} : tensor<4x4xf32>
  %y = dtc.contract %a [0, 2], %v [2, 1] -> [0, 1] {dist.recompute = #dist.recompute<full, 0>, dtc.id = 3 : i64} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %dy = math.exp %y {dtc.backward = #dtc.backward<0, input_grad>} : tensor<4x4xf32>
  %dv = dtc.contract %a [2, 0], %dy [2, 1] -> [0, 1] {dtc.backward = #dtc.backward<3, weight_grad>} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %da = dtc.contract %dy [0, 2], %v [1, 2] -> [0, 1] {dtc.backward = #dtc.backward<3, input_grad>} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %dh = arith.mulf %da, %a {dtc.backward = #dtc.backward<2, input_grad>} : tensor<4x4xf32>
  %dw = dtc.contract %x [2, 0], %dh [2, 1] -> [0, 1] {dtc.backward = #dtc.backward<1, weight_grad>} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %dw, %dv : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Each block has barriers of its own. What depends on no parameter (%m) isn't computed again, what
// depends on parameters alone (%t) is, and views of what comes from outside are taken again.

// CHECK-LABEL: func.func @blocks(
// CHECK-SAME: %[[M0:[^:]*]]: tensor<4x4xf32> {{{[^}]*}}input, "m">}
// CHECK-SAME: %[[W:[^:]*]]: tensor<4x4xf32> {{{[^}]*}}parameter, "w">}
// CHECK: %[[X:.*]] = math.exp
// CHECK: %[[M:.*]] = math.exp %[[M0]]
// CHECK: arith.mulf
// CHECK: %[[A:.*]] = arith.mulf
// CHECK: arith.mulf %[[A]], %[[A]]
// CHECK: %[[DY:.*]] = math.log
// The later block comes first.
// CHECK: %[[BA:.*]] = dtc.barrier %[[A]] {dtc.backward = #dtc.backward<5, recompute>}
// CHECK: arith.mulf %[[DY]], %[[BA]]
// CHECK: %[[BW:.*]] = dtc.barrier %[[W]]
// CHECK: %[[T:.*]] = math.tanh %[[BW]]
// CHECK: %[[BX:.*]] = dtc.barrier %[[X]]
// CHECK: %[[XT:.*]] = dtc.transpose %[[BX]]
// CHECK: %[[P:.*]] = arith.mulf %[[XT]], %[[M]]
// CHECK: dtc.contract %[[T]] [0, 2], %[[P]]
func.func @blocks(
    %m0: tensor<4x4xf32> {dtc.role = #dtc.role<input, "m">},
    %w: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w">})
    -> (tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "w">}) {
  %x = math.exp %w {dtc.id = 0 : i64} : tensor<4x4xf32>
  %xt = dtc.transpose %x [1, 0] {dtc.id = 1 : i64} : tensor<4x4xf32> -> tensor<4x4xf32>
  %m = math.exp %m0 {dist.recompute = #dist.recompute<full, 2>, dtc.id = 2 : i64} : tensor<4x4xf32>
  %t = math.tanh %w {dist.recompute = #dist.recompute<full, 2>, dtc.id = 3 : i64} : tensor<4x4xf32>
  %p = arith.mulf %xt, %m {dist.recompute = #dist.recompute<full, 2>, dtc.id = 4 : i64} : tensor<4x4xf32>
  %a = arith.mulf %t, %p {dist.recompute = #dist.recompute<full, 2>, dtc.id = 6 : i64} : tensor<4x4xf32>
  %y = arith.mulf %a, %a {dist.recompute = #dist.recompute<full, 3>, dtc.id = 5 : i64} : tensor<4x4xf32>
  %dy = math.log %y {dtc.backward = #dtc.backward<0, input_grad>} : tensor<4x4xf32>
  %da = arith.mulf %dy, %a {dtc.backward = #dtc.backward<5, input_grad>} : tensor<4x4xf32>
  %c = dtc.contract %t [0, 2], %p [2, 1] -> [0, 1] {dtc.backward = #dtc.backward<6, weight_grad>} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %dw = arith.mulf %da, %c {dtc.backward = #dtc.backward<6, weight_grad>} : tensor<4x4xf32>
  return %dw : tensor<4x4xf32>
}

// -----

// A selective block keeps queries, keys and values, here parts of one tensor, and the result.

// CHECK-LABEL: func.func @selective(
// CHECK: %[[X:.*]] = math.exp
// CHECK: %[[R:.*]], %[[LSE:.*]] = dtc.attention
// CHECK: %[[D:.*]] = math.log
// CHECK: %[[B:.*]] = dtc.barrier %[[X]]
// CHECK: %[[Q:.*]] = dtc.slice %[[B]]
// CHECK: %[[K:.*]] = dtc.slice %[[B]]
// CHECK: dtc.attention_grad %[[Q]], %[[K]], %[[K]], %[[R]], %[[LSE]], %[[D]]
// CHECK-NOT: dtc.attention
func.func @selective(%w: tensor<2x8x4x4xf32> {dtc.role = #dtc.role<parameter, "w">})
    -> (tensor<2x8x2x4xf32> {dtc.role = #dtc.role<output, "q">}, tensor<2x8x2x4xf32> {dtc.role = #dtc.role<output, "k">}) {
  %x = math.exp %w {dist.recompute = #dist.recompute<selective, 0>, dtc.id = 0 : i64} : tensor<2x8x4x4xf32>
  %q = dtc.slice %x offsets [0, 0, 0, 0] strides [1, 1, 1, 1] {dist.recompute = #dist.recompute<selective, 0>, dtc.id = 1 : i64} : tensor<2x8x4x4xf32> -> tensor<2x8x2x4xf32>
  %k = dtc.slice %x offsets [0, 0, 2, 0] strides [1, 1, 1, 1] {dist.recompute = #dist.recompute<selective, 0>, dtc.id = 2 : i64} : tensor<2x8x4x4xf32> -> tensor<2x8x2x4xf32>
  %r, %lse = dtc.attention %q, %k, %k scale 0.5 {dist.recompute = #dist.recompute<selective, 0>, dtc.id = 3 : i64} : tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32> -> tensor<2x8x2x4xf32>, tensor<2x2x8xf32>
  %d = math.log %r {dtc.backward = #dtc.backward<3, input_grad>} : tensor<2x8x2x4xf32>
  %dq, %dk, %dv = dtc.attention_grad %q, %k, %k, %r, %lse, %d scale 0.5 {dtc.backward = #dtc.backward<3, input_grad>} : tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>, tensor<2x2x8xf32>, tensor<2x8x2x4xf32> -> tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>
  return %dq, %dk : tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>
}

// -----

// What training takes is computed again, not the choice of what an evaluation takes, nor that: its
// buffer may be replaced by then.

// CHECK-LABEL: func.func @evaluated(
// CHECK-SAME: %[[M:[^:]*]]: tensor<4x4xf32> {{{[^}]*}}buffer, "m">}
// CHECK: %[[SUM:.*]] = arith.addf %[[M]],
// CHECK: %[[CHOSEN:.*]] = arith.select %{{.*}}, %[[SUM]],
// CHECK: %[[OUT:.*]] = math.exp %[[CHOSEN]]
// CHECK: %[[DY:.*]] = math.exp %[[OUT]]
// CHECK: %[[B:.*]] = dtc.barrier
// CHECK: %[[H:.*]] = math.tanh %[[B]] {dtc.backward = #dtc.backward<1, recompute>}
// CHECK-NOT: recompute
// CHECK: %[[Y:.*]] = math.exp %[[H]] {dtc.backward = #dtc.backward<5, recompute>}
// CHECK-NOT: recompute
// CHECK: arith.mulf %[[DY]], %[[Y]]
// CHECK: arith.mulf %{{.*}}, %[[H]]
func.func @evaluated(
    %w: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w">},
    %m: tensor<4x4xf32> {dtc.role = #dtc.role<buffer, "m">},
    %e: tensor<f32> {dtc.role = #dtc.role<scalar, "", evaluation>})
    -> (tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "w">}) {
  %x = math.exp %w {dtc.id = 0 : i64} : tensor<4x4xf32>
  %h = math.tanh %x {dist.recompute = #dist.recompute<full, 0>, dtc.id = 1 : i64} : tensor<4x4xf32>
  %sum = arith.addf %m, %h {dist.recompute = #dist.recompute<full, 0>, dtc.id = 7 : i64} : tensor<4x4xf32>
  %zero = arith.constant dense<0.0> : tensor<4x4xf32>
  %spread = dtc.broadcast %e [] {dist.recompute = #dist.recompute<full, 0>, dtc.id = 2 : i64} : tensor<f32> -> tensor<4x4xf32>
  %is = arith.cmpf une, %spread, %zero {dist.recompute = #dist.recompute<full, 0>, dtc.id = 3 : i64} : tensor<4x4xf32>
  %chosen = arith.select %is, %sum, %h {dist.recompute = #dist.recompute<full, 0>, dtc.id = 4 : i64} : tensor<4x4xi1>, tensor<4x4xf32>
  %y = math.exp %chosen {dist.recompute = #dist.recompute<full, 0>, dtc.id = 5 : i64} : tensor<4x4xf32>
  %dy = math.exp %y {dtc.backward = #dtc.backward<6, input_grad>} : tensor<4x4xf32>
  %dh = arith.mulf %dy, %y {dtc.backward = #dtc.backward<5, input_grad>} : tensor<4x4xf32>
  %dw = arith.mulf %dh, %chosen {dtc.backward = #dtc.backward<1, input_grad>} : tensor<4x4xf32>
  return %dw : tensor<4x4xf32>
}

// -----

// Masks are drawn again, too. Without a barrier before their keys they would be those of the forward pass.

// CHECK-LABEL: func.func @dropout(
// CHECK: %[[X:.*]] = math.exp
// CHECK: dtc.dropout {{.*}} keys %arg1
// CHECK-DAG: %[[K:.*]] = dtc.barrier %arg1
// CHECK-DAG: dtc.barrier %[[X]]
// CHECK: dtc.dropout {{.*}} keys %[[K]] {{.*}}recompute
// CHECK: dtc.dropout {{.*}} keys %[[K]] {{.*}}input_grad
func.func @dropout(
    %w0: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "u">},
    %k: tensor<4xi64> {dtc.role = #dtc.role<input, "dropout_keys">})
    -> (tensor<4x4xf32> {dtc.role = #dtc.role<output, "y">}, tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "u">}) {
  %x = math.exp %w0 {dtc.id = 0 : i64} : tensor<4x4xf32>
  %d = dtc.dropout %x keys %k : tensor<4xi64> ratio 1.0E-1 {batch = 0 : i64, dist.recompute = #dist.recompute<full, 0>, dtc.id = 1 : i64, number = 3 : i64} : tensor<4x4xf32>
  %y = math.tanh %d {dist.recompute = #dist.recompute<full, 0>, dtc.id = 2 : i64} : tensor<4x4xf32>
  %dy = arith.mulf %d, %x {dtc.backward = #dtc.backward<2, input_grad>} : tensor<4x4xf32>
  %dx = dtc.dropout %dy keys %k : tensor<4xi64> ratio 1.0E-1 {batch = 0 : i64, dtc.backward = #dtc.backward<1, input_grad>, number = 3 : i64} : tensor<4x4xf32>
  return %y, %dx : tensor<4x4xf32>, tensor<4x4xf32>
}
