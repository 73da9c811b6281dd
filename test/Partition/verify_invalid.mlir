// RUN: dtc-opt %s -split-input-file -verify-diagnostics -dtc-verify-partition

dist.mesh @mesh ["dp" = 2]
// expected-error @+1 {{is not local: it was not partitioned}}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

dist.mesh @mesh ["dp" = 2]
// expected-error @+1 {{argument has no sharding: 0}}
func.func @f(%x: tensor<4xf32>) attributes {dist.local} {
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}]>}) attributes {dist.local} {
  // expected-error @+1 {{is still to be partitioned}}
  %0 = math.exp %x {dist.op = #dist.op_sharding<@mesh, [{}]>} : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @f(%l: tensor<f32> {dist.sharding = #dist.sharding<@mesh, []>}) attributes {dist.local} {
  // expected-error @+1 {{is still to be summed over all ranks}}
  dtc.step_vector %l, %l, %l, %l : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
  return
}

// -----

// A missing reduction: ranks hold different rows, the sum is said to be whole.
dist.mesh @mesh ["dp" = 2, "tp" = 2]
// expected-error @+1 {{result 0 is said to be the same along an axis along which it differs: dp}}
func.func @f(%x: tensor<4xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}]>})
    -> (tensor<f32> {dist.sharding = #dist.sharding<@mesh, []>}) attributes {dist.local} {
  %0 = dtc.reduce sum %x [0] : tensor<4xf32> -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

dist.mesh @mesh ["dp" = 2]
// expected-error @+1 {{result 0 is pending, but neither gradient nor loss}}
func.func @f(%x: tensor<4xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}]>})
    -> (tensor<f32> {dist.sharding = #dist.sharding<@mesh, [], sum = {"dp"}>}) attributes {dist.local} {
  %0 = dtc.reduce sum %x [0] : tensor<4xf32> -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}]>})
    -> (tensor<f32> {dtc.role = #dtc.role<gradient, "w">, dist.sharding = #dist.sharding<@mesh, [], sum = {"dp"}>}) attributes {dist.local} {
  %0 = dtc.reduce sum %x [0] : tensor<4xf32> -> tensor<f32>
  return %0 : tensor<f32>
}
// expected-error @+1 {{#dtc.role<gradient, "w"> is laid out in two ways}}
func.func @g(%x: tensor<f32> {dtc.role = #dtc.role<gradient, "w">, dist.sharding = #dist.sharding<@mesh, []>}) attributes {dist.local} {
  return
}

// -----

// What permute moves along tp no longer differs along dp.
dist.mesh @mesh ["dp" = 2, "tp" = 2]
func.func @f(%x: tensor<4xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}]>})
    -> (tensor<4xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}]>}) attributes {dist.local} {
  %0 = dist.permute %x from [0, 2, 1, 3] on @mesh {"dp", "tp"} : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
