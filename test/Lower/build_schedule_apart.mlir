// RUN: dtc-opt %s -verify-diagnostics --dtc-build-schedule="microbatches=2 ranks=2 rank=0"

// Rank 0 of two makes another forward pass before the first backward pass.
// expected-error @below {{makes passes at once that lie apart in the schedule: forward|backward}}
func.func @loss_and_grads(%g: tensor<4xf32> {dtc.role = #dtc.role<gradient, "w">})
    -> (tensor<4xf32> {dtc.role = #dtc.role<gradient, "w">}) attributes {dtc.runs = #dtc.runs<microbatch, forward|backward>} {
  return %g : tensor<4xf32>
}
