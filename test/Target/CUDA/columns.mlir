// A lane has a column; eight warps share the rows, and the first adds up what they found.
// RUN: dtc-opt --target=cuda %s --dtc-form-kernels | FileCheck %s --check-prefix=KERNEL
// RUN: dtc-opt --target=cuda %s --dtc-form-kernels --test-emit-ptx -o /dev/null | FileCheck %s

// KERNEL: exec.kernel @columns_0 extent 96 scratch 0 geometry <blocks = 3, threads = 256>

// CHECK: .entry columns_0(
// CHECK: .minnctapersm 1
// CHECK: .shared .align 16 .b8 columns_0_shared0[1024]
// CHECK: ld.global.nc.{{[fb]}}32
// CHECK: st.shared.{{[fb]}}32
// CHECK: bar.sync
// CHECK-NOT: atom
// CHECK: ret;
func.func @bias_grad(%x: tensor<1024x96xf32>) -> tensor<96xf32> {
  %0 = dtc.reduce sum %x [0] : tensor<1024x96xf32> -> tensor<96xf32>
  return %0 : tensor<96xf32>
}
