// RUN: dtc-opt --split-input-file --dtc-raise %s | FileCheck %s

// CHECK-LABEL: func @rms_norm
// CHECK-SAME: (%[[X:.*]]: tensor<4x8x64xf32>, %[[W:.*]]: tensor<64xf32>)
// CHECK-NEXT: %[[Y:.*]], %{{.*}} = dtc.rms_norm %[[X]] scale %[[W]] : tensor<64xf32> eps 9.9999999747524271E-7
// CHECK-NEXT: return %[[Y]]
func.func @rms_norm(%x: tensor<4x8x64xf32>, %w: tensor<64xf32>) -> tensor<4x8x64xf32> {
  %n = arith.constant dense<64.0> : tensor<4x8xf32>
  %eps = arith.constant dense<9.99999997E-7> : tensor<4x8xf32>
  %one = arith.constant dense<1.0> : tensor<4x8xf32>
  %0 = arith.mulf %x, %x : tensor<4x8x64xf32>
  %1 = dtc.reduce sum %0 [2] : tensor<4x8x64xf32> -> tensor<4x8xf32>
  %2 = arith.divf %1, %n : tensor<4x8xf32>
  %3 = arith.addf %2, %eps : tensor<4x8xf32>
  %4 = math.sqrt %3 : tensor<4x8xf32>
  %5 = arith.divf %one, %4 : tensor<4x8xf32>
  %6 = dtc.broadcast %5 [0, 1] : tensor<4x8xf32> -> tensor<4x8x64xf32>
  %7 = arith.mulf %x, %6 : tensor<4x8x64xf32>
  %8 = dtc.broadcast %w [2] : tensor<64xf32> -> tensor<4x8x64xf32>
  %9 = arith.mulf %8, %7 : tensor<4x8x64xf32>
  return %9 : tensor<4x8x64xf32>
}

// -----

// A sum divided by another number than the size is no mean.
// CHECK-LABEL: func @not_a_mean
// CHECK-NOT: dtc.rms_norm
func.func @not_a_mean(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %n = arith.constant dense<63.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0E-6> : tensor<4xf32>
  %0 = arith.mulf %x, %x : tensor<4x64xf32>
  %1 = dtc.reduce sum %0 [1] : tensor<4x64xf32> -> tensor<4xf32>
  %2 = arith.divf %1, %n : tensor<4xf32>
  %3 = arith.addf %2, %eps : tensor<4xf32>
  %4 = math.rsqrt %3 : tensor<4xf32>
  %5 = dtc.broadcast %4 [0] : tensor<4xf32> -> tensor<4x64xf32>
  %6 = arith.mulf %x, %5 : tensor<4x64xf32>
  return %6 : tensor<4x64xf32>
}

// -----

// CHECK-LABEL: func @layer_norm
// CHECK-SAME: (%[[X:.*]]: tensor<4x64xf32>, %[[W:.*]]: tensor<64xf32>, %[[B:.*]]: tensor<64xf32>)
// CHECK-NEXT: %[[Y:.*]], %{{.*}}, %{{.*}} = dtc.layer_norm %[[X]] scale %[[W]] : tensor<64xf32> bias %[[B]] : tensor<64xf32> eps
// CHECK-NEXT: return %[[Y]]
func.func @layer_norm(%x: tensor<4x64xf32>, %w: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<4x64xf32> {
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0E-5> : tensor<4xf32>
  %0 = dtc.reduce sum %x [1] : tensor<4x64xf32> -> tensor<4xf32>
  %1 = arith.divf %0, %n : tensor<4xf32>
  %2 = dtc.broadcast %1 [0] : tensor<4xf32> -> tensor<4x64xf32>
  %3 = arith.subf %x, %2 : tensor<4x64xf32>
  %4 = arith.mulf %3, %3 : tensor<4x64xf32>
  %5 = dtc.reduce sum %4 [1] : tensor<4x64xf32> -> tensor<4xf32>
  %6 = arith.divf %5, %n : tensor<4xf32>
  %7 = arith.addf %6, %eps : tensor<4xf32>
  %8 = math.sqrt %7 : tensor<4xf32>
  %9 = dtc.broadcast %8 [0] : tensor<4xf32> -> tensor<4x64xf32>
  %10 = arith.divf %3, %9 : tensor<4x64xf32>
  %11 = dtc.broadcast %w [1] : tensor<64xf32> -> tensor<4x64xf32>
  %12 = arith.mulf %10, %11 : tensor<4x64xf32>
  %13 = dtc.broadcast %b [1] : tensor<64xf32> -> tensor<4x64xf32>
  %14 = arith.addf %12, %13 : tensor<4x64xf32>
  return %14 : tensor<4x64xf32>
}

// -----

// CHECK-LABEL: func @gelu_tanh
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[Y:.*]] = dtc.activation gelu_tanh %[[X]]
// CHECK-NEXT: return %[[Y]]
func.func @gelu_tanh(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = arith.constant dense<0.5> : tensor<4xf32>
  %c = arith.constant dense<0.0447149985> : tensor<4xf32>
  %s = arith.constant dense<0.797884583> : tensor<4xf32>
  %one = arith.constant dense<1.0> : tensor<4xf32>
  %0 = arith.mulf %x, %half : tensor<4xf32>
  %1 = arith.mulf %x, %x : tensor<4xf32>
  %2 = arith.mulf %1, %x : tensor<4xf32>
  %3 = arith.mulf %2, %c : tensor<4xf32>
  %4 = arith.addf %x, %3 : tensor<4xf32>
  %5 = arith.mulf %4, %s : tensor<4xf32>
  %6 = math.tanh %5 : tensor<4xf32>
  %7 = arith.addf %6, %one : tensor<4xf32>
  %8 = arith.mulf %0, %7 : tensor<4xf32>
  return %8 : tensor<4xf32>
}

// -----

// CHECK-LABEL: func @gelu
// CHECK: dtc.activation gelu %
func.func @gelu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = arith.constant dense<0.5> : tensor<4xf32>
  %root = arith.constant dense<1.41421354> : tensor<4xf32>
  %one = arith.constant dense<1.0> : tensor<4xf32>
  %0 = arith.divf %x, %root : tensor<4xf32>
  %1 = math.erf %0 : tensor<4xf32>
  %2 = arith.addf %1, %one : tensor<4xf32>
  %3 = arith.mulf %x, %2 : tensor<4xf32>
  %4 = arith.mulf %3, %half : tensor<4xf32>
  return %4 : tensor<4xf32>
}

// -----

// Another coefficient is another function.
// CHECK-LABEL: func @not_gelu
// CHECK-NOT: dtc.activation
func.func @not_gelu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = arith.constant dense<0.5> : tensor<4xf32>
  %root = arith.constant dense<1.4> : tensor<4xf32>
  %one = arith.constant dense<1.0> : tensor<4xf32>
  %0 = arith.divf %x, %root : tensor<4xf32>
  %1 = math.erf %0 : tensor<4xf32>
  %2 = arith.addf %1, %one : tensor<4xf32>
  %3 = arith.mulf %x, %2 : tensor<4xf32>
  %4 = arith.mulf %3, %half : tensor<4xf32>
  return %4 : tensor<4xf32>
}

// -----

// CHECK-LABEL: func @silu
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>)
// CHECK: dtc.activation silu %[[X]]
// CHECK: dtc.activation sigmoid %[[Y]]
func.func @silu(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = dtc.activation sigmoid %x : tensor<4xf32>
  %1 = arith.mulf %x, %0 : tensor<4xf32>
  %2 = dtc.activation sigmoid %y : tensor<4xf32>
  %3 = arith.mulf %x, %2 : tensor<4xf32>
  return %1, %3 : tensor<4xf32>, tensor<4xf32>
}

// -----

// In a file of bf16 the numbers of GELU are rounded to 8 bits: 0.044715, sqrt(2/pi).
// CHECK-LABEL: func @gelu_tanh_in_bf16
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT: %[[Y:.*]] = dtc.activation gelu_tanh %[[X]]
// CHECK-NEXT: return %[[Y]]
func.func @gelu_tanh_in_bf16(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dtc.rounded_to = [bf16]} {
  %half = arith.constant dense<0.5> : tensor<4xf32>
  %c = arith.constant dense<0.0446777344> : tensor<4xf32>
  %s = arith.constant dense<0.796875> : tensor<4xf32>
  %one = arith.constant dense<1.0> : tensor<4xf32>
  %0 = arith.mulf %x, %half : tensor<4xf32>
  %1 = arith.mulf %x, %x : tensor<4xf32>
  %2 = arith.mulf %1, %x : tensor<4xf32>
  %3 = arith.mulf %2, %c : tensor<4xf32>
  %4 = arith.addf %x, %3 : tensor<4xf32>
  %5 = arith.mulf %4, %s : tensor<4xf32>
  %6 = math.tanh %5 : tensor<4xf32>
  %7 = arith.addf %6, %one : tensor<4xf32>
  %8 = arith.mulf %0, %7 : tensor<4xf32>
  return %8 : tensor<4xf32>
}

// -----

// The same numbers in a file of f32 are another function.
// CHECK-LABEL: func @not_gelu_in_f32
// CHECK-NOT: dtc.activation
func.func @not_gelu_in_f32(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = arith.constant dense<0.5> : tensor<4xf32>
  %c = arith.constant dense<0.0446777344> : tensor<4xf32>
  %s = arith.constant dense<0.796875> : tensor<4xf32>
  %one = arith.constant dense<1.0> : tensor<4xf32>
  %0 = arith.mulf %x, %half : tensor<4xf32>
  %1 = arith.mulf %x, %x : tensor<4xf32>
  %2 = arith.mulf %1, %x : tensor<4xf32>
  %3 = arith.mulf %2, %c : tensor<4xf32>
  %4 = arith.addf %x, %3 : tensor<4xf32>
  %5 = arith.mulf %4, %s : tensor<4xf32>
  %6 = math.tanh %5 : tensor<4xf32>
  %7 = arith.addf %6, %one : tensor<4xf32>
  %8 = arith.mulf %0, %7 : tensor<4xf32>
  return %8 : tensor<4xf32>
}

// -----

// So is the next number that bf16 holds, in a file of bf16: 0.0449219 instead of 0.0446777.
// CHECK-LABEL: func @not_gelu_in_bf16
// CHECK-NOT: dtc.activation
func.func @not_gelu_in_bf16(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dtc.rounded_to = [bf16]} {
  %half = arith.constant dense<0.5> : tensor<4xf32>
  %c = arith.constant dense<0.044921875> : tensor<4xf32>
  %s = arith.constant dense<0.796875> : tensor<4xf32>
  %one = arith.constant dense<1.0> : tensor<4xf32>
  %0 = arith.mulf %x, %half : tensor<4xf32>
  %1 = arith.mulf %x, %x : tensor<4xf32>
  %2 = arith.mulf %1, %x : tensor<4xf32>
  %3 = arith.mulf %2, %c : tensor<4xf32>
  %4 = arith.addf %x, %3 : tensor<4xf32>
  %5 = arith.mulf %4, %s : tensor<4xf32>
  %6 = math.tanh %5 : tensor<4xf32>
  %7 = arith.addf %6, %one : tensor<4xf32>
  %8 = arith.mulf %0, %7 : tensor<4xf32>
  return %8 : tensor<4xf32>
}

// -----

// What f16 doesn't hold was not rounded to it, though other numbers of the file were.
// CHECK-LABEL: func @numbers_of_two_types
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[Z:.*]]: tensor<4xf32>)
// CHECK-NOT: dtc.activation gelu %[[X]]
// CHECK: dtc.activation gelu %[[Z]]
// CHECK-NOT: dtc.activation
func.func @numbers_of_two_types(%x: tensor<4xf32>, %z: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    attributes {dtc.rounded_to = [f16]} {
  %half = arith.constant dense<0.5> : tensor<4xf32>
  %root = arith.constant dense<1.4142> : tensor<4xf32>
  %rounded = arith.constant dense<1.4140625> : tensor<4xf32>
  %one = arith.constant dense<1.0> : tensor<4xf32>
  %0 = arith.divf %x, %root : tensor<4xf32>
  %1 = math.erf %0 : tensor<4xf32>
  %2 = arith.addf %1, %one : tensor<4xf32>
  %3 = arith.mulf %x, %2 : tensor<4xf32>
  %4 = arith.mulf %3, %half : tensor<4xf32>
  %5 = arith.divf %z, %rounded : tensor<4xf32>
  %6 = math.erf %5 : tensor<4xf32>
  %7 = arith.addf %6, %one : tensor<4xf32>
  %8 = arith.mulf %z, %7 : tensor<4xf32>
  %9 = arith.mulf %8, %half : tensor<4xf32>
  return %4, %9 : tensor<4xf32>, tensor<4xf32>
}

// -----

// The divisor of an unbiased variance differs from the size by more than the rounding of bf16.
// CHECK-LABEL: func @not_a_mean_in_bf16
// CHECK-NOT: dtc.rms_norm
func.func @not_a_mean_in_bf16(%x: tensor<4x64xf32>) -> tensor<4x64xf32> attributes {dtc.rounded_to = [bf16]} {
  %n = arith.constant dense<63.0> : tensor<4xf32>
  %eps = arith.constant dense<9.99999997E-7> : tensor<4xf32>
  %0 = arith.mulf %x, %x : tensor<4x64xf32>
  %1 = dtc.reduce sum %0 [1] : tensor<4x64xf32> -> tensor<4xf32>
  %2 = arith.divf %1, %n : tensor<4xf32>
  %3 = arith.addf %2, %eps : tensor<4xf32>
  %4 = math.rsqrt %3 : tensor<4xf32>
  %5 = dtc.broadcast %4 [0] : tensor<4xf32> -> tensor<4x64xf32>
  %6 = arith.mulf %x, %5 : tensor<4x64xf32>
  return %6 : tensor<4x64xf32>
}
