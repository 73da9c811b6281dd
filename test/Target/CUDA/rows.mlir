// Three warps share a row of 768 columns, two units of four for each thread: the row is read once,
// and no index has to be checked.
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels | FileCheck %s --check-prefix=KERNEL
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels --test-emit-ptx -o /dev/null | FileCheck %s

// KERNEL: exec.kernel @rows_0 extent 128 scratch 0 geometry <blocks = 128, threads = 96>

// CHECK: .entry rows_0(
// CHECK: .reqntid 96
// CHECK-COUNT-2: ld.global.{{(nc\.)?}}v4.{{[fb]}}32
// CHECK-NOT: ld.global
// CHECK: shfl.sync.bfly.b32
// CHECK: bar.sync
// CHECK-NOT: ld.global
// CHECK-COUNT-2: st.global.v4.{{[fb]}}32
// CHECK-NOT: .local
// CHECK: ret;
func.func @softmax(%x: tensor<128x768xf32>) -> tensor<128x768xf32> {
  %0 = dtc.softmax %x 1 : tensor<128x768xf32>
  return %0 : tensor<128x768xf32>
}
