// What lies side by side in an operand is far apart in what is made. A thread has turns that read whole sectors
// of 32 bytes, and a block has rows that lie side by side. test_gpu_traffic.py counts what the kernels move.
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels | FileCheck %s
// RUN: %if gpu %{ dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels --test-run-cuda-kernels="tolerance=1e-4" -o /dev/null %}

// Of 98,304 elements, eight turns of one leave 12,288 threads.
// CHECK-DAG: exec.kernel @pointwise_0 extent 12288 scratch 0 geometry <blocks = 48, threads = 256>
func.func @to_channels_first(%x: tensor<2x32x48x32xf32>, %y: tensor<2x32x32x48xf32>) -> tensor<2x32x32x48xf32> {
  %0 = dtc.transpose %x [0, 3, 1, 2] : tensor<2x32x48x32xf32> -> tensor<2x32x32x48xf32>
  %1 = arith.addf %0, %y : tensor<2x32x32x48xf32>
  return %1 : tensor<2x32x32x48xf32>
}

// Turns go on behind a row of 14, and behind a sample.
// CHECK-DAG: exec.kernel @pointwise_1 extent 9408 scratch 0 geometry <blocks = 37, threads = 256>
func.func @to_channels_last(%x: tensor<8x48x14x14xf32>, %s: tensor<48xf32>) -> tensor<8x14x14x48xf32> {
  %0 = dtc.transpose %x [0, 2, 3, 1] : tensor<8x48x14x14xf32> -> tensor<8x14x14x48xf32>
  %1 = dtc.broadcast %s [3] : tensor<48xf32> -> tensor<8x14x14x48xf32>
  %2 = arith.mulf %0, %1 : tensor<8x14x14x48xf32>
  return %2 : tensor<8x14x14x48xf32>
}

// In bf16, 16 turns of two.
// CHECK-DAG: exec.kernel @pointwise_2 extent 8192 scratch 0 geometry <blocks = 32, threads = 256>
func.func @halves(%x: tensor<2x32x64x64xbf16>, %y: tensor<2x64x32x64xbf16>) -> tensor<2x64x32x64xbf16> {
  %0 = dtc.transpose %x [0, 3, 1, 2] : tensor<2x32x64x64xbf16> -> tensor<2x64x32x64xbf16>
  %1 = arith.addf %0, %y : tensor<2x64x32x64xbf16>
  return %1 : tensor<2x64x32x64xbf16>
}

// Both transposes of an operand together read it along, so that the other one alone decides.
// CHECK-DAG: exec.kernel @pointwise_3 extent 12288 scratch 0 geometry <blocks = 48, threads = 256>
func.func @there_and_back(%x: tensor<2x32x32x48xf32>, %y: tensor<2x32x48x32xf32>) -> tensor<2x32x32x48xf32> {
  %0 = dtc.transpose %x [0, 2, 3, 1] : tensor<2x32x32x48xf32> -> tensor<2x32x48x32xf32>
  %1 = arith.mulf %y, %y : tensor<2x32x48x32xf32>
  %2 = arith.addf %0, %1 : tensor<2x32x48x32xf32>
  %3 = dtc.transpose %2 [0, 3, 1, 2] : tensor<2x32x48x32xf32> -> tensor<2x32x32x48xf32>
  return %3 : tensor<2x32x32x48xf32>
}

// Heads are exchanged with positions, and are read along.
// CHECK-DAG: exec.kernel @pointwise_4 extent 24576 scratch 0 geometry <blocks = 96, threads = 256>
func.func @heads(%x: tensor<2x32x48x32xf32>) -> tensor<2x48x32x32xf32> {
  %0 = dtc.transpose %x [0, 2, 1, 3] : tensor<2x32x48x32xf32> -> tensor<2x48x32x32xf32>
  %1 = arith.mulf %0, %0 : tensor<2x48x32x32xf32>
  return %1 : tensor<2x48x32x32xf32>
}

// Norms of channels: a block has eight rows in fp32 and 16 in bf16, each of a warp, though its columns are many.
// CHECK-DAG: exec.kernel @rows_0 extent 160 scratch 0 geometry <blocks = 20, threads = 256>
func.func @norm(%x: tensor<2x40x10x8xf32>, %s: tensor<40xf32>)
    -> (tensor<2x10x8x40xf32>, tensor<2x10x8xf32>, tensor<2x10x8xf32>) {
  %0 = dtc.transpose %x [0, 2, 3, 1] : tensor<2x40x10x8xf32> -> tensor<2x10x8x40xf32>
  %1, %2, %3 = dtc.layer_norm %0 scale %s : tensor<40xf32> eps 1.0e-6 : tensor<2x10x8x40xf32> -> tensor<2x10x8x40xf32>, tensor<2x10x8xf32>, tensor<2x10x8xf32>
  return %1, %2, %3 : tensor<2x10x8x40xf32>, tensor<2x10x8xf32>, tensor<2x10x8xf32>
}

// CHECK-DAG: exec.kernel @rows_1 extent 64 scratch 0 geometry <blocks = 4, threads = 512>
func.func @many_channels(%x: tensor<2x700x4x8xbf16>, %s: tensor<700xbf16>)
    -> (tensor<2x4x8x700xbf16>, tensor<2x4x8xf32>, tensor<2x4x8xf32>) {
  %0 = dtc.transpose %x [0, 2, 3, 1] : tensor<2x700x4x8xbf16> -> tensor<2x4x8x700xbf16>
  %1, %2, %3 = dtc.layer_norm %0 scale %s : tensor<700xbf16> eps 1.0e-6 : tensor<2x4x8x700xbf16> -> tensor<2x4x8x700xbf16>, tensor<2x4x8xf32>, tensor<2x4x8xf32>
  return %1, %2, %3 : tensor<2x4x8x700xbf16>, tensor<2x4x8xf32>, tensor<2x4x8xf32>
}
