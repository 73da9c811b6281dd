// A block owns rows of the table, lists the indices that name one, and adds what they send there, in
// their order: no atomics.
// RUN: dtc-opt --target=cuda %s --dtc-form-kernels | FileCheck %s --check-prefix=KERNEL
// RUN: dtc-opt --target=cuda %s --dtc-form-kernels --test-emit-ptx -o /dev/null | FileCheck %s
// RUN: %if gpu %{ dtc-opt --target=cuda %s --dtc-form-kernels --test-run-cuda-kernels="tolerance=1e-4" -o /dev/null %}

// KERNEL-DAG: exec.kernel @scatter_0 extent 2 scratch 0 geometry <blocks = 2, threads = 128>
// KERNEL-DAG: exec.kernel @scatter_1 extent 149 scratch 0 geometry <blocks = 149, threads = 256>

// CHECK: .entry scatter_{{.}}(
// CHECK: vote.sync.ballot.b32
// CHECK-NOT: atom
// CHECK: ret;

// A block for each row would read more indices than updates. So there are two.
func.func @embedding_grad(%i: tensor<64xi64>, %u: tensor<64x40xf32>) -> tensor<50x40xf32> {
  %0 = dtc.scatter_add %i, %u axis 0 : tensor<64xi64>, tensor<64x40xf32> -> tensor<50x40xf32>
  return %0 : tensor<50x40xf32>
}

// Ten rows a block, the last one's fewer; several pieces of indices, and columns of which a thread
// has some at a time and one more.
func.func @large_table(%i: tensor<5000xi64>, %u: tensor<5000x1100xf32>, %t: tensor<1489x1100xf32>)
    -> tensor<1489x1100xf32> {
  %0 = dtc.scatter_add %i, %u axis 0 : tensor<5000xi64>, tensor<5000x1100xf32> -> tensor<1489x1100xf32>
  %1 = arith.addf %t, %0 : tensor<1489x1100xf32>
  return %1 : tensor<1489x1100xf32>
}

// So many indices name a row that the list of them is filled more than once.
func.func @few_rows(%i: tensor<9001xi64>, %u: tensor<9001x72xf32>) -> tensor<3x72xf32> {
  %0 = dtc.scatter_add %i, %u axis 0 : tensor<9001xi64>, tensor<9001x72xf32> -> tensor<3x72xf32>
  return %0 : tensor<3x72xf32>
}
