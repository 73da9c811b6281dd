// Rows too long for registers are read in groups, and what is left of them unit by unit. The maximum and the
// sum of exponentials are found in one pass, so that logits are read twice with the gradient.
// REQUIRES: gpu
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels | FileCheck %s --check-prefix=KERNEL
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels --test-emit-ptx -o /dev/null | FileCheck %s
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels --test-run-cuda-kernels="tolerance=1e-4 int-low=0" -o /dev/null

// KERNEL-COUNT-2: exec.kernel @rows_{{.}} extent 6 scratch 0 geometry <blocks = 6, threads = 512>

// CHECK: .entry rows_{{.}}(
// CHECK: ex2.approx.ftz.f32

// No unit of several columns divides these.
func.func @loss(%logits: tensor<6x20011xbf16>, %target: tensor<6xi64>, %grad: tensor<6xf32>)
    -> (tensor<6xf32>, tensor<6x20011xbf16>) {
  %0:2 = dtc.cross_entropy %logits, %target ignore -100 : tensor<6x20011xbf16>, tensor<6xi64> -> tensor<6xf32>, tensor<6xf32>
  %1 = dtc.cross_entropy_grad %logits, %target, %0#1, %grad ignore -100 : tensor<6x20011xbf16>, tensor<6xi64>, tensor<6xf32>, tensor<6xf32> -> tensor<6x20011xbf16>
  return %0#0, %1 : tensor<6xf32>, tensor<6x20011xbf16>
}

// Eight bf16 are one access.
func.func @even_loss(%logits: tensor<6x20008xbf16>, %target: tensor<6xi64>, %grad: tensor<6xf32>)
    -> (tensor<6xf32>, tensor<6x20008xbf16>) {
  %0:2 = dtc.cross_entropy %logits, %target ignore -100 : tensor<6x20008xbf16>, tensor<6xi64> -> tensor<6xf32>, tensor<6xf32>
  %1 = dtc.cross_entropy_grad %logits, %target, %0#1, %grad ignore -100 : tensor<6x20008xbf16>, tensor<6xi64>, tensor<6xf32>, tensor<6xf32> -> tensor<6x20008xbf16>
  return %0#0, %1 : tensor<6xf32>, tensor<6x20008xbf16>
}

// The first maxima of a thread are -infinity.
func.func @masked(%x: tensor<3x5000xf32>) -> tensor<3x20000xf32> {
  %hidden = arith.constant dense<0xFF800000> : tensor<3x15000xf32>
  %0 = dtc.concat 1 (%hidden, %x) : tensor<3x15000xf32>, tensor<3x5000xf32> -> tensor<3x20000xf32>
  %1 = dtc.softmax %0 1 : tensor<3x20000xf32>
  return %1 : tensor<3x20000xf32>
}
