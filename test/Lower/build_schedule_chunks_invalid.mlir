// RUN: dtc-opt %s -verify-diagnostics --dtc-build-schedule=microbatches=1

// Two chunks of a rank have terms of a tied weight: without a sum the second replaces the first.
module {
  func.func @stage(%x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4xf32> {dtc.role = #dtc.role<gradient, "w">}) attributes {dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    return %x : tensor<4xf32>
  }
  // expected-error @below {{what several calls give needs an accumulator: #dtc.role<gradient, "w">, given by 2}}
  func.func @stage_1(%x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4xf32> {dtc.role = #dtc.role<gradient, "w">})
      attributes {dtc.runs = #dtc.runs<microbatch, forward|backward, chunk 1>} {
    return %x : tensor<4xf32>
  }
}
