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

// -----

func.func @f(%a: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{adds a tensor that isn't as its result: 'tensor<4xf32>'}}
  %0 = exec.matmul %a, %a with %b batch [] mnk [4, 4, 4] strides [4, 1], [4, 1] -> [4, 1] offsets [0, 0] : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @f(%a: tensor<4x4xf32>, %b: tensor<8xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{has a wrong extra operand for its epilogue: bias}}
  %0 = exec.matmul %a, %a with %b batch [] mnk [4, 4, 4] strides [4, 1], [4, 1] -> [4, 1] offsets [0, 0] epilogue <bias> : tensor<4x4xf32>, tensor<4x4xf32>, tensor<8xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @f(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{has a wrong extra operand for its epilogue: gelu_grad}}
  %0 = exec.matmul %a, %a batch [] mnk [4, 4, 4] strides [4, 1], [4, 1] -> [4, 1] offsets [0, 0] epilogue <gelu_grad> : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @f(%a: tensor<4x4xbf16>) -> tensor<4x4xf32> {
  // expected-error @below {{has a wrong second result for its epilogue: sum_lhs}}
  %0, %1 = exec.matmul %a, %a batch [] mnk [4, 4, 4] strides [1, 4], [4, 1] -> [4, 1] offsets [0, 0] epilogue <sum_lhs> : tensor<4x4xbf16>, tensor<4x4xbf16> -> tensor<4x4xf32>, tensor<4xbf16>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @f(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{has an epilogue, but a result that isn't a row-major matrix}}
  %0 = exec.matmul %a, %a batch [] mnk [4, 4, 4] strides [4, 1], [4, 1] -> [1, 4] offsets [0, 0] epilogue <gelu> : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @f(%a: tensor<4x4xbf16>, %b: tensor<4x4xbf16>) -> tensor<4x4xf32> {
  // expected-error @below {{adds a tensor that isn't as its result: 'tensor<4x4xbf16>'}}
  %0 = exec.matmul %a, %a with %b batch [] mnk [4, 4, 4] strides [4, 1], [4, 1] -> [4, 1] offsets [0, 0] : tensor<4x4xbf16>, tensor<4x4xbf16>, tensor<4x4xbf16> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @f(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>) {
  // expected-error @below {{has more results than one without an epilogue}}
  %0, %1 = exec.matmul %a, %a batch [] mnk [4, 4, 4] strides [4, 1], [4, 1] -> [4, 1] offsets [0, 0] : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>, tensor<4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4xf32>
}

// -----

func.func @f(%a: tensor<4x4xf32>, %b: tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>) {
  // expected-error @below {{has a wrong extra operand for its epilogue: sum_rhs}}
  %0, %1 = exec.matmul %a, %a with %b batch [] mnk [4, 4, 4] strides [4, 1], [4, 1] -> [4, 1] offsets [0, 0] epilogue <sum_rhs> : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32> -> tensor<4x4xf32>, tensor<4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4xf32>
}
