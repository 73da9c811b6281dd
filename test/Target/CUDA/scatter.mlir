// A warp owns a row of the table and adds what the indices send there, in their order: no atomics.
// RUN: dtc-opt --target=cuda %s --dtc-form-kernels | FileCheck %s --check-prefix=KERNEL
// RUN: dtc-opt --target=cuda %s --dtc-form-kernels --test-emit-ptx -o /dev/null | FileCheck %s

// KERNEL: exec.kernel @scatter_0 extent 50 scratch 0 geometry <blocks = 13, threads = 128>

// CHECK: .entry scatter_0(
// CHECK: vote.sync.ballot.b32
// CHECK-NOT: atom
// CHECK: ret;
func.func @embedding_grad(%i: tensor<64xi64>, %u: tensor<64x40xf32>) -> tensor<50x40xf32> {
  %0 = dtc.scatter_add %i, %u axis 0 : tensor<64xi64>, tensor<64x40xf32> -> tensor<50x40xf32>
  return %0 : tensor<50x40xf32>
}
