// RUN: dtc-opt %s -split-input-file -verify-diagnostics --dtc-build-schedule=microbatches=4

module {
  // expected-error @below {{what several calls give needs an accumulator: #dtc.role<gradient, "w">, given by 4}}
  func.func @loss_and_grads(%x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4xf32> {dtc.role = #dtc.role<gradient, "w">}) attributes {dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    return %x : tensor<4xf32>
  }
}

// -----

// expected-error @below {{microbatch 0 of chunk 0: no function makes its input gradients}}
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

// expected-error @below {{sends messages, but its mesh doesn't say where the 1 stages of the schedule lie (dist.devices)}}
module {
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
