// RUN: dtc-opt %s -split-input-file -verify-diagnostics --dtc-build-schedule=microbatches=4

module {
  // expected-error @below {{more than one microbatch needs accumulators: 4}}
  func.func @loss_and_grads(%x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">}) attributes {dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    return
  }
}

// -----

// expected-error @below {{no function makes the pass backward of chunk 0}}
module {
  func.func @forward() attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    return
  }
  func.func @other(%g: tensor<4xf32> {dtc.role = #dtc.role<gradient, "w">})
      -> (tensor<4xf32> {dtc.role = #dtc.role<gradient, "w">})
      attributes {dtc.runs = #dtc.runs<microbatch, backward, chunk 1>} {
    return %g : tensor<4xf32>
  }
}

// -----

module {
  func.func @forward() attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    return
  }
  // expected-error @below {{makes the same pass of a chunk as @forward}}
  func.func @again() attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    return
  }
}

// -----

module {
  // expected-error @below {{messages have no place in a list of passes: #dtc.role<inbox, "x">}}
  func.func @forward(%x: tensor<4xf32> {dtc.role = #dtc.role<inbox, "x">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    return
  }
}

// -----

module {
  // expected-error @below {{doesn't say how often it runs (dtc.runs)}}
  func.func @forward() {
    return
  }
}
