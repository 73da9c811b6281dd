// RUN: dtc-opt %s -split-input-file -verify-diagnostics -dtc-pipeline=partition

// expected-error @below {{needs one dist.mesh to be partitioned, has: 0}}
module {
  func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

dist.mesh @mesh ["dp" = 2]
// expected-error @+1 {{cannot be partitioned: it has no body or is local already}}
func.func private @f(tensor<4xf32>)

// -----

dist.mesh @mesh ["dp" = 2]
func.func private @g(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has no sharding rule and cannot be partitioned}}
  %0 = func.call @g(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

dist.mesh @mesh ["dp" = 2]
// expected-error @+1 {{cannot be partitioned with an argument of type: 'f32'}}
func.func @f(%x: f32) {
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @f(%w: tensor<4xf32> {dtc.role = #dtc.role<parameter, "w">, dist.sharding = #dist.sharding<@mesh, [{"dp"}]>}) {
  return
}
// expected-error @+1 {{sharding differs from #dist.sharding<@mesh, [{"dp"}]> for: w}}
func.func @g(%w: tensor<4xf32> {dtc.role = #dtc.role<parameter, "w">, dist.sharding = #dist.sharding<@mesh, [{}]>}) {
  return
}

// -----

// The accumulated gradient has no term to take its layout from.
dist.mesh @mesh ["dp" = 2]
func.func @f(%g: tensor<4xf32> {dtc.role = #dtc.role<gradient, "w">})
    -> (tensor<4xf32> {dtc.role = #dtc.role<gradient, "w">}) {
  // expected-error @+1 {{must add something to the accumulator}}
  %0 = dtc.sum %g : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// What rows a rank has is known when it runs.
dist.mesh @mesh ["ep" = 2]
func.func @f(%x: tensor<2x8x6xf32>, %i: tensor<2x8xi64>) -> tensor<2x8x6xf32> {
  // expected-error @+2 {{has experts on several ranks, which cannot exchange rows yet: 2 parts}}
  // expected-error @+1 {{cannot be built on shards}}
  %0 = dtc.dispatch %x, %i experts 4 {dist.op = #dist.op_sharding<@mesh, [{}, {}, {"ep"}, {}, {}]>} : tensor<2x8x6xf32>, tensor<2x8xi64>
  return %0 : tensor<2x8x6xf32>
}

// -----

// Keys go round where a causal mask begins with them.
dist.mesh @mesh ["cp" = 2]
func.func @f(%q: tensor<2x4x2x2xf32>, %k: tensor<2x8x2x2xf32>) -> tensor<2x4x2x2xf32> {
  // expected-error @+1 {{can't go round the ranks: its mask doesn't begin with the keys, 2 queries and 4 keys on a rank}}
  %0:2 = dtc.attention %q, %k, %k scale 0.5 causal
      {dist.op = #dist.op_sharding<@mesh, [{}, {}, {"cp"}, {"cp"}, {}, {}]>}
      : tensor<2x4x2x2xf32>, tensor<2x8x2x2xf32>, tensor<2x8x2x2xf32> -> tensor<2x4x2x2xf32>, tensor<2x2x4xf32>
  return %0#0 : tensor<2x4x2x2xf32>
}

// -----

// Of a window, each step would hide other keys.
dist.mesh @mesh ["cp" = 2]
func.func @f(%q: tensor<2x8x2x2xf32>) -> tensor<2x8x2x2xf32> {
  // expected-error @+1 {{can't go round the ranks: it has a window, of which each step would see another part}}
  %0:2 = dtc.attention %q, %q, %q scale 0.5 causal window 3
      {dist.op = #dist.op_sharding<@mesh, [{}, {}, {"cp"}, {"cp"}, {}, {}]>}
      : tensor<2x8x2x2xf32>, tensor<2x8x2x2xf32>, tensor<2x8x2x2xf32> -> tensor<2x8x2x2xf32>, tensor<2x2x8xf32>
  return %0#0 : tensor<2x8x2x2xf32>
}

// -----

// Of a bias, each step would read another part.
dist.mesh @mesh ["cp" = 2]
func.func @f(%q: tensor<2x4x2x2xf32>, %bias: tensor<2x2x4x4xf32>) -> tensor<2x4x2x2xf32> {
  // expected-error @+1 {{axis is used twice: cp}}
  %0:2 = dtc.attention %q, %q, %q bias %bias : tensor<2x2x4x4xf32> scale 0.5
      {dist.op = #dist.op_sharding<@mesh, [{}, {}, {"cp"}, {"cp"}, {}, {}]>}
      : tensor<2x4x2x2xf32>, tensor<2x4x2x2xf32>, tensor<2x4x2x2xf32> -> tensor<2x4x2x2xf32>, tensor<2x2x4xf32>
  return %0#0 : tensor<2x4x2x2xf32>
}
