// RUN: dtc-opt --dtc-print-problem -split-input-file -verify-diagnostics %s

// expected-error @+1 {{has neither @loss_and_grads nor @forward to plan}}
module {
  func.func @other() { return }
}

// -----

module {
  // expected-error @+1 {{argument has no role that can be planned: 0}}
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

module {
  func.func @forward(%x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">}) -> tensor<4xf32> {
    // expected-error @+1 {{has no sharding rule and can't be planned: builtin.unrealized_conversion_cast}}
    %0 = builtin.unrealized_conversion_cast %x : tensor<4xf32> to tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
