// RUN: dtc-opt %s -split-input-file -verify-diagnostics

func.func @f(%q: tensor<1x2x1x8xbf16>) {
  // expected-error @below {{has a wrong number of inputs: 2}}
  %0:2 = exec.attention(%q, %q) scale 1.0 places [#exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>] into [0, 1] : (tensor<1x2x1x8xbf16>, tensor<1x2x1x8xbf16>) -> (tensor<1x2x1x8xbf16>, tensor<1x1x2xf32>)
  return
}

// -----

func.func @f(%q: tensor<1x2x1x8xbf16>) {
  // expected-error @below {{needs a place for each of 5 tensors, got: 3}}
  %0:2 = exec.attention(%q, %q, %q) scale 1.0 places [#exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>] into [0, 1] : (tensor<1x2x1x8xbf16>, tensor<1x2x1x8xbf16>, tensor<1x2x1x8xbf16>) -> (tensor<1x2x1x8xbf16>, tensor<1x1x2xf32>)
  return
}

// -----

func.func @f(%q: tensor<1x2x1x8xbf16>) {
  // expected-error @below {{has a place beyond the elements of 'tensor<1x2x1x8xbf16>': #exec.place<8, [1, 2, 1, 8], [16, 8, 8, 1]>}}
  %0:2 = exec.attention(%q, %q, %q) scale 1.0 places [#exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<8, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 1, 2], [2, 2, 1]>] into [0, 1] : (tensor<1x2x1x8xbf16>, tensor<1x2x1x8xbf16>, tensor<1x2x1x8xbf16>) -> (tensor<1x2x1x8xbf16>, tensor<1x1x2xf32>)
  return
}

// -----

func.func @f(%q: tensor<1x2x1x8xbf16>) {
  // expected-error @below {{has a place of bad size or stride: #exec.place<0, [1, 2, 1, 8], [16, 0, 8, 1]>}}
  %0:2 = exec.attention(%q, %q, %q) scale 1.0 places [#exec.place<0, [1, 2, 1, 8], [16, 0, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 1, 2], [2, 2, 1]>] into [0, 1] : (tensor<1x2x1x8xbf16>, tensor<1x2x1x8xbf16>, tensor<1x2x1x8xbf16>) -> (tensor<1x2x1x8xbf16>, tensor<1x1x2xf32>)
  return
}

// -----

func.func @f(%q: tensor<1x2x1x8xbf16>) {
  // expected-error @below {{has a tensor whose shape doesn't fit the others: #exec.place<0, [1, 1, 2, 8], [16, 16, 8, 1]>}}
  %0:2 = exec.attention(%q, %q, %q) scale 1.0 places [#exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 1, 2, 8], [16, 16, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 1, 2], [2, 2, 1]>] into [0, 1] : (tensor<1x2x1x8xbf16>, tensor<1x2x1x8xbf16>, tensor<1x2x1x8xbf16>) -> (tensor<1x2x1x8xbf16>, tensor<1x1x2xf32>)
  return
}

// -----

func.func @f(%q: tensor<1x2x1x8xbf16>, %k: tensor<1x2x1x8xf16>) {
  // expected-error @below {{has tensors of different element types: 'bf16', 'f16'}}
  %0:2 = exec.attention(%q, %k, %q) scale 1.0 places [#exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 1, 2], [2, 2, 1]>] into [0, 1] : (tensor<1x2x1x8xbf16>, tensor<1x2x1x8xf16>, tensor<1x2x1x8xbf16>) -> (tensor<1x2x1x8xbf16>, tensor<1x1x2xf32>)
  return
}

// -----

// Two parts lie over each other.
func.func @f(%q: tensor<1x2x1x8xbf16>, %lse: tensor<1x1x2xf32>) {
  // expected-error @below {{has a result that its parts don't make up: 0}}
  %0 = exec.attention backward(%q, %q, %q, %q, %lse, %q) scale 1.0 places [#exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 1, 2], [2, 2, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [48, 24, 8, 1]>, #exec.place<8, [1, 2, 1, 8], [48, 24, 8, 1]>, #exec.place<8, [1, 2, 1, 8], [48, 24, 8, 1]>] into [0, 0, 0] : (tensor<1x2x1x8xbf16>, tensor<1x2x1x8xbf16>, tensor<1x2x1x8xbf16>, tensor<1x2x1x8xbf16>, tensor<1x1x2xf32>, tensor<1x2x1x8xbf16>) -> tensor<1x2x3x8xbf16>
  return
}

// -----

// Nothing writes the last part.
func.func @f(%q: tensor<1x2x1x8xbf16>, %lse: tensor<1x1x2xf32>) {
  // expected-error @below {{has a result that its parts don't make up: 0}}
  %0:2 = exec.attention backward(%q, %q, %q, %q, %lse, %q) scale 1.0 places [#exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 1, 2], [2, 2, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [48, 24, 8, 1]>, #exec.place<8, [1, 2, 1, 8], [48, 24, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>] into [0, 0, 1] : (tensor<1x2x1x8xbf16>, tensor<1x2x1x8xbf16>, tensor<1x2x1x8xbf16>, tensor<1x2x1x8xbf16>, tensor<1x1x2xf32>, tensor<1x2x1x8xbf16>) -> (tensor<1x2x3x8xbf16>, tensor<1x2x1x8xbf16>)
  return
}

// -----

// The rows of one part are half as long as those of the others.
func.func @f(%q: tensor<1x2x1x8xbf16>, %lse: tensor<1x1x2xf32>) {
  // expected-error @below {{has a result that its parts don't make up: 0}}
  %0 = exec.attention backward(%q, %q, %q, %q, %lse, %q) scale 1.0 places [#exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 1, 2], [2, 2, 1]>, #exec.place<0, [1, 2, 1, 8], [16, 8, 8, 1]>, #exec.place<0, [1, 2, 1, 8], [48, 24, 8, 1]>, #exec.place<8, [1, 2, 1, 8], [48, 24, 8, 1]>, #exec.place<16, [1, 2, 1, 8], [16, 8, 8, 1]>] into [0, 0, 0] : (tensor<1x2x1x8xbf16>, tensor<1x2x1x8xbf16>, tensor<1x2x1x8xbf16>, tensor<1x2x1x8xbf16>, tensor<1x1x2xf32>, tensor<1x2x1x8xbf16>) -> tensor<1x2x3x8xbf16>
  return
}
