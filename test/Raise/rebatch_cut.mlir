// RUN: dtc-opt --split-input-file --dtc-rebatch="batch=2 cut=true" --verify-diagnostics %s | FileCheck %s

// Each call would begin with 0 again.
func.func @forward(%x: tensor<8x3xi64> {dtc.role = #dtc.role<input, "x">}) -> tensor<8x3xi64> {
  // expected-error @+1 {{cannot change the batch: this counts the samples, and each call begins anew}}
  %i = dtc.iota 0 : tensor<8x3xi64>
  %0 = arith.addi %x, %i : tensor<8x3xi64>
  return %0 : tensor<8x3xi64>
}

// -----

// Of this one nothing is read.
// CHECK-NOT: dtc.iota
// CHECK: arith.addi {{.*}} : tensor<2x3xi64>
func.func @forward(%x: tensor<8x3xi64> {dtc.role = #dtc.role<input, "x">}) -> tensor<8x3xi64> {
  %i = dtc.iota 0 : tensor<8x3xi64>
  %0 = arith.muli %x, %i : tensor<8x3xi64>
  %1 = arith.addi %x, %x : tensor<8x3xi64>
  return %1 : tensor<8x3xi64>
}
