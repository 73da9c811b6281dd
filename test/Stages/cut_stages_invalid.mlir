// RUN: dtc-opt %s -split-input-file -verify-diagnostics --dtc-cut-stages

module {
  dist.mesh @mesh ["dp" = 1] {dist.devices = [array<i64: 0>, array<i64: 1>]}
  func.func @prologue() attributes {dtc.runs = #dtc.runs<step>} { return }
  func.func @update() attributes {dtc.runs = #dtc.runs<step>} { return }
  func.func @loss_and_grads(%x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">}) attributes {dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    // expected-error @below {{belongs to a stage that the mesh doesn't have: 2}}
    %0 = math.tanh %x {dist.stage = 2 : i64, dtc.id = 0 : i64} : tensor<4xf32>
    return
  }
}

// -----

module {
  dist.mesh @mesh ["dp" = 1] {dist.devices = [array<i64: 0>, array<i64: 1>]}
  func.func @prologue() attributes {dtc.runs = #dtc.runs<step>} { return }
  func.func @update() attributes {dtc.runs = #dtc.runs<step>} { return }
  func.func @loss_and_grads(%x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">}) attributes {dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    %0 = math.tanh %x {dist.stage = 0 : i64, dtc.id = 0 : i64} : tensor<4xf32>
    // expected-error @below {{belongs to no stage, but reads what one makes}}
    %1 = math.tanh %0 {dtc.id = 1 : i64} : tensor<4xf32>
    return
  }
}

// -----

// The gradient of stage 0 is made after that of stage 1.
module {
  dist.mesh @mesh ["dp" = 1] {dist.devices = [array<i64: 0>, array<i64: 1>]}
  func.func @prologue() attributes {dtc.runs = #dtc.runs<step>} { return }
  func.func @update() attributes {dtc.runs = #dtc.runs<step>} { return }
  func.func @loss_and_grads(%x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">}) attributes {dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    // expected-error @below {{makes in the backward pass what a later stage needs: 1}}
    %0 = math.tanh %x {dist.stage = 0 : i64, dtc.backward = #dtc.backward<0, input_grad>} : tensor<4xf32>
    %1 = math.tanh %0 {dist.stage = 1 : i64, dtc.backward = #dtc.backward<1, input_grad>} : tensor<4xf32>
    return
  }
}

// -----

module {
  dist.mesh @mesh ["dp" = 1] {dist.devices = [array<i64: 0>, array<i64: 1>]}
  func.func @prologue() attributes {dtc.runs = #dtc.runs<step>} { return }
  func.func @update() attributes {dtc.runs = #dtc.runs<step>} { return }
  func.func @loss_and_grads(%x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">}) attributes {dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    // expected-error @below {{makes what another stage needs, in a layout that isn't planned}}
    %0 = math.tanh %x {dist.stage = 0 : i64, dtc.id = 0 : i64} : tensor<4xf32>
    %1 = math.tanh %0 {dist.stage = 1 : i64, dtc.id = 1 : i64} : tensor<4xf32>
    return
  }
}

// -----

// expected-error @below {{needs a function of one block to be cut into stages: update}}
module {
  dist.mesh @mesh ["dp" = 1] {dist.devices = [array<i64: 0>, array<i64: 1>]}
  func.func @prologue() attributes {dtc.runs = #dtc.runs<step>} { return }
  func.func @loss_and_grads() attributes {dtc.runs = #dtc.runs<microbatch, forward|backward>} { return }
}

// -----

// expected-error @below {{no mesh is that of stage 1}}
module {
  dist.mesh @mesh ["dp" = 1] {dist.devices = [array<i64: 0>, array<i64>, array<i64>]}
  module @group1 {
    dist.mesh @mesh ["dp" = 2] {dist.devices = [array<i64>, array<i64>, array<i64: 1, 2>]}
  }
}

// -----

module {
  dist.mesh @mesh ["dp" = 1] {dist.devices = [array<i64: 0>, array<i64>]}
  // expected-error @below {{has a mesh that doesn't say which of the stages it is of: 2}}
  module @group1 {
    dist.mesh @mesh ["dp" = 2] {dist.devices = [array<i64: 1, 2>]}
  }
}
