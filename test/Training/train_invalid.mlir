// RUN: dtc-opt --dtc-train --split-input-file --verify-diagnostics %s

// expected-error@+1 {{the module has no function to train: forward}}
module {
}

// -----

// expected-error@+1 {{the model has no trainable parameter}}
module {
  func.func @forward(%x: tensor<4x8xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4x8xf32> {dtc.role = #dtc.role<output, "y">}) {
    return %x : tensor<4x8xf32>
  }
}

// -----

module {
  // expected-error@+1 {{has no dtc.parameter: w}}
  func.func @forward(%x: tensor<4x8xf32> {dtc.role = #dtc.role<parameter, "w">})
      -> (tensor<4x8xf32> {dtc.role = #dtc.role<output, "y">}) {
    return %x : tensor<4x8xf32>
  }
}

// -----

module {
  dtc.parameter trainable @w : tensor<4x8xf32> file tensor<4x8xf32>
  // expected-error@+1 {{several outputs could be the predictions and none is named 'logits': y, z}}
  func.func @forward(%x: tensor<4x8xf32> {dtc.role = #dtc.role<parameter, "w">})
      -> (tensor<4x8xf32> {dtc.role = #dtc.role<output, "y">},
          tensor<4x8xf32> {dtc.role = #dtc.role<output, "z">}) {
    return %x, %x : tensor<4x8xf32>, tensor<4x8xf32>
  }
}

// -----

module {
  dtc.parameter trainable @w : tensor<4x8xf32> file tensor<4x8xf32>
  // expected-error@+1 {{the model has no float output for the loss: y}}
  func.func @forward(%x: tensor<4x8xf32> {dtc.role = #dtc.role<parameter, "w">})
      -> (tensor<4x8xi64> {dtc.role = #dtc.role<output, "y">}) {
    %0 = arith.fptosi %x : tensor<4x8xf32> to tensor<4x8xi64>
    return %0 : tensor<4x8xi64>
  }
}

// -----

module {
  dtc.parameter trainable @w : tensor<4x8xf32> file tensor<4x8xf32>
  // expected-error@+1 {{the loss depends on no trainable parameter}}
  func.func @forward(%w: tensor<4x8xf32> {dtc.role = #dtc.role<parameter, "w">},
                     %x: tensor<4x8xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4x8xf32> {dtc.role = #dtc.role<output, "y">}) {
    return %x : tensor<4x8xf32>
  }
}

// -----

module {
  dtc.parameter trainable @w : tensor<4x8xf32> file tensor<4x8xf32>
  // expected-error@+1 {{the model has an input with the name of the loss' own: target}}
  func.func @forward(%w: tensor<4x8xf32> {dtc.role = #dtc.role<parameter, "w">},
                     %x: tensor<4x8xf32> {dtc.role = #dtc.role<input, "target">})
      -> (tensor<4x8xf32> {dtc.role = #dtc.role<output, "y">}) {
    %0 = arith.addf %w, %x : tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}

// -----

module {
  dtc.parameter trainable @w : tensor<4x8xf32> file tensor<4x8xf32>
  func.func @forward(%w: tensor<4x8xf32> {dtc.role = #dtc.role<parameter, "w">})
      -> (tensor<4x8xf32> {dtc.role = #dtc.role<output, "y">}) {
    // expected-error@+1 {{can't be trained through, it has no gradient: dtc.softmax_grad}}
    %0 = dtc.softmax_grad %w, %w 0 : tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}
