// A block keeps a long row that a maximum and a sum of exponentials have read, and reads it no more where the
// gradient is made: in memory of the block, which begins with the kernel, and by whole accesses.
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels | FileCheck %s --check-prefix=KERNEL
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels --test-emit-ptx -o /dev/null | FileCheck %s
// RUN: %if gpu %{ dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels --test-run-cuda-kernels="tolerance=1e-4" -o /dev/null %}

// Rows of 60000 halves don't fit. Of the last two functions, one keeps one operand and one keeps two.
// KERNEL-DAG: geometry <blocks = 3, threads = 512, sharedBytes = 18000>
// KERNEL-DAG: geometry <blocks = 2, threads = 512>
// KERNEL-DAG: geometry <blocks = 2, threads = 512, sharedBytes = 72000>
// KERNEL-DAG: geometry <blocks = 2, threads = 512, sharedBytes = 64000>

// CHECK-LABEL: .entry rows_0(
// CHECK: ld.global{{.*}}.v4.b32
// CHECK: st.shared.v4.b32
// CHECK: bar.sync
// CHECK: ld.shared.v4.b32
// CHECK-NOT: ld.global{{.*}}.v4.b32
// CHECK: st.global.v4.b32
// CHECK: ret;
func.func @loss(%logits: tensor<3x9000xbf16>, %target: tensor<3xi64>, %grad: tensor<3xf32>)
    -> (tensor<3xf32>, tensor<3x9000xbf16>) {
  %0:2 = dtc.cross_entropy %logits, %target ignore -100 : tensor<3x9000xbf16>, tensor<3xi64> -> tensor<3xf32>, tensor<3xf32>
  %1 = dtc.cross_entropy_grad %logits, %target, %0#1, %grad ignore -100 : tensor<3x9000xbf16>, tensor<3xi64>, tensor<3xf32>, tensor<3xf32> -> tensor<3x9000xbf16>
  return %0#0, %1 : tensor<3xf32>, tensor<3x9000xbf16>
}

func.func @longer(%logits: tensor<2x60000xbf16>, %target: tensor<2xi64>, %grad: tensor<2xf32>)
    -> (tensor<2xf32>, tensor<2x60000xbf16>) {
  %0:2 = dtc.cross_entropy %logits, %target ignore -100 : tensor<2x60000xbf16>, tensor<2xi64> -> tensor<2xf32>, tensor<2xf32>
  %1 = dtc.cross_entropy_grad %logits, %target, %0#1, %grad ignore -100 : tensor<2x60000xbf16>, tensor<2xi64>, tensor<2xf32>, tensor<2xf32> -> tensor<2x60000xbf16>
  return %0#0, %1 : tensor<2xf32>, tensor<2x60000xbf16>
}

// Two operands, one of which only the result reads.
func.func @norm(%x: tensor<2x18000xf32>, %y: tensor<2x18000xf32>) -> tensor<2x18000xf32> {
  %0 = arith.mulf %x, %x : tensor<2x18000xf32>
  %1 = dtc.reduce sum %0 [1] : tensor<2x18000xf32> -> tensor<2xf32>
  %2 = dtc.broadcast %1 [0] : tensor<2xf32> -> tensor<2x18000xf32>
  %3 = arith.divf %x, %2 : tensor<2x18000xf32>
  %4 = arith.addf %3, %y : tensor<2x18000xf32>
  return %4 : tensor<2x18000xf32>
}

func.func @product(%x: tensor<2x8000xf32>, %y: tensor<2x8000xf32>) -> tensor<2x8000xf32> {
  %0 = arith.mulf %x, %y : tensor<2x8000xf32>
  %1 = dtc.reduce sum %0 [1] : tensor<2x8000xf32> -> tensor<2xf32>
  %2 = dtc.broadcast %1 [0] : tensor<2xf32> -> tensor<2x8000xf32>
  %3 = arith.addf %x, %2 : tensor<2x8000xf32>
  %4 = arith.subf %3, %y : tensor<2x8000xf32>
  return %4 : tensor<2x8000xf32>
}

// Rows of another length beside these: nothing is kept.
// KERNEL-DAG: exec.kernel @rows_{{.}} extent 2 scratch 0 geometry <blocks = 2, threads = 512> {
func.func @two_lengths(%x: tensor<2x8000xf32>, %y: tensor<2x16000xf32>) -> tensor<2x8000xf32> {
  %0 = arith.mulf %x, %x : tensor<2x8000xf32>
  %1 = dtc.reduce sum %0 [1] : tensor<2x8000xf32> -> tensor<2xf32>
  %2 = dtc.reduce sum %y [1] : tensor<2x16000xf32> -> tensor<2xf32>
  %3 = arith.mulf %1, %2 : tensor<2xf32>
  %4 = dtc.broadcast %3 [0] : tensor<2xf32> -> tensor<2x8000xf32>
  %5 = arith.addf %x, %4 : tensor<2x8000xf32>
  return %5 : tensor<2x8000xf32>
}
