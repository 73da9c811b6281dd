// RUN: dtc-opt %s -split-input-file -verify-diagnostics --dtc-build-schedule=microbatches=4

module {
  // expected-error @below {{more than one microbatch needs accumulators: 4}}
  func.func @loss_and_grads(%x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">}) {
    return
  }
}
