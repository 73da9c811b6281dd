// RUN: dtc-opt --dtc-check-gradients --verify-diagnostics %s

// expected-remark@+1 {{gradient ok: 40 elements}}
func.func @layer_norm(%x: tensor<2x3x5xf32>, %scale: tensor<5xf32>, %bias: tensor<5xf32>) -> tensor<2x3x5xf32> attributes {check_gradients} {
  %y, %mean, %rstd = dtc.layer_norm %x scale %scale : tensor<5xf32> bias %bias : tensor<5xf32> eps 1.0e-5
    : tensor<2x3x5xf32> -> tensor<2x3x5xf32>, tensor<2x3xf32>, tensor<2x3xf32>
  return %y : tensor<2x3x5xf32>
}

// expected-remark@+1 {{gradient ok: 18 elements}}
func.func @layer_norm_without_bias(%x: tensor<2x6xf32>, %scale: tensor<6xf32>) -> tensor<2x6xf32> attributes {check_gradients} {
  %y, %mean, %rstd = dtc.layer_norm %x scale %scale : tensor<6xf32> eps 1.0e-1
    : tensor<2x6xf32> -> tensor<2x6xf32>, tensor<2xf32>, tensor<2xf32>
  return %y : tensor<2x6xf32>
}

// expected-remark@+1 {{gradient ok: 18 elements}}
func.func @layer_norm_without_scale(%x: tensor<2x6xf32>, %bias: tensor<6xf32>) -> tensor<2x6xf32> attributes {check_gradients} {
  %y, %mean, %rstd = dtc.layer_norm %x bias %bias : tensor<6xf32> eps 1.0e-5
    : tensor<2x6xf32> -> tensor<2x6xf32>, tensor<2xf32>, tensor<2xf32>
  return %y : tensor<2x6xf32>
}

// expected-remark@+1 {{gradient ok: 12 elements}}
func.func @layer_norm_plain(%x: tensor<2x6xf32>) -> tensor<2x6xf32> attributes {check_gradients} {
  %y, %mean, %rstd = dtc.layer_norm %x eps 1.0e-5
    : tensor<2x6xf32> -> tensor<2x6xf32>, tensor<2xf32>, tensor<2xf32>
  return %y : tensor<2x6xf32>
}

// expected-remark@+1 {{gradient ok: 35 elements}}
func.func @rms_norm(%x: tensor<2x3x5xf32>, %scale: tensor<5xf32>) -> tensor<2x3x5xf32> attributes {check_gradients} {
  %y, %rstd = dtc.rms_norm %x scale %scale : tensor<5xf32> eps 1.0e-2
    : tensor<2x3x5xf32> -> tensor<2x3x5xf32>, tensor<2x3xf32>
  return %y : tensor<2x3x5xf32>
}

// expected-remark@+1 {{gradient ok: 12 elements}}
func.func @rms_norm_plain(%x: tensor<2x6xf32>) -> tensor<2x6xf32> attributes {check_gradients} {
  %y, %rstd = dtc.rms_norm %x eps 1.0e-5 : tensor<2x6xf32> -> tensor<2x6xf32>, tensor<2xf32>
  return %y : tensor<2x6xf32>
}

// Through the statistics of the batch.
// expected-remark@+1 {{gradient ok: 66 elements}}
func.func @batch_norm(%x: tensor<4x3x5xf32>, %scale: tensor<3xf32>, %bias: tensor<3xf32>) -> tensor<4x3x5xf32> attributes {check_gradients} {
  %y, %mean, %rstd, %variance = dtc.batch_norm %x scale %scale : tensor<3xf32> bias %bias : tensor<3xf32> eps 1.0e-2
    : tensor<4x3x5xf32> -> tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
  return %y : tensor<4x3x5xf32>
}

// expected-remark@+1 {{gradient ok: 12 elements}}
func.func @batch_norm_plain(%x: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {check_gradients} {
  %y, %mean, %rstd, %variance = dtc.batch_norm %x eps 1.0e-2
    : tensor<4x3xf32> -> tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
  return %y : tensor<4x3xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @batch_norm_without_scale(%x: tensor<4x3xf32>, %bias: tensor<3xf32>) -> tensor<4x3xf32> attributes {check_gradients} {
  %y, %mean, %rstd, %variance = dtc.batch_norm %x bias %bias : tensor<3xf32> eps 1.0e-2
    : tensor<4x3xf32> -> tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
  return %y : tensor<4x3xf32>
}
