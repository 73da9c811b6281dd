// RUN: dtc-opt %s --dtc-decompose-layers --dtc-form-kernels --test-run-kernels -o /dev/null

func.func @softmax(%x: tensor<4x7x33xf32>) -> tensor<4x7x33xf32> {
  %0 = dtc.softmax %x 2 : tensor<4x7x33xf32>
  return %0 : tensor<4x7x33xf32>
}
func.func @bias_gelu(%x: tensor<32x64xf32>, %b: tensor<64xf32>) -> tensor<32x64xf32> {
  %0 = dtc.broadcast %b [1] : tensor<64xf32> -> tensor<32x64xf32>
  %1 = arith.addf %x, %0 : tensor<32x64xf32>
  %2 = dtc.activation gelu %1 : tensor<32x64xf32>
  return %2 : tensor<32x64xf32>
}
func.func @ln(%x: tensor<8x16x48xf32>, %r: tensor<8x16x48xf32>, %g: tensor<48xf32>, %b: tensor<48xf32>) -> (tensor<8x16x48xf32>, tensor<8x16x48xf32>, tensor<8x16xf32>, tensor<8x16xf32>) {
  %s = arith.addf %x, %r : tensor<8x16x48xf32>
  %0, %1, %2 = dtc.layer_norm %s scale %g : tensor<48xf32> bias %b : tensor<48xf32> eps 1.0e-5 : tensor<8x16x48xf32> -> tensor<8x16x48xf32>, tensor<8x16xf32>, tensor<8x16xf32>
  return %s, %0, %1, %2 : tensor<8x16x48xf32>, tensor<8x16x48xf32>, tensor<8x16xf32>, tensor<8x16xf32>
}
func.func @lng(%x: tensor<8x16x48xf32>, %m: tensor<8x16xf32>, %r: tensor<8x16xf32>, %dy: tensor<8x16x48xf32>, %g: tensor<48xf32>) -> (tensor<8x16x48xf32>, tensor<48xf32>, tensor<48xf32>) {
  %0, %1, %2 = dtc.layer_norm_grad %x, %m, %r, %dy scale %g : tensor<48xf32> : tensor<8x16x48xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16x48xf32> -> tensor<8x16x48xf32>, tensor<48xf32>, tensor<48xf32>
  return %0, %1, %2 : tensor<8x16x48xf32>, tensor<48xf32>, tensor<48xf32>
}
