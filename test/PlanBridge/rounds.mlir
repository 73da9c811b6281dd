// RUN: dtc-opt --dtc-print-problem -o /dev/null %s | FileCheck %s

// The reductions inside an op over a factor that only communication can split, as many as its
// decomposition has. Factor 1 is the row that is reduced, factor 0 counts rows.
// A mean and a variance; of the gradient two means.
// CHECK: "name":"dtc.layer_norm",{{.*}}"rounds":[{"elementBytes":4,"factor":1,"tensor":[0]},{"elementBytes":4,"factor":1,"tensor":[0]}],"rule"
// CHECK: "name":"dtc.layer_norm_grad",{{.*}}"rounds":[{"elementBytes":4,"factor":1,"tensor":[0]},{"elementBytes":4,"factor":1,"tensor":[0]}],"rule"
// CHECK: "name":"dtc.rms_norm",{{.*}}"rounds":[{"elementBytes":4,"factor":1,"tensor":[0]}],"rule"
// CHECK: "name":"dtc.rms_norm_grad",{{.*}}"rounds":[{"elementBytes":4,"factor":1,"tensor":[0]}],"rule"
// The largest and the sum.
// CHECK: "name":"dtc.softmax",{{.*}}"rounds":[{"elementBytes":4,"factor":1,"tensor":[0]},{"elementBytes":4,"factor":1,"tensor":[0]}],"rule"
// CHECK: "name":"dtc.softmax_grad",{{.*}}"rounds":[{"elementBytes":4,"factor":1,"tensor":[0]}],"rule"
// These and the target's logit.
// CHECK: "name":"dtc.cross_entropy",{{.*}}"rounds":[{"elementBytes":4,"factor":1,"tensor":[0]},{"elementBytes":4,"factor":1,"tensor":[0]},{"elementBytes":4,"factor":1,"tensor":[0]}],"rule"
// Attention reduces more than a value of each row.
// CHECK: "keep_rounds":true,{{.*}}"name":"dtc.attention"
// CHECK-NOT: "rounds":
func.func @forward(%x: tensor<4x6xf32> {dtc.role = #dtc.role<input, "x">},
                   %w: tensor<6xf32> {dtc.role = #dtc.role<parameter, "w">},
                   %t: tensor<4xi64> {dtc.role = #dtc.role<input, "t">},
                   %q: tensor<2x8x4x16xf32> {dtc.role = #dtc.role<input, "q">})
    -> (tensor<4x6xf32> {dtc.role = #dtc.role<output, "y">}, tensor<4xf32> {dtc.role = #dtc.role<output, "l">},
        tensor<2x8x4x16xf32> {dtc.role = #dtc.role<output, "o">}) {
  %0, %mean, %rstd = dtc.layer_norm %x scale %w : tensor<6xf32> eps 1.0E-5 : tensor<4x6xf32> -> tensor<4x6xf32>, tensor<4xf32>, tensor<4xf32>
  %1, %sg, %bg = dtc.layer_norm_grad %x, %mean, %rstd, %0 scale %w : tensor<6xf32> : tensor<4x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x6xf32> -> tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>
  %2, %r = dtc.rms_norm %1 scale %w : tensor<6xf32> eps 1.0E-5 : tensor<4x6xf32> -> tensor<4x6xf32>, tensor<4xf32>
  %3, %s = dtc.rms_norm_grad %1, %r, %2 scale %w : tensor<6xf32> : tensor<4x6xf32>, tensor<4xf32>, tensor<4x6xf32> -> tensor<4x6xf32>, tensor<6xf32>
  %4 = dtc.softmax %3 1 : tensor<4x6xf32>
  %5 = dtc.softmax_grad %4, %3 1 : tensor<4x6xf32>
  %loss, %lse = dtc.cross_entropy %5, %t ignore -100 : tensor<4x6xf32>, tensor<4xi64> -> tensor<4xf32>, tensor<4xf32>
  %6, %l = dtc.attention %q, %q, %q scale 1.0 causal : tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32> -> tensor<2x8x4x16xf32>, tensor<2x4x8xf32>
  return %5, %loss, %6 : tensor<4x6xf32>, tensor<4xf32>, tensor<2x8x4x16xf32>
}
