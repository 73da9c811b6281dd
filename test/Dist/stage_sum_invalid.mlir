// RUN: dtc-opt %s -split-input-file -verify-diagnostics

dist.mesh @mesh ["dp" = 1] {dist.devices = [array<i64: 0>, array<i64: 1>]}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{the mesh has no such stage: 2}}
  %y = dist.stage_sum %x on @mesh stages [0, 2] : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

dist.mesh @mesh ["dp" = 1]
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{the mesh has no such stage: 0}}
  %y = dist.stage_sum %x on @mesh stages [0] : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

dist.mesh @mesh ["dp" = 1] {dist.devices = [array<i64: 0>, array<i64: 1>, array<i64: 0>]}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{names two stages of one rank: 2}}
  %y = dist.stage_sum %x on @mesh stages [0, 2] : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

dist.mesh @mesh ["dp" = 1] {dist.devices = [array<i64: 0>, array<i64: 1>]}
func.func @f(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> {
  // expected-error @below {{operands must have one element type, got: 'tensor<i64>'}}
  %y, %m = dist.stage_sum %x, %n on @mesh stages [0, 1] : tensor<4xf32>, tensor<i64>
  return %y : tensor<4xf32>
}

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{mesh is not declared: @mesh}}
  %y = dist.stage_sum %x on @mesh stages [0] : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

dist.mesh @mesh ["dp" = 1] {dist.devices = [array<i64: 0>, array<i64: 1>]}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{names an axis that the mesh lacks: #dist.axes<{"tp"}>}}
  %y = dist.stage_sum %x on @mesh stages [0, 1] over <{"tp"}> : tensor<4xf32>
  return %y : tensor<4xf32>
}
