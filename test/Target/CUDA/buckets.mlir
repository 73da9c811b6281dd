// Indices are sorted into buckets of rows, each block a part of them, and scatter kernels read those of
// their rows: the bits that they have where each block reads all indices, and no atomics.
// RUN: dtc-opt --target=cuda %s --dtc-form-kernels | FileCheck %s --check-prefix=KERNEL
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels | FileCheck %s --check-prefix=FORMED
// RUN: dtc-opt --target=cuda %s --dtc-form-kernels --test-emit-ptx -o /dev/null | FileCheck %s
// RUN: %if gpu %{ dtc-opt --target=cuda %s --dtc-form-kernels --test-run-cuda-kernels="tolerance=1e-4 int-bound=1500 digest" -o /dev/null | FileCheck %s --check-prefix=SPREAD %}
// RUN: %if gpu %{ dtc-opt --target=cuda %s --dtc-form-kernels --test-run-cuda-kernels="tolerance=1e-3 int-bound=5 digest" -o /dev/null | FileCheck %s --check-prefix=CROWDED %}

// KERNEL-DAG: exec.kernel @buckets_0 extent 3 scratch 0 geometry <blocks = 3, threads = 256>
// KERNEL-DAG: exec.kernel @buckets_1 extent 3 scratch 0 geometry <blocks = 3, threads = 256>
// KERNEL-DAG: exec.kernel @scatter_0 extent 149 scratch 0 geometry <blocks = 149, threads = 128>
// KERNEL-DAG: exec.kernel @scatter_1 extent 497 scratch 0 geometry <blocks = 497, threads = 128>

// SPREAD: scatter_1: [[SUM:.*]]
// SPREAD: scatter_0: [[SUM]]
// CROWDED: scatter_1: [[SUM:.*]]
// CROWDED: scatter_0: [[SUM]]

// CHECK-NOT: atom
// CHECK: .entry buckets_0(
// CHECK: match.any.sync.b32
// CHECK-NOT: atom
func.func @parts(%i: tensor<5000xi64>) -> tensor<3x2546xi32> {
  %0 = dtc.bucket_indices %i rows 1489 of 3 : tensor<5000xi64> -> tensor<3x2546xi32>
  return %0 : tensor<3x2546xi32>
}

// Indices of 32 bits, shifted as those of a divided vocabulary are. Threads have places behind the part.
func.func @odd_parts(%i: tensor<7x100xi32>, %offset: tensor<i32>) -> tensor<3x444xi32> {
  %0 = dtc.broadcast %offset [] : tensor<i32> -> tensor<7x100xi32>
  %1 = arith.subi %i, %0 : tensor<7x100xi32>
  %2 = dtc.bucket_indices %1 rows 1000 of 7 : tensor<7x100xi32> -> tensor<3x444xi32>
  return %2 : tensor<3x444xi32>
}

func.func @all_indices(%i: tensor<5000xi64>, %u: tensor<5000x72xf32>) -> tensor<1489x72xf32> {
  %0 = dtc.scatter_add %i, %u axis 0 : tensor<5000xi64>, tensor<5000x72xf32> -> tensor<1489x72xf32>
  return %0 : tensor<1489x72xf32>
}

// More parts than threads look at together.
func.func @own_bucket(%i: tensor<5000xi64>, %u: tensor<5000x72xf32>, %b: tensor<200x523xi32>) -> tensor<1489x72xf32> {
  %0 = dtc.scatter_add %i, %u axis 0 buckets %b of 3 : tensor<5000xi64>, tensor<5000x72xf32>, tensor<200x523xi32> -> tensor<1489x72xf32>
  return %0 : tensor<1489x72xf32>
}

// Added to a table where that is.
func.func @few_parts(%i: tensor<5000xi64>, %u: tensor<5000x9xf32>, %b: tensor<3x2052xi32>, %t: tensor<9x9xf32>) -> tensor<9x9xf32> {
  %0 = dtc.scatter_add %i, %u axis 0 buckets %b of 3 : tensor<5000xi64>, tensor<5000x9xf32>, tensor<3x2052xi32> -> tensor<9x9xf32>
  %1 = arith.addf %t, %0 : tensor<9x9xf32>
  return %1 : tensor<9x9xf32>
}

// Blocks that each read all of these indices would read 13.2 MB, of half as many 6.6.
// FORMED-LABEL: @many_indices
// FORMED: exec.launch @[[SORT:buckets_.]]
// FORMED: exec.launch @scatter
func.func @many_indices(%i: tensor<3200xi64>, %u: tensor<3200x4xf32>) -> tensor<1056x4xf32> {
  %0 = dtc.scatter_add %i, %u axis 0 : tensor<3200xi64>, tensor<3200x4xf32> -> tensor<1056x4xf32>
  return %0 : tensor<1056x4xf32>
}

// FORMED-LABEL: @few_indices
// FORMED-NOT: exec.launch @buckets
// FORMED: exec.launch @scatter
func.func @few_indices(%i: tensor<1600xi64>, %u: tensor<1600x4xf32>) -> tensor<1056x4xf32> {
  %0 = dtc.scatter_add %i, %u axis 0 : tensor<1600xi64>, tensor<1600x4xf32> -> tensor<1056x4xf32>
  return %0 : tensor<1056x4xf32>
}
