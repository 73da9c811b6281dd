// RUN: dtc-opt --split-input-file --verify-diagnostics --dtc-pad-tokens=ranks=4 %s | FileCheck %s

// What could let a token change earlier ones, or the loss, leaves the function as it is.
// CHECK-NOT: token_padding

// A sum over the tokens.
func.func @forward(%ids: tensor<2x6xi64> {dtc.role = #dtc.role<input, "ids">},
                   %w: tensor<6x4xf32> {dtc.role = #dtc.role<parameter, "w">})
    -> (tensor<2x6x4xf32> {dtc.role = #dtc.role<output, "logits">}) {
  %x = dtc.gather %w, %ids axis 0 : tensor<6x4xf32>, tensor<2x6xi64> -> tensor<2x6x4xf32>
  // expected-warning @+1 {{the 6 tokens of a sample aren't padded for cp=4: the operation mixes tokens}}
  %s = dtc.reduce sum %x [1] : tensor<2x6x4xf32> -> tensor<2x4xf32>
  %y = dtc.broadcast %s [0, 2] : tensor<2x4xf32> -> tensor<2x6x4xf32>
  return %y : tensor<2x6x4xf32>
}

// -----

// The last token alone.
func.func @forward(%ids: tensor<2x6xi64> {dtc.role = #dtc.role<input, "ids">},
                   %w: tensor<6x4xf32> {dtc.role = #dtc.role<parameter, "w">})
    -> (tensor<2x1x4xf32> {dtc.role = #dtc.role<output, "logits">}) {
  %x = dtc.gather %w, %ids axis 0 : tensor<6x4xf32>, tensor<2x6xi64> -> tensor<2x6x4xf32>
  // expected-warning @+1 {{the 6 tokens of a sample aren't padded for cp=4: the operation mixes tokens}}
  %y = dtc.slice %x offsets [0, 5, 0] strides [1, 1, 1] : tensor<2x6x4xf32> -> tensor<2x1x4xf32>
  return %y : tensor<2x1x4xf32>
}

// -----

// Each token sees all.
func.func @forward(%ids: tensor<2x6xi64> {dtc.role = #dtc.role<input, "ids">},
                   %w: tensor<6x4xf32> {dtc.role = #dtc.role<parameter, "w">})
    -> (tensor<2x6x2x2xf32> {dtc.role = #dtc.role<output, "logits">}) {
  %x = dtc.gather %w, %ids axis 0 : tensor<6x4xf32>, tensor<2x6xi64> -> tensor<2x6x4xf32>
  %q = dtc.reshape %x : tensor<2x6x4xf32> -> tensor<2x6x2x2xf32>
  // expected-warning @+1 {{the 6 tokens of a sample aren't padded for cp=4: attention lets tokens see later ones}}
  %o, %lse = dtc.attention %q, %q, %q scale 1.0 : tensor<2x6x2x2xf32>, tensor<2x6x2x2xf32>, tensor<2x6x2x2xf32> -> tensor<2x6x2x2xf32>, tensor<2x2x6xf32>
  return %o : tensor<2x6x2x2xf32>
}

// -----

// A bias might show what lies behind.
func.func @forward(%ids: tensor<2x6xi64> {dtc.role = #dtc.role<input, "ids">},
                   %w: tensor<6x4xf32> {dtc.role = #dtc.role<parameter, "w">},
                   %bias: tensor<2x2x6x6xf32> {dtc.role = #dtc.role<parameter, "bias">})
    -> (tensor<2x6x2x2xf32> {dtc.role = #dtc.role<output, "logits">}) {
  %x = dtc.gather %w, %ids axis 0 : tensor<6x4xf32>, tensor<2x6xi64> -> tensor<2x6x4xf32>
  %q = dtc.reshape %x : tensor<2x6x4xf32> -> tensor<2x6x2x2xf32>
  // expected-warning @+1 {{the 6 tokens of a sample aren't padded for cp=4: attention has a bias}}
  %o, %lse = dtc.attention %q, %q, %q bias %bias : tensor<2x2x6x6xf32> scale 1.0 causal : tensor<2x6x2x2xf32>, tensor<2x6x2x2xf32>, tensor<2x6x2x2xf32> -> tensor<2x6x2x2xf32>, tensor<2x2x6xf32>
  return %o : tensor<2x6x2x2xf32>
}

// -----

// Products of all tokens with all.
func.func @forward(%ids: tensor<2x6xi64> {dtc.role = #dtc.role<input, "ids">},
                   %w: tensor<6x4xf32> {dtc.role = #dtc.role<parameter, "w">})
    -> (tensor<2x6x6xf32> {dtc.role = #dtc.role<output, "logits">}) {
  %x = dtc.gather %w, %ids axis 0 : tensor<6x4xf32>, tensor<2x6xi64> -> tensor<2x6x4xf32>
  // expected-warning @+1 {{the 6 tokens of a sample aren't padded for cp=4: the operation mixes tokens}}
  %s = dtc.contract %x [0, 1, 3], %x [0, 2, 3] -> [0, 1, 2] : tensor<2x6x4xf32>, tensor<2x6x4xf32> -> tensor<2x6x6xf32>
  return %s : tensor<2x6x6xf32>
}

// -----

// Choices among experts, of which there may be counts.
func.func @forward(%ids: tensor<2x6xi64> {dtc.role = #dtc.role<input, "ids">},
                   %w: tensor<6x4xf32> {dtc.role = #dtc.role<parameter, "w">})
    -> (tensor<2x6x2xi64> {dtc.role = #dtc.role<output, "logits">}) {
  %x = dtc.gather %w, %ids axis 0 : tensor<6x4xf32>, tensor<2x6xi64> -> tensor<2x6x4xf32>
  // expected-warning @+1 {{the 6 tokens of a sample aren't padded for cp=4: the operation isn't known to leave tokens apart}}
  %i = dtc.top_k %x : tensor<2x6x4xf32> -> tensor<2x6x2xi64>
  return %i : tensor<2x6x2xi64>
}

// -----

// Tokens as the classes of a loss.
func.func @forward(%ids: tensor<2x6xi64> {dtc.role = #dtc.role<input, "ids">},
                   %w: tensor<6x4xf32> {dtc.role = #dtc.role<parameter, "w">})
    -> (tensor<2x6xf32> {dtc.role = #dtc.role<output, "logits">}) {
  %x = dtc.gather %w, %ids axis 0 : tensor<6x4xf32>, tensor<2x6xi64> -> tensor<2x6x4xf32>
  // expected-warning @+1 {{the 6 tokens of a sample aren't padded for cp=4: an output hasn't the tokens between samples and features}}
  %y = dtc.reduce sum %x [2] : tensor<2x6x4xf32> -> tensor<2x6xf32>
  return %y : tensor<2x6xf32>
}

// -----

// A parameter that is multiplied by tokens, as in an MLP over them.
func.func @forward(%ids: tensor<2x6xi64> {dtc.role = #dtc.role<input, "ids">},
                   %w: tensor<6x4xf32> {dtc.role = #dtc.role<parameter, "w">})
    -> (tensor<2x4x4xf32> {dtc.role = #dtc.role<output, "logits">}) {
  %x = dtc.gather %w, %ids axis 0 : tensor<6x4xf32>, tensor<2x6xi64> -> tensor<2x6x4xf32>
  // expected-warning @+1 {{the 6 tokens of a sample aren't padded for cp=4: the operation mixes tokens}}
  %y = dtc.contract %x [0, 3, 2], %w [3, 1] -> [0, 1, 2] : tensor<2x6x4xf32>, tensor<6x4xf32> -> tensor<2x4x4xf32>
  return %y : tensor<2x4x4xf32>
}

// -----

// A buffer keeps something of each token.
func.func @forward(%ids: tensor<2x6xi64> {dtc.role = #dtc.role<input, "ids">},
                   %w: tensor<6x4xf32> {dtc.role = #dtc.role<parameter, "w">},
                   %seen: tensor<2x6x4xf32> {dtc.role = #dtc.role<buffer, "seen">})
    -> (tensor<2x6x4xf32> {dtc.role = #dtc.role<buffer, "seen">}) {
  // expected-warning @+1 {{the 6 tokens of a sample aren't padded for cp=4: a step changes more than parameters}}
  %x = dtc.gather %w, %ids axis 0 : tensor<6x4xf32>, tensor<2x6xi64> -> tensor<2x6x4xf32>
  return %x : tensor<2x6x4xf32>
}
