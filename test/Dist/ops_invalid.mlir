// RUN: dtc-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{axis is declared twice: tp}}
dist.mesh @mesh ["tp" = 2, "tp" = 2]

// -----

// expected-error @+1 {{size of axis dp is out of range: 0}}
dist.mesh @mesh ["dp" = 0]

// -----

// expected-error @+1 {{size of axis tp is out of range: 4294967296}}
dist.mesh @mesh ["dp" = 2, "tp" = 4294967296]

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{mesh is not declared: @mesh}}
  %0 = dist.all_reduce sum %x on @mesh {"dp"} : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{axis is not in the mesh: tp}}
  %0 = dist.all_reduce sum %x on @mesh {"tp"} : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{axis is used twice: dp}}
  %0 = dist.all_gather %x dim 0 on @mesh {"dp", "dp"} : tensor<4xf32> -> tensor<16xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{cannot reduce by: prod}}
  %0 = dist.all_reduce prod %x on @mesh {"dp"} : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error @+1 {{operands must have one element type, got: 'tensor<4xf64>'}}
  %0:2 = dist.all_reduce sum %x, %y on @mesh {"dp"} : tensor<4xf32>, tensor<4xf64>
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{has no dimension: 1}}
  %0 = dist.all_gather %x dim 1 on @mesh {"dp"} : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{result must be 'tensor<8xf32>', got: 'tensor<4xf32>'}}
  %0 = dist.all_gather %x dim 0 on @mesh {"dp"} : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 3]
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{dimension of size 4 is not divisible by: 3}}
  %0 = dist.slice %x dim 0 on @mesh {"dp"} : tensor<4xf32> -> tensor<1xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 3]
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{dimension of size 4 is not divisible by: 3}}
  %0 = dist.reduce_scatter sum %x dim 0 on @mesh {"dp"} : tensor<4xf32> -> tensor<1xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{cannot split and join the same dimension: 1}}
  %0 = dist.all_to_all %x split 1 concat 1 on @mesh {"dp"} : tensor<4x4xf32> -> tensor<4x4xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{sources must be a permutation, got: 0}}
  %0 = dist.permute %x from [0, 0] on @mesh {"dp"} : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{needs a source for each of 2 ranks, got: 1}}
  %0 = dist.permute %x from [0] on @mesh {"dp"} : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 3]
// expected-error @+1 {{dimension 0 of size 4 is not divisible by 3: #dist.sharding<@mesh, [{"dp"}]>}}
func.func @f(%x: tensor<4xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}]>}) {
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
// expected-error @+1 {{axis is used twice: dp}}
func.func @f(%x: tensor<4xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}], sum = {"dp"}>}) {
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
// expected-error @+1 {{sharding has 1 dimensions, the tensor 2}}
func.func @f(%x: tensor<4x4xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}]>}) {
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
// expected-error @+1 {{sharding names an axis that the mesh lacks}}
func.func @f(%x: tensor<4xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}]>}) {
  return
}

// -----

// expected-error @+1 {{expected sum, max or min, got: prod}}
func.func @f(%x: tensor<4xf32> {dist.sharding = #dist.sharding<@mesh, [{}], prod = {"tp"}>}) {
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{sharding has 2 factors, the rule 1}}
  %0 = math.exp %x {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}]>} : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 3]
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{factor a of size 4 is not divisible by 3}}
  %0 = math.exp %x {dist.op = #dist.op_sharding<@mesh, [{"dp"}]>} : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
// expected-error @+1 {{has no sharding rule, so no dist.op may be given}}
func.func @f() attributes {dist.op = #dist.op_sharding<@mesh, []>} {
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4xf32>, %y: tensor<4xi32>) {
  // expected-error @+1 {{operands must have one element type, got: 'tensor<4xi32>'}}
  %0:2 = dist.all_gather %x, %y dim 0 on @mesh {"dp"} : tensor<4xf32>, tensor<4xi32> -> tensor<8xf32>, tensor<8xi32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4xf32>, %y: tensor<6xf32>) {
  // expected-error @+1 {{result must be 'tensor<3xf32>', got: 'tensor<6xf32>'}}
  %0:2 = dist.reduce_scatter sum %x, %y dim 0 on @mesh {"dp"} : tensor<4xf32>, tensor<6xf32> -> tensor<2xf32>, tensor<6xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4xf32>, %y: tensor<6xf32>) {
  // expected-error @+1 {{needs a result for each of 2 operands, has: 1}}
  %0 = "dist.all_gather"(%x, %y) {mesh = @mesh, axes = #dist.axes<{"dp"}>, dim = 0 : i64} : (tensor<4xf32>, tensor<6xf32>) -> tensor<8xf32>
  return
}
