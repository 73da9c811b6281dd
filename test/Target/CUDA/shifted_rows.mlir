// Rows of a number of columns that no access divides begin anywhere within one. They are read and written by
// whole accesses of the buffer all the same, and kept as others are. What is before the first and behind the
// last of these, at most 14 columns, has a thread each.
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels | FileCheck %s --check-prefix=KERNEL
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels --test-emit-ptx -o /dev/null | FileCheck %s
// RUN: %if gpu %{ dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels --test-run-cuda-kernels="tolerance=1e-4 int-low=0" -o /dev/null %}

// KERNEL-DAG: geometry <blocks = 8, threads = 512, sharedBytes = 16032>
// KERNEL-DAG: geometry <blocks = 16, threads = 512, sharedBytes = 36016>
// KERNEL-DAG: exec.kernel @rows_{{.}} extent 6 scratch 0 geometry <blocks = 6, threads = 512>

// CHECK: .entry rows_0(
// CHECK: ld.global{{.*}}.v4.b32
// CHECK: st.shared.v4.b32
// CHECK: ld.global{{.*}}.b16
// CHECK: bar.sync
// CHECK: ld.shared.v4.b32
// CHECK-NOT: ld.global{{.*}}.v4.b32
// CHECK: st.global.v4.b32
// CHECK: st.global.b16
// CHECK: ret;
func.func @loss(%logits: tensor<8x8009xbf16>, %target: tensor<8xi64>, %grad: tensor<8xf32>)
    -> (tensor<8xf32>, tensor<8x8009xbf16>) {
  %0:2 = dtc.cross_entropy %logits, %target ignore -100 : tensor<8x8009xbf16>, tensor<8xi64> -> tensor<8xf32>, tensor<8xf32>
  %1 = dtc.cross_entropy_grad %logits, %target, %0#1, %grad ignore -100 : tensor<8x8009xbf16>, tensor<8xi64>, tensor<8xf32>, tensor<8xf32> -> tensor<8x8009xbf16>
  return %0#0, %1 : tensor<8xf32>, tensor<8x8009xbf16>
}

// Accesses of four, and what the columns alone have beside them.
func.func @scaled(%x: tensor<16x9003xf32>, %y: tensor<9003xf32>) -> tensor<16x9003xf32> {
  %0 = arith.mulf %x, %x : tensor<16x9003xf32>
  %1 = dtc.reduce sum %0 [1] : tensor<16x9003xf32> -> tensor<16xf32>
  %2 = dtc.broadcast %1 [0] : tensor<16xf32> -> tensor<16x9003xf32>
  %3 = arith.divf %x, %2 : tensor<16x9003xf32>
  %4 = dtc.broadcast %y [1] : tensor<9003xf32> -> tensor<16x9003xf32>
  %5 = arith.addf %3, %4 : tensor<16x9003xf32>
  return %5 : tensor<16x9003xf32>
}

// A buffer that doesn't end with a whole access is read element by element.
func.func @uneven(%x: tensor<6x9001xbf16>) -> tensor<6x9001xbf16> {
  %0 = dtc.softmax %x 1 : tensor<6x9001xbf16>
  return %0 : tensor<6x9001xbf16>
}
