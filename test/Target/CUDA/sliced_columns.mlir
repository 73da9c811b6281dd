// Few columns of many rows: slices of rows are summed by blocks of their own, then their sums. An H100
// is busy with 1056 blocks.
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-fold-epilogues | FileCheck %s
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-fold-epilogues --dtc-form-kernels | FileCheck %s --check-prefix=KERNEL
// RUN: dtc-opt --target=cpu %s --dtc-decompose-layers --dtc-fold-epilogues | FileCheck %s --check-prefix=CPU
// RUN: %if gpu %{ dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-fold-epilogues --dtc-form-kernels --test-run-cuda-kernels="tolerance=1e-5" -o /dev/null %}

// KERNEL-DAG: exec.kernel @columns_{{.*}} geometry <blocks = 36, threads = 256>
// KERNEL-DAG: exec.kernel @columns_{{.*}} geometry <blocks = 352, threads = 256>

// Rows are counted over all their dimensions.
// CHECK-LABEL: func.func @of_two_dimensions(
// CHECK:         %[[X:.*]] = dtc.reshape %{{.*}} : tensor<6x512x96xf32> -> tensor<1x12x256x96xf32>
// CHECK:         %[[PARTS:.*]] = dtc.reduce sum %[[X]] [2] : tensor<1x12x256x96xf32> -> tensor<1x12x96xf32>
// CHECK:         dtc.reduce sum %[[PARTS]] [1]
// CPU-LABEL: func.func @of_two_dimensions(
// CPU:         dtc.reduce sum %{{.*}} [0, 1]
func.func @of_two_dimensions(%x: tensor<6x512x96xf32>) -> tensor<96xf32> {
  %0 = dtc.reduce sum %x [0, 1] : tensor<6x512x96xf32> -> tensor<96xf32>
  return %0 : tensor<96xf32>
}

// No more slices than make enough blocks: 352 columns are the work of 11.
// CHECK-LABEL: func.func @as_many_as_needed(
// CHECK:         tensor<8192x352xf32> -> tensor<1x32x256x352xf32>
func.func @as_many_as_needed(%x: tensor<8192x352xf32>) -> tensor<352xf32> {
  %0 = dtc.reduce max %x [0] : tensor<8192x352xf32> -> tensor<352xf32>
  return %0 : tensor<352xf32>
}

// A slice has 256 rows, and half precision isn't summed in halves.
// CHECK-LABEL: func.func @as_they_are(
// CHECK:         dtc.reduce sum %{{.*}} [0] : tensor<511x96xf32>
// CHECK:         dtc.reduce max %{{.*}} [0] : tensor<1024x96xbf16>
// CHECK:         dtc.reduce sum %{{.*}} [0] : tensor<512x33792xf32>
// CHECK:         dtc.reduce sum %{{.*}} [0, 2] : tensor<32x2x16x3xf32>
func.func @as_they_are(%few: tensor<511x96xf32>, %half: tensor<1024x96xbf16>, %wide: tensor<512x33792xf32>,
                       %apart: tensor<32x2x16x3xf32>)
    -> (tensor<96xf32>, tensor<96xbf16>, tensor<33792xf32>, tensor<2x3xf32>) {
  %0 = dtc.reduce sum %few [0] : tensor<511x96xf32> -> tensor<96xf32>
  %1 = dtc.reduce max %half [0] : tensor<1024x96xbf16> -> tensor<96xbf16>
  %2 = dtc.reduce sum %wide [0] : tensor<512x33792xf32> -> tensor<33792xf32>
  %3 = dtc.reduce sum %apart [0, 2] : tensor<32x2x16x3xf32> -> tensor<2x3xf32>
  return %0, %1, %2, %3 : tensor<96xf32>, tensor<96xbf16>, tensor<33792xf32>, tensor<2x3xf32>
}
