// RUN: dtc-opt --dtc-pad-tokens=ranks=4 %s | FileCheck %s
// RUN: dtc-opt --dtc-pad-tokens=ranks=3 %s | FileCheck %s --check-prefix=DIVIDED

// Behind tokens, a table of positions and numbers of places the last one is repeated. What begins
// to lie along the tokens of itself is lengthened where it begins, before it is made larger.
// CHECK-LABEL: func.func @forward(
// CHECK-SAME: %[[IDS:[a-z0-9]+]]: tensor<2x6xi64>
// CHECK-SAME: %[[TABLE:[a-z0-9]+]]: tensor<9x4xf32>
// CHECK-SAME: -> (tensor<2x8x5xf32> {{.*}}) attributes {dtc.own_tokens = 6 : i64}
// CHECK-DAG: %[[LAST:.*]] = dtc.slice %[[IDS]] offsets [0, 5] strides [1, 1] : tensor<2x6xi64> -> tensor<2x1xi64>
// CHECK-DAG: %[[ONE:.*]] = dtc.reshape %[[LAST]] : tensor<2x1xi64> -> tensor<2xi64>
// CHECK-DAG: %[[COPIES:.*]] = dtc.broadcast %[[ONE]] [0] : tensor<2xi64> -> tensor<2x2xi64>
// CHECK-DAG: %[[MORE:.*]] = dtc.concat 1(%[[IDS]], %[[COPIES]]) {dtc.token_padding} : tensor<2x6xi64>, tensor<2x2xi64> -> tensor<2x8xi64>
// CHECK: %[[X:.*]] = dtc.gather %{{.*}}, %[[MORE]] axis 0 : {{.*}} -> tensor<2x8x4xf32>
// CHECK: %[[ROWS:.*]] = dtc.slice %[[TABLE]] offsets [1, 0] {{.*}} -> tensor<6x4xf32>
// CHECK: %[[LONGER:.*]] = dtc.concat 0(%[[ROWS]], %{{.*}}) {dtc.token_padding} : tensor<6x4xf32>, tensor<2x4xf32> -> tensor<8x4xf32>
// CHECK: dtc.broadcast %[[LONGER]] [1, 2] : tensor<8x4xf32> -> tensor<2x8x4xf32>
// CHECK: %[[PLACES:.*]] = dtc.iota 0 : tensor<6xf32>
// CHECK: dtc.concat 0(%[[PLACES]], %{{.*}}) {dtc.token_padding} : tensor<6xf32>, tensor<2xf32> -> tensor<8xf32>
// CHECK: arith.constant dense<2.000000e+00> : tensor<16x4xf32>
// CHECK: dtc.reshape %{{.*}} : tensor<2x8x4xf32> -> tensor<16x4xf32>
// CHECK: dtc.reshape %{{.*}} : tensor<16x4xf32> -> tensor<2x8x2x2xf32>
// CHECK: dtc.attention {{.*}} causal window 3 : tensor<2x8x2x2xf32>, {{.*}} -> tensor<2x8x2x2xf32>, tensor<2x2x8xf32>
// DIVIDED-NOT: dtc.concat
// DIVIDED: return %{{.*}} : tensor<2x6x5xf32>
func.func @forward(%ids: tensor<2x6xi64> {dtc.role = #dtc.role<input, "ids">},
                   %w: tensor<5x4xf32> {dtc.role = #dtc.role<parameter, "w">},
                   %table: tensor<9x4xf32> {dtc.role = #dtc.role<parameter, "table">})
    -> (tensor<2x6x5xf32> {dtc.role = #dtc.role<output, "logits">}) {
  %x = dtc.gather %w, %ids axis 0 : tensor<5x4xf32>, tensor<2x6xi64> -> tensor<2x6x4xf32>
  %rows = dtc.slice %table offsets [1, 0] strides [1, 1] : tensor<9x4xf32> -> tensor<6x4xf32>
  %positions = dtc.broadcast %rows [1, 2] : tensor<6x4xf32> -> tensor<2x6x4xf32>
  %places = dtc.iota 0 : tensor<6xf32>
  %angles = dtc.broadcast %places [1] : tensor<6xf32> -> tensor<2x6x4xf32>
  %a = arith.addf %x, %positions : tensor<2x6x4xf32>
  %b = arith.mulf %a, %angles : tensor<2x6x4xf32>
  %two = arith.constant dense<2.0> : tensor<12x4xf32>
  %merged = dtc.reshape %b : tensor<2x6x4xf32> -> tensor<12x4xf32>
  %c = arith.mulf %merged, %two : tensor<12x4xf32>
  %q = dtc.reshape %c : tensor<12x4xf32> -> tensor<2x6x2x2xf32>
  %o, %lse = dtc.attention %q, %q, %q scale 1.0 causal window 3 : tensor<2x6x2x2xf32>, tensor<2x6x2x2xf32>, tensor<2x6x2x2xf32> -> tensor<2x6x2x2xf32>, tensor<2x2x6xf32>
  %y = dtc.reshape %o : tensor<2x6x2x2xf32> -> tensor<2x6x4xf32>
  %logits = dtc.contract %y [0, 1, 3], %w [2, 3] -> [0, 1, 2] : tensor<2x6x4xf32>, tensor<5x4xf32> -> tensor<2x6x5xf32>
  return %logits : tensor<2x6x5xf32>
}
