// RUN: dtc-opt %s -allow-unregistered-dialect -verify-diagnostics --dtc-decompose-layers --dtc-form-kernels

// expected-error @+1 {{has control flow, which kernels cannot have}}
func.func @jump(%x: tensor<4xf32>) -> tensor<4xf32> {
  "test.jump"() [^next] : () -> ()
^next:
  return %x : tensor<4xf32>
}
