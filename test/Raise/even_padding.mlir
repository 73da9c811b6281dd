// RUN: dtc-opt --dtc-pipeline="padding even" %s | FileCheck %s
// RUN: dtc-opt --dtc-pipeline=padding %s | FileCheck %s --check-prefix=KEPT

// What one end has more is padded before; the rest stays with the convolution.
// CHECK-LABEL: func.func @behind(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x4x5x6xf32>
// CHECK: %[[P:.*]] = dtc.pad %[[X]] low [0, 0, 0, 2] interior [0, 0, 0, 0] value 0.000000e+00 : tensor<2x4x5x6xf32> -> tensor<2x4x6x8xf32>
// CHECK: dtc.conv %[[P]], %{{.*}} strides [2, 2] pad [1, 0], [1, 0] {{.*}} : tensor<2x4x6x8xf32>, tensor<3x4x3x3xf32> -> tensor<2x3x3x3xf32>
// KEPT-LABEL: func.func @behind(
// KEPT: dtc.conv %{{.*}} pad [1, 2], [2, 0]
func.func @behind(%x: tensor<2x4x5x6xf32>, %w: tensor<3x4x3x3xf32>) -> tensor<2x3x3x3xf32> {
  %0 = dtc.conv %x, %w strides [2, 2] pad [1, 2], [2, 0] dilations [1, 1] groups 1 : tensor<2x4x5x6xf32>, tensor<3x4x3x3xf32> -> tensor<2x3x3x3xf32>
  return %0 : tensor<2x3x3x3xf32>
}

// Zeros between the elements are made with those at the end.
// CHECK-LABEL: func.func @transposed(
// CHECK-NEXT: %[[P:.*]] = dtc.pad %{{.*}} low [0, 0, 0] interior [0, 0, 1] value 0.000000e+00 : tensor<2x4x3xf32> -> tensor<2x4x6xf32>
// CHECK-NEXT: dtc.conv %[[P]], %{{.*}} strides [1] pad [1], [1]
func.func @transposed(%x: tensor<2x4x3xf32>, %w: tensor<3x4x3xf32>) -> tensor<2x3x6xf32> {
  %0 = dtc.pad %x low [0, 0, 0] interior [0, 0, 1] value 0.0 : tensor<2x4x3xf32> -> tensor<2x4x5xf32>
  %1 = dtc.conv %0, %w strides [1] pad [1], [2] dilations [1] groups 1 : tensor<2x4x5xf32>, tensor<3x4x3xf32> -> tensor<2x3x6xf32>
  return %1 : tensor<2x3x6xf32>
}

// So are those at the beginning.
// CHECK-LABEL: func.func @before(
// CHECK-NEXT: %[[P:.*]] = dtc.pad %{{.*}} low [0, 0, 3] interior [0, 0, 0] value 0.000000e+00 : tensor<2x4x4xf32> -> tensor<2x4x7xf32>
// CHECK-NEXT: dtc.conv %[[P]], %{{.*}} strides [1] pad [1], [1]
func.func @before(%x: tensor<2x4x4xf32>, %w: tensor<3x4x3xf32>) -> tensor<2x3x7xf32> {
  %0 = dtc.pad %x low [0, 0, 2] interior [0, 0, 0] value 0.0 : tensor<2x4x4xf32> -> tensor<2x4x6xf32>
  %1 = dtc.conv %0, %w strides [1] pad [2], [1] dilations [1] groups 1 : tensor<2x4x6xf32>, tensor<3x4x3xf32> -> tensor<2x3x7xf32>
  return %1 : tensor<2x3x7xf32>
}

// Others read it, or it isn't zeros: a second one.
// CHECK-LABEL: func.func @shared(
// CHECK: %[[P:.*]] = dtc.pad %{{.*}} : tensor<2x4x3xf32> -> tensor<2x4x5xf32>
// CHECK: dtc.pad %[[P]] low [0, 0, 0] interior [0, 0, 0] value 0.000000e+00 : tensor<2x4x5xf32> -> tensor<2x4x6xf32>
func.func @shared(%x: tensor<2x4x3xf32>, %w: tensor<3x4x3xf32>) -> (tensor<2x3x6xf32>, tensor<2x4x5xf32>) {
  %0 = dtc.pad %x low [0, 0, 0] interior [0, 0, 1] value 0.0 : tensor<2x4x3xf32> -> tensor<2x4x5xf32>
  %1 = dtc.conv %0, %w strides [1] pad [1], [2] dilations [1] groups 1 : tensor<2x4x5xf32>, tensor<3x4x3xf32> -> tensor<2x3x6xf32>
  return %1, %0 : tensor<2x3x6xf32>, tensor<2x4x5xf32>
}

// CHECK-LABEL: func.func @ones(
// CHECK: dtc.pad %{{.*}} value 1.000000e+00
// CHECK: dtc.pad %{{.*}} value 0.000000e+00
func.func @ones(%x: tensor<2x4x4xf32>, %w: tensor<3x4x3xf32>) -> tensor<2x3x6xf32> {
  %0 = dtc.pad %x low [0, 0, 1] interior [0, 0, 0] value 1.0 : tensor<2x4x4xf32> -> tensor<2x4x5xf32>
  %1 = dtc.conv %0, %w strides [1] pad [2], [1] dilations [1] groups 1 : tensor<2x4x5xf32>, tensor<3x4x3xf32> -> tensor<2x3x6xf32>
  return %1 : tensor<2x3x6xf32>
}

// CHECK-LABEL: func.func @even(
// CHECK-NEXT: dtc.conv %{{.*}} pad [1], [1]
func.func @even(%x: tensor<2x4x5xf32>, %w: tensor<3x4x3xf32>) -> tensor<2x3x5xf32> {
  %0 = dtc.conv %x, %w strides [1] pad [1], [1] dilations [1] groups 1 : tensor<2x4x5xf32>, tensor<3x4x3xf32> -> tensor<2x3x5xf32>
  return %0 : tensor<2x3x5xf32>
}
