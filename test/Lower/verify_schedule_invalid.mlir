// RUN: dtc-opt %s -split-input-file -verify-diagnostics --dtc-verify-schedule

// A memory plan that is wrong is refused, whoever made it.

// expected-error @below {{memory is not planned}}
module {
  exec.schedule microbatches 1 {
  }
}

// -----

module attributes {exec.arena_bytes = 128 : i64, exec.threads = 1 : i64} {
  exec.kernel @exp extent 4 scratch 0 {
  ^bb0(%a: tensor<4xf32>):
    %0 = math.exp %a : tensor<4xf32>
    exec.yield %0 : tensor<4xf32>
  }
  func.func @forward(%x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">, exec.offsets = 0 : i64})
      -> (tensor<4xf32> {dtc.role = #dtc.role<output, "y">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    // expected-error @below {{place lies outside the arena: 120}}
    %0 = exec.launch @exp(%x) extent 4 in_place [-1] {exec.offsets = array<i64: 120>} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  exec.schedule microbatches 1 {
    exec.call @forward microbatch 0 slot 0
  }
}

// -----

module attributes {exec.arena_bytes = 256 : i64, exec.threads = 1 : i64} {
  exec.kernel @exp extent 4 scratch 0 {
  ^bb0(%a: tensor<4xf32>):
    %0 = math.exp %a : tensor<4xf32>
    exec.yield %0 : tensor<4xf32>
  }
  func.func @forward(%x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">, exec.offsets = 0 : i64})
      -> (tensor<4xf32> {dtc.role = #dtc.role<output, "y">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    %0 = exec.launch @exp(%x) extent 4 in_place [-1] {exec.offsets = array<i64: 128>} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = exec.launch @exp(%x) extent 4 in_place [-1] {exec.offsets = array<i64: 132>} : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @below {{reads a tensor that was written over, at offset: 128}}
    %2 = exec.launch @exp(%0) extent 4 in_place [-1] {exec.offsets = array<i64: 64>} : (tensor<4xf32>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
  exec.schedule microbatches 1 {
    exec.call @forward microbatch 0 slot 0
  }
}

// -----

module attributes {exec.arena_bytes = 256 : i64, exec.threads = 1 : i64} {
  exec.kernel @exp extent 4 scratch 0 {
  ^bb0(%a: tensor<4xf32>):
    %0 = math.exp %a : tensor<4xf32>
    exec.yield %0 : tensor<4xf32>
  }
  func.func @forward(%x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">, exec.offsets = 0 : i64})
      -> (tensor<4xf32> {dtc.role = #dtc.role<output, "y">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    // expected-error @below {{writes over an operand that it reads: 0}}
    %0 = exec.launch @exp(%x) extent 4 in_place [-1] {exec.offsets = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  exec.schedule microbatches 1 {
    exec.call @forward microbatch 0 slot 0
  }
}

// -----

// Only one of two operands in the same place may be overwritten.
module attributes {exec.arena_bytes = 256 : i64, exec.threads = 1 : i64} {
  exec.kernel @add extent 4 scratch 0 {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %0 = arith.addf %a, %b : tensor<4xf32>
    exec.yield %0 : tensor<4xf32>
  }
  func.func @forward(%x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">, exec.offsets = 0 : i64})
      -> (tensor<4xf32> {dtc.role = #dtc.role<output, "y">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    // expected-error @below {{writes over an operand that it reads: 1}}
    %0 = exec.launch @add(%x, %x) extent 4 in_place [0] {exec.offsets = array<i64: 0>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  exec.schedule microbatches 1 {
    exec.call @forward microbatch 0 slot 0
  }
}

// -----

// Results in place of both operands, one beyond its operand's end.
module attributes {exec.arena_bytes = 256 : i64, exec.threads = 1 : i64} {
  exec.kernel @both extent 4 scratch 0 {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %0 = math.exp %a : tensor<4xf32>
    %1 = math.exp %b : tensor<4xf32>
    exec.yield %0, %1 : tensor<4xf32>, tensor<4xf32>
  }
  func.func @forward(%x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">, exec.offsets = 0 : i64},
                     %y: tensor<4xf32> {dtc.role = #dtc.role<input, "y">, exec.offsets = 64 : i64})
      -> (tensor<4xf32> {dtc.role = #dtc.role<output, "u">}, tensor<4xf32> {dtc.role = #dtc.role<output, "v">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    // expected-error @below {{writes over an operand that it reads: 1}}
    %0:2 = exec.launch @both(%x, %y) extent 4 in_place [0, 1] {exec.offsets = array<i64: 0, 72>} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
  }
  exec.schedule microbatches 1 {
    exec.call @forward microbatch 0 slot 0
  }
}

// -----

module attributes {exec.arena_bytes = 256 : i64, exec.threads = 1 : i64} {
  exec.kernel @exp extent 4 scratch 32 {
  ^bb0(%a: tensor<4xf32>):
    %0 = math.exp %a : tensor<4xf32>
    exec.yield %0 : tensor<4xf32>
  }
  func.func @forward(%x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">, exec.offsets = 0 : i64})
      -> (tensor<4xf32> {dtc.role = #dtc.role<output, "y">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    // expected-error @below {{reads a tensor that was written over, at offset: 0}}
    %0 = exec.launch @exp(%x) extent 4 in_place [-1] {exec.offsets = array<i64: 64>, exec.scratch = array<i64: 8, 32>} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  exec.schedule microbatches 1 {
    exec.call @forward microbatch 0 slot 0
  }
}

// -----

module attributes {exec.arena_bytes = 256 : i64, exec.threads = 1 : i64} {
  exec.kernel @exp extent 4 scratch 0 {
  ^bb0(%a: tensor<4xf32>):
    %0 = math.exp %a : tensor<4xf32>
    exec.yield %0 : tensor<4xf32>
  }
  func.func @forward(%x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">, exec.offsets = 0 : i64})
      -> (tensor<4xf32> {dtc.role = #dtc.role<output, "y">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    %0 = exec.launch @exp(%x) extent 4 in_place [-1] {exec.offsets = array<i64: 128>} : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @below {{result is not in the place of its role: 0}}
    return %0 : tensor<4xf32>
  }
  exec.schedule microbatches 1 {
    exec.call @forward microbatch 0 slot 0
  }
}

// -----

module attributes {exec.arena_bytes = 0 : i64, exec.threads = 1 : i64} {
  func.func @pass() attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    return
  }
  func.func @pass_last() attributes {dtc.runs = #dtc.runs<microbatch, forward>, exec.last_of = @pass} {
    return
  }
  exec.schedule microbatches 2 {
    // expected-error @+1 {{calls for another microbatch what is for the last one: pass_last}}
    exec.call @pass_last microbatch 0 slot 0
    exec.call @pass microbatch 1 slot 0
  }
}
