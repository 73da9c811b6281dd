// RUN: dtc-opt --dtc-train=precision=fp16 -verify-diagnostics %s

module {
  // expected-error @+1 {{has the name of a number that loss scaling keeps: dtc.loss_scale}}
  dtc.parameter trainable @dtc.loss_scale : tensor<10x32xf32> file tensor<10x32xf32>

  func.func @forward(
      %w: tensor<10x32xf32> {dtc.role = #dtc.role<parameter, "dtc.loss_scale">},
      %x: tensor<4x32xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4x10xf32> {dtc.role = #dtc.role<output, "logits">}) {
    %0 = dtc.contract %x [0, 2], %w [1, 2] -> [0, 1]
      : tensor<4x32xf32>, tensor<10x32xf32> -> tensor<4x10xf32>
    return %0 : tensor<4x10xf32>
  }
}
