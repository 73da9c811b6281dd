// RUN: dtc-opt %s -verify-diagnostics --dtc-split-passes

// expected-error @below {{sends what a later pass makes, result: 0}}
func.func @stage(
    %dz: tensor<4xf32> {dtc.role = #dtc.role<inbox, "c">, dtc.runs = #dtc.runs<microbatch, input_grad>})
    -> (tensor<4xf32> {dtc.role = #dtc.role<outbox, "b">, dtc.runs = #dtc.runs<microbatch, forward>})
    attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward>} {
  return %dz : tensor<4xf32>
}
