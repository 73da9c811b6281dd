// What the verifiers of layer ops refuse, of experts and of updates.
// RUN: dtc-opt %s -split-input-file -verify-diagnostics

func.func @f(%x: tensor<4x3xi32>) {
  // expected-error @+1 {{input must have a float element type: 'i32'}}
  %0 = dtc.activation relu %x : tensor<4x3xi32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{dimension outside a tensor of rank 2: 2}}
  %0 = dtc.softmax %x 2 : tensor<4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xbf16>) {
  // expected-error @+1 {{mean must have the element type 'f32': 'bf16'}}
  %0:3 = dtc.layer_norm %x eps 1.0e-5 : tensor<4x8xbf16> -> tensor<4x8xbf16>, tensor<4xbf16>, tensor<4xbf16>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %h: tensor<4xf32>) {
  // expected-error @+1 {{scale must have the shape [8]: [4]}}
  %0:3 = dtc.layer_norm %x scale %h : tensor<4xf32> eps 1.0e-5 : tensor<4x8xf32> -> tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{mean must have the shape [8]: [4]}}
  %0:4 = dtc.batch_norm %x eps 1.0e-5 : tensor<4x8xf32> -> tensor<4x8xf32>, tensor<4xf32>, tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<1x8xf32>) {
  // expected-error @+1 {{needs several elements of each channel in a microbatch: 'tensor<1x8xf32>'}}
  %0:4 = dtc.batch_norm %x eps 1.0e-5 : tensor<1x8xf32> -> tensor<1x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %m: tensor<8xf32>, %v: tensor<4xf32>) {
  // expected-error @+1 {{running variance must have the shape [8]: [4]}}
  %0:4 = dtc.batch_norm %x running %m : tensor<8xf32>, %v : tensor<4xf32> eps 1.0e-5 : tensor<4x8xf32> -> tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %e: tensor<f32>) {
  // expected-error @+1 {{can't evaluate without running statistics}}
  %0:4 = dtc.batch_norm %x if %e : tensor<f32> eps 1.0e-5 : tensor<4x8xf32> -> tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %m: tensor<8xf32>, %s: tensor<4xf32>) {
  // expected-error @+1 {{scale gradient must have the shape [8]: [4]}}
  %0:3 = dtc.batch_norm_grad %x, %m, %m, %x : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>, tensor<4xf32>, tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{eps must be finite and not negative: -1.000000e+00}}
  %0:2 = dtc.rms_norm %x eps -1.0 : tensor<4x8xf32> -> tensor<4x8xf32>, tensor<4xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x4x2xf32>, %k: tensor<2x5x3x2xf32>) {
  // expected-error @+1 {{query heads must be a multiple of the 3 key-value heads: 4}}
  %0:2 = dtc.attention %q, %k, %k scale 1.0 : tensor<2x3x4x2xf32>, tensor<2x5x3x2xf32>, tensor<2x5x3x2xf32> -> tensor<2x3x4x2xf32>, tensor<2x4x3xf32>
  return
}

// -----

// Keys are never repeated.
func.func @f(%q: tensor<2x3x4x2xf32>, %k: tensor<2x5x2x2xf32>, %b: tensor<1x1x3x1xf32>) {
  // expected-error @+1 {{bias must have the shape [1, 1, 3, 5]: [1, 1, 3, 1]}}
  %0:2 = dtc.attention %q, %k, %k bias %b : tensor<1x1x3x1xf32> scale 1.0 : tensor<2x3x4x2xf32>, tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32> -> tensor<2x3x4x2xf32>, tensor<2x4x3xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x4x2xf32>, %k: tensor<2x5x2x3xf32>) {
  // expected-error @+1 {{key must have the shape [2, 5, 2, 2]: [2, 5, 2, 3]}}
  %0:2 = dtc.attention %q, %k, %k scale 1.0 : tensor<2x3x4x2xf32>, tensor<2x5x2x3xf32>, tensor<2x5x2x3xf32> -> tensor<2x3x4x3xf32>, tensor<2x4x3xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x4x2xf32>, %k: tensor<2x5x2x2xf32>) {
  // expected-error @+1 {{has a window, so it must be causal}}
  %0:2 = dtc.attention %q, %k, %k scale 1.0 window 2 : tensor<2x3x4x2xf32>, tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32> -> tensor<2x3x4x2xf32>, tensor<2x4x3xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x4x2xf32>, %k: tensor<2x5x2x2xf32>) {
  // expected-error @+1 {{window must have a key or more: 0}}
  %0:2 = dtc.attention %q, %k, %k scale 1.0 causal window 0 : tensor<2x3x4x2xf32>, tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32> -> tensor<2x3x4x2xf32>, tensor<2x4x3xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x2x2xf32>, %lse: tensor<2x2x3xf32>) {
  // expected-error @+1 {{window must have a key or more: -1}}
  %0:3 = dtc.attention_grad %q, %q, %q, %q, %lse, %q scale 1.0 causal window -1 : tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>, tensor<2x2x3xf32>, tensor<2x3x2x2xf32> -> tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x2x2xf32>, %k: tensor<2x5x2x2xf32>, %lse: tensor<2x2x3xf32>) {
  // expected-error @+1 {{a part that is causal must have as many keys as there are queries, 3, got: 5}}
  %0:3 = dtc.attention_part_grad %q, %k, %k, %q, %lse, %q scale 1.0 causal : tensor<2x3x2x2xf32>, tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32>, tensor<2x3x2x2xf32>, tensor<2x2x3xf32>, tensor<2x3x2x2xf32> -> tensor<2x3x2x2xf32>, tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x4x2xf32>, %k: tensor<2x5x2x2xf32>) {
  // expected-error @+1 {{lse must have the shape [2, 4, 3]: [2, 3, 4]}}
  %0:2 = dtc.attention %q, %k, %k scale 1.0 : tensor<2x3x4x2xf32>, tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32> -> tensor<2x3x4x2xf32>, tensor<2x3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>, %t: tensor<3xi64>) {
  // expected-error @+1 {{target must have the shape [4]: [3]}}
  %0:2 = dtc.cross_entropy %x, %t ignore -100 : tensor<4x3xf32>, tensor<3xi64> -> tensor<4xf32>, tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>, %t: tensor<4xi64>) {
  // expected-error @+1 {{lse must have the element type 'f32': 'f64'}}
  %0:2 = dtc.cross_entropy %x, %t ignore -100 : tensor<4x3xf32>, tensor<4xi64> -> tensor<4xf32>, tensor<4xf64>
  return
}

// -----

func.func @f(%p: tensor<4xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{momentum needs a momentum buffer: 9.000000e-01}}
  %0 = dtc.sgd_update %p, %p, %s, %s {momentum = 0.9 : f64, weightDecay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%p: tensor<4xf32>, %s: tensor<f32>, %m: tensor<5xf32>) {
  // expected-error @+1 {{momentum buffer must have the shape [4]: [5]}}
  %0:2 = dtc.sgd_update %p, %p, %m, %s, %s {momentum = 0.9 : f64, weightDecay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<5xf32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<5xf32>)
  return
}

// -----

func.func @f(%x: tensor<2x8x6xf32>, %i: tensor<2x4xi64>) {
  // expected-error @+1 {{choices must have the shape [2, 8]: [2, 4]}}
  %0 = dtc.dispatch %x, %i experts 4 : tensor<2x8x6xf32>, tensor<2x4xi64>
  return
}

// -----

func.func @f(%x: tensor<2x8x6xf32>, %i: tensor<2x8xf32>) {
  // expected-error @+1 {{choices must have the element type i32 or i64: }}
  %0 = dtc.combine %x, %i experts 4 : tensor<2x8x6xf32>, tensor<2x8xf32>
  return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %i: tensor<2x8xi64>) {
  // expected-error @+1 {{must have experts: 0}}
  %0 = dtc.dispatch %x, %i experts 0 : tensor<2x8xf32>, tensor<2x8xi64>
  return
}

// -----

func.func @f(%x: tensor<8xf32>, %i: tensor<8xi64>) {
  // expected-error @+1 {{input must have samples and rows: rank 1}}
  %0 = dtc.dispatch %x, %i experts 2 : tensor<8xf32>, tensor<8xi64>
  return
}

// -----

func.func @f(%x: tensor<2x8x6xf32>, %w: tensor<4x10x6xf32>, %i: tensor<2x8xi64>) {
  // expected-error @+1 {{choices must not have the index of the experts: 1}}
  %0 = dtc.grouped_contract %x [0, 1, 4], %w [2, 3, 4] -> [0, 1, 3] by %i [0, 1] of 1 : tensor<2x8x6xf32>, tensor<4x10x6xf32>, tensor<2x8xi64> -> tensor<2x8x10xf32>
  return
}

// -----

func.func @f(%x: tensor<2x8x6xf32>, %w: tensor<4x10x6xf32>, %i: tensor<2x8xi64>) {
  // expected-error @+1 {{each must have either the experts or the choices' index: 0}}
  %0 = dtc.grouped_contract %x [0, 1, 4], %w [2, 3, 4] -> [1, 3] by %i [0, 1] of 2 : tensor<2x8x6xf32>, tensor<4x10x6xf32>, tensor<2x8xi64> -> tensor<8x10xf32>
  return
}

// -----

func.func @f(%x: tensor<2x8x6xf32>, %w: tensor<4x10x6xf32>, %i: tensor<2x8xi64>) {
  // expected-error @+1 {{must not be in one of left operand, right operand and result alone, index: 3}}
  %0 = dtc.grouped_contract %x [0, 1, 4], %w [2, 3, 4] -> [0, 1] by %i [0, 1] of 2 : tensor<2x8x6xf32>, tensor<4x10x6xf32>, tensor<2x8xi64> -> tensor<2x8xf32>
  return
}

// -----

func.func @f(%x: tensor<2x8x6xf32>, %i: tensor<2x8xi64>) {
  // expected-error @+1 {{must have the experts: 0}}
  %0 = dtc.grouped_contract %x [0, 1, 2], %x [0, 1, 2] -> [0, 1] by %i [0, 1] of 9 : tensor<2x8x6xf32>, tensor<2x8x6xf32>, tensor<2x8xi64> -> tensor<2x8xf32>
  return
}

// -----

func.func @f(%i: tensor<2x8xi64>) {
  // expected-error @+1 {{must have the same number of experts in each part: 4 in 3}}
  %0 = dtc.expert_slots %i experts 4 sections 1 parts 3 capacity 8 : tensor<2x8xi64>
  return
}

// -----

func.func @f(%i: tensor<2x8xi64>) {
  // expected-error @+1 {{must have the same number of rows in each section: 8 in 3}}
  %0 = dtc.expert_slots %i experts 4 sections 3 parts 2 capacity 8 : tensor<2x8xi64>
  return
}

// -----

func.func @f(%i: tensor<2x8xi64>) {
  // expected-error @+1 {{capacity must be at least 1: 0}}
  %0 = dtc.expert_slots %i experts 4 sections 1 parts 2 capacity 0 : tensor<2x8xi64>
  return
}

// -----

func.func @f(%x: tensor<2x8x6xf32>, %s: tensor<2x8xi64>) {
  // expected-error @+1 {{must be between [sample, row, ...] and [sample, part, slot, ...]: }}
  %0 = dtc.to_slots %x, %s : tensor<2x8x6xf32>, tensor<2x8xi64> -> tensor<2x16x6xf32>
  return
}

// -----

func.func @f(%x: tensor<2x8x6xf32>, %s: tensor<2x8xi64>) {
  // expected-error @+1 {{rows and slots must have the same samples and elements: }}
  %0 = dtc.to_slots %x, %s : tensor<2x8x6xf32>, tensor<2x8xi64> -> tensor<2x2x8x5xf32>
  return
}

// -----

func.func @f(%y: tensor<2x2x8x6xf32>, %s: tensor<2x4xi64>) {
  // expected-error @+1 {{slots must have the shape [2, 8]: [2, 4]}}
  %0 = dtc.from_slots %y, %s : tensor<2x2x8x6xf32>, tensor<2x4xi64> -> tensor<2x8x6xf32>
  return
}

// -----

func.func @f(%y: tensor<2x3x2x4x6xf32>, %s: tensor<2x8xi64>) {
  // expected-error @+1 {{must have the same number of rows in each section: 8 in 3}}
  %0 = dtc.from_slots %y, %s : tensor<2x3x2x4x6xf32>, tensor<2x8xi64> -> tensor<2x8x6xf32>
  return
}

// -----

func.func @f(%x: tensor<2x6xf32>, %w: tensor<4x10x6xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{choices must have samples and rows: rank 1}}
  %0 = dtc.grouped_contract %x [0, 3], %w [1, 2, 3] -> [0, 2] by %i [0] of 1 : tensor<2x6xf32>, tensor<4x10x6xf32>, tensor<2xi64> -> tensor<2x10xf32>
  return
}

// -----

func.func @f(%i: tensor<2x8xi64>) {
  // expected-error @+1 {{must have the same number of experts in each part: 4 in 3}}
  %0 = dtc.expert_slots %i experts 4 sections 1 parts 3 capacity 8 : tensor<2x8xi64>
  return
}

// -----

func.func @f(%i: tensor<2x8xi64>) {
  // expected-error @+1 {{must have the same number of rows in each section: 8 in 3}}
  %0 = dtc.expert_slots %i experts 4 sections 3 parts 2 capacity 8 : tensor<2x8xi64>
  return
}

// -----

func.func @f(%i: tensor<2x8xi64>) {
  // expected-error @+1 {{capacity must be at least 1: 0}}
  %0 = dtc.expert_slots %i experts 4 sections 1 parts 2 capacity 0 : tensor<2x8xi64>
  return
}

// -----

func.func @f(%x: tensor<2x8x6xf32>, %s: tensor<2x8xi64>) {
  // expected-error @+1 {{must be between [sample, row, ...] and [sample, part, slot, ...]: }}
  %0 = dtc.to_slots %x, %s : tensor<2x8x6xf32>, tensor<2x8xi64> -> tensor<2x16x6xf32>
  return
}

// -----

func.func @f(%x: tensor<2x8x6xf32>, %s: tensor<2x8xi64>) {
  // expected-error @+1 {{rows and slots must have the same samples and elements: }}
  %0 = dtc.to_slots %x, %s : tensor<2x8x6xf32>, tensor<2x8xi64> -> tensor<2x2x8x5xf32>
  return
}

// -----

func.func @f(%y: tensor<2x2x8x6xf32>, %s: tensor<2x4xi64>) {
  // expected-error @+1 {{slots must have the shape [2, 8]: [2, 4]}}
  %0 = dtc.from_slots %y, %s : tensor<2x2x8x6xf32>, tensor<2x4xi64> -> tensor<2x8x6xf32>
  return
}

// -----

func.func @f(%y: tensor<2x3x2x4x6xf32>, %s: tensor<2x8xi64>) {
  // expected-error @+1 {{must have the same number of rows in each section: 8 in 3}}
  %0 = dtc.from_slots %y, %s : tensor<2x3x2x4x6xf32>, tensor<2x8xi64> -> tensor<2x8x6xf32>
  return
}

// -----

func.func @f(%x: tensor<2x6xf32>, %w: tensor<4x10x6xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{choices must have samples and rows: rank 1}}
  %0 = dtc.grouped_contract %x [0, 3], %w [1, 2, 3] -> [0, 2] by %i [0] of 1 : tensor<2x6xf32>, tensor<4x10x6xf32>, tensor<2xi64> -> tensor<2x10xf32>
  return
}

// -----

func.func @step_vector(%a: tensor<f32>) {
  // expected-error @+1 {{needs at least 4 numbers: 1}}
  dtc.step_vector %a : tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<4xi32>) {
  // expected-error @+1 {{input must have a float element type: 'i32'}}
  %0 = dtc.activation_grad silu %x, %x : tensor<4xi32>
  return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %row: tensor<2xf32>, %short: tensor<3xf32>) {
  // expected-error @+1 {{rstd}}
  %0:3 = dtc.layer_norm_grad %x, %row, %short, %x : tensor<2x8xf32>, tensor<2xf32>, tensor<3xf32>, tensor<2x8xf32> -> tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %row: tensor<2xf32>, %h: tensor<7xf32>) {
  // expected-error @+1 {{scale}}
  %0:2 = dtc.rms_norm_grad %x, %row, %x scale %h : tensor<7xf32> : tensor<2x8xf32>, tensor<2xf32>, tensor<2x8xf32> -> tensor<2x8xf32>, tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %t: tensor<4xi64>, %row: tensor<4xf32>, %short: tensor<3xf32>) {
  // expected-error @+1 {{lse}}
  %0 = dtc.cross_entropy_grad %x, %t, %short, %row ignore 3 : tensor<4x8xf32>, tensor<4xi64>, tensor<3xf32>, tensor<4xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%p: tensor<4x8xf32>, %half: tensor<2x8xf32>, %lr: tensor<f64>, %s: tensor<f32>) {
  // expected-error @+1 {{exp_avg}}
  %0:3 = dtc.adam_update %p, %p, %half, %p, %lr, %s, %s, %s {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, weightDecay = 0.1 : f64} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<2x8xf32>, tensor<4x8xf32>, tensor<f64>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4x8xf32>, tensor<2x8xf32>, tensor<4x8xf32>)
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dim}}
  %0 = dtc.softmax_grad %x, %x 2 : tensor<4x8xf32>
  return
}

// -----

func.func @f(%i: tensor<2x8xi64>) {
  // expected-error @+1 {{rows that choose different parts need a slot of each part: 8 rows, 2 apart, and 8 slots}}
  %0 = dtc.expert_slots %i experts 4 sections 1 parts 4 capacity 8 apart 2 : tensor<2x8xi64>
  return
}

// -----

func.func @f(%x: tensor<2x8x6xf32>, %s: tensor<2x8xi64>) {
  // expected-error @+1 {{rows that choose different parts need a slot of each part: 8 rows, 3 apart, and 4 slots}}
  %0 = dtc.to_slots %x, %s apart 3 : tensor<2x8x6xf32>, tensor<2x8xi64> -> tensor<2x2x4x6xf32>
  return
}

// -----

func.func @f(%i: tensor<2x8xi64>) {
  // expected-error @+1 {{slots of a part must be whole tiles: 20 slots, tiles of 8}}
  %0 = dtc.expert_slots %i experts 4 sections 1 parts 2 capacity 20 tile 8 : tensor<2x8xi64>
  return
}

// -----

func.func @f(%i: tensor<1x33554432xi64>) {
  // expected-error @+1 {{a section has too many rows for tiles: 16777216}}
  %0 = dtc.expert_slots %i experts 4 sections 2 parts 2 capacity 8 tile 8 : tensor<1x33554432xi64>
  return
}
