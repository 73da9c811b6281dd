// RUN: dtc-opt %s -split-input-file -verify-diagnostics

func.func @f(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{has a wrong number of lhs strides: 1}}
  %0 = exec.matmul %a, %a batch [] mnk [4, 4, 4] strides [4], [4, 1] -> [4, 1] offsets [0, 0] : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @f(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{addresses beyond the elements of its rhs: 16}}
  %0 = exec.matmul %a, %a batch [] mnk [4, 4, 4] strides [4, 1], [4, 1] -> [4, 1] offsets [0, 1] : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @f(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{writes a wrong number of elements: 8}}
  %0 = exec.matmul %a, %a batch [] mnk [2, 4, 4] strides [4, 1], [4, 1] -> [4, 1] offsets [0, 0] : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @f(%a: tensor<4x4xf32>, %b: tensor<4x4xbf16>) -> tensor<4x4xf32> {
  // expected-error @below {{has operands of different element types: 'f32', 'bf16'}}
  %0 = exec.matmul %a, %b batch [] mnk [4, 4, 4] strides [4, 1], [4, 1] -> [4, 1] offsets [0, 0] : tensor<4x4xf32>, tensor<4x4xbf16> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
