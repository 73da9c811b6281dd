// RUN: dtc-opt %s -split-input-file -verify-diagnostics -dtc-partition

// expected-error @below {{dist.zigzag must name one axis of a mesh, got: #dist.axes<{"tp"}>}}
dist.mesh @mesh ["cp" = 2] {dist.zigzag = #dist.axes<{"tp"}>}

// -----

dist.mesh @mesh ["cp" = 2] {dist.zigzag = #dist.axes<{"cp"}>}
// expected-error @below {{argument 0 must be whole over the axis whose parts are in zig-zag}}
func.func @f(%x: tensor<4xf32> {dist.sharding = #dist.sharding<@mesh, [{"cp"}]>}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

dist.mesh @mesh ["cp" = 2] {dist.zigzag = #dist.axes<{"cp"}>}
// expected-error @below {{result 0 must be whole over the axis whose parts are in zig-zag}}
func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32> {dist.sharding = #dist.sharding<@mesh, [{"cp"}]>}) {
  return %x : tensor<4xf32>
}

// -----

dist.mesh @mesh ["cp" = 2] {dist.zigzag = #dist.axes<{"cp"}>}
func.func @f(%x: tensor<6xf32>) -> tensor<6xf32> {
  // expected-error @below {{has a size that zig-zag parts can't divide into 4 chunks: 6}}
  %0 = arith.addf %x, %x {dist.op = #dist.op_sharding<@mesh, [{"cp"}]>} : tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

// A table's rows are looked for where a part begins and ends, and there are two ranges.
dist.mesh @mesh ["cp" = 2] {dist.zigzag = #dist.axes<{"cp"}>}
func.func @f(%x: tensor<4x3xf32>, %i: tensor<5xi64>) -> tensor<5x3xf32> {
  // expected-error @below {{cannot be built on shards}}
  %0 = dtc.gather %x, %i axis 0 {dist.op = #dist.op_sharding<@mesh, [{"cp"}, {}, {}]>} : tensor<4x3xf32>, tensor<5xi64> -> tensor<5x3xf32>
  return %0 : tensor<5x3xf32>
}
