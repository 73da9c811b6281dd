// RUN: dtc-opt %s -split-input-file -verify-diagnostics

func.func @types(%fresh: tensor<4xf32>, %old: tensor<4xf16>, %faults: tensor<f32>) {
  // expected-error @+1 {{failed to verify that all of {fresh, old, result} have same type}}
  "dtc.commit"(%fresh, %old, %faults) : (tensor<4xf32>, tensor<4xf16>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----

func.func @faults(%fresh: tensor<4xf32>, %faults: tensor<4xf32>) {
  // expected-error @+1 {{operand #2 must be 0D tensor of 32-bit float values}}
  "dtc.commit"(%fresh, %fresh, %faults) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}
