// What is turned for a convolution is summed up by channel. A channel has so many columns that a kernel of rows
// would move each sector for eight channels. So the sum reads what was turned. Few columns are one kernel with it.
// RUN: dtc-opt --target=cuda %s --dtc-form-kernels | FileCheck %s

// CHECK-LABEL: func.func @many_columns
// CHECK: %[[TURNED:.*]] = exec.launch @pointwise{{.*}} -> tensor<1x16x48x48xf32>
// CHECK: exec.launch @rows{{.*}}(%[[TURNED]]) {{.*}} -> tensor<16xf32>
func.func @many_columns(%x: tensor<1x48x48x16xf32>, %y: tensor<1x48x48x16xf32>) -> (tensor<1x16x48x48xf32>, tensor<16xf32>) {
  %0 = arith.mulf %x, %y : tensor<1x48x48x16xf32>
  %1 = dtc.transpose %0 [0, 3, 1, 2] : tensor<1x48x48x16xf32> -> tensor<1x16x48x48xf32>
  %2 = dtc.reduce sum %1 [0, 2, 3] : tensor<1x16x48x48xf32> -> tensor<16xf32>
  return %1, %2 : tensor<1x16x48x48xf32>, tensor<16xf32>
}

// CHECK-LABEL: func.func @few_columns
// CHECK: exec.launch @rows{{.*}} -> (tensor<1x16x40x40xf32>, tensor<16xf32>)
func.func @few_columns(%x: tensor<1x40x40x16xf32>, %y: tensor<1x40x40x16xf32>) -> (tensor<1x16x40x40xf32>, tensor<16xf32>) {
  %0 = arith.mulf %x, %y : tensor<1x40x40x16xf32>
  %1 = dtc.transpose %0 [0, 3, 1, 2] : tensor<1x40x40x16xf32> -> tensor<1x16x40x40xf32>
  %2 = dtc.reduce sum %1 [0, 2, 3] : tensor<1x16x40x40xf32> -> tensor<16xf32>
  return %1, %2 : tensor<1x16x40x40xf32>, tensor<16xf32>
}
