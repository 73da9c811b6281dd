// RUN: dtc-opt --dtc-check-gradients --split-input-file --verify-diagnostics %s

// The check itself: steps have a gradient of zero, which finite differences
// over many small steps contradict.
// expected-error@+1 {{gradient of argument 0 at element 0 is 0.000000e+00, finite differences give}}
func.func @fine_steps(%x: tensor<3xf32>) -> tensor<3xf32> attributes {check_gradients} {
  %fine = arith.constant dense<1.0e8> : tensor<3xf32>
  %0 = arith.mulf %x, %fine : tensor<3xf32>
  %1 = math.floor %0 : tensor<3xf32>
  %y = arith.divf %1, %fine : tensor<3xf32>
  return %y : tensor<3xf32>
}

// -----

func.func @no_gradient(%x: tensor<3xf32>) -> tensor<3xf32> attributes {check_gradients} {
  // expected-error@+1 {{can't be trained through, it has no gradient: dtc.softmax_grad}}
  %y = dtc.softmax_grad %x, %x 0 : tensor<3xf32>
  return %y : tensor<3xf32>
}

// -----

func.func @statistics(%x: tensor<2x6xf32>) -> tensor<2xf32> attributes {check_gradients} {
  // expected-error@+1 {{has no gradient through its row statistics}}
  %y, %rstd = dtc.rms_norm %x eps 1.0e-5 : tensor<2x6xf32> -> tensor<2x6xf32>, tensor<2xf32>
  return %rstd : tensor<2xf32>
}

// -----

// expected-error@+1 {{no function is marked with check_gradients}}
module {}
