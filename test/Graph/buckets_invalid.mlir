// RUN: dtc-opt %s -split-input-file -verify-diagnostics

// Three buckets of rows, where they end, and parts of two indices.
func.func @f(%i: tensor<5xi64>) {
  // expected-error @+1 {{buckets need parts that have all of 5 indices: 2 of 2}}
  %0 = dtc.bucket_indices %i rows 9 of 3 : tensor<5xi64> -> tensor<2x6xi32>
  return
}

// -----

func.func @f(%i: tensor<5xi64>) {
  // expected-error @+1 {{buckets must have the element type 'i32': 'i64'}}
  %0 = dtc.bucket_indices %i rows 9 of 3 : tensor<5xi64> -> tensor<3x6xi64>
  return
}

// -----

func.func @f(%i: tensor<5xi64>) {
  // expected-error @+1 {{buckets need rows: 0}}
  %0 = dtc.bucket_indices %i rows 9 of 0 : tensor<5xi64> -> tensor<3x6xi32>
  return
}

// -----

func.func @f(%i: tensor<5xi64>) {
  // expected-error @+1 {{rows of a bucket, times the indices of a part, must be below 2^31: 1073741824 * 2}}
  %0 = dtc.bucket_indices %i rows 9 of 1073741824 : tensor<5xi64> -> tensor<3x4xi32>
  return
}

// -----

func.func @f(%x: tensor<5x3xf32>, %i: tensor<5xi64>, %b: tensor<2x6xi32>) {
  // expected-error @+1 {{buckets need parts that have all of 5 indices: 2 of 2}}
  %0 = dtc.scatter_add %i, %x axis 0 buckets %b of 3 : tensor<5xi64>, tensor<5x3xf32>, tensor<2x6xi32> -> tensor<9x3xf32>
  return
}
