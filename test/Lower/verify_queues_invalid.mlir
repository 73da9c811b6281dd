// RUN: dtc-opt %s -split-input-file -verify-diagnostics --dtc-verify-schedule

// A plan that lets the compute queue write where a collective still reads.
module attributes {exec.arena_bytes = 512 : i64, exec.threads = 1 : i64} {
  dist.mesh @mesh ["dp" = 2]
  func.func @forward(%x: tensor<16xf32> {dtc.role = #dtc.role<input, "x">, exec.offsets = 0 : i64})
      -> (tensor<16xf32> {dtc.role = #dtc.role<output, "y">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    %a = exec.copy %x {exec.offsets = array<i64: 128>} : tensor<16xf32>
    // expected-note @below {{the op in flight is here}}
    %s = dist.all_reduce sum %a on @mesh {"dp"} {exec.offsets = array<i64: 64>, exec.queue = #exec.queue<collective>} : tensor<16xf32>
    // expected-error @below {{touches what an op in flight uses, at offset: 128}}
    %b = exec.copy %x {exec.offsets = array<i64: 128>} : tensor<16xf32>
    %t = exec.wait %s {exec.offsets = array<i64: 64>} : tensor<16xf32>
    return %t : tensor<16xf32>
  }
  exec.schedule microbatches 1 {
    exec.call @forward microbatch 0 slot 0
  }
}

// -----

// A message stays in flight: the outbox may not be written after it was sent.
module attributes {exec.arena_bytes = 512 : i64, exec.threads = 1 : i64} {
  dist.mesh @mesh ["dp" = 2]
  func.func @forward(%x: tensor<16xf32> {dtc.role = #dtc.role<input, "x">, exec.offsets = 0 : i64})
      -> (tensor<16xf32> {dtc.role = #dtc.role<outbox, "y">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    %a = exec.copy %x {exec.offsets = array<i64: 64>} : tensor<16xf32>
    // expected-note @below {{the op in flight is here}}
    exec.send %a to [1, 0] channel 0 {exec.offsets = array<i64>, exec.queue = #exec.queue<send>} : tensor<16xf32>
    // expected-error @below {{touches what an op in flight uses, at offset: 64}}
    %b = exec.copy %x {exec.offsets = array<i64: 64>} : tensor<16xf32>
    return %a : tensor<16xf32>
  }
  exec.schedule microbatches 1 {
    exec.call @forward microbatch 0 slot 0
  }
}

// -----

// A collective of other axes doesn't wait for one that was started before it.
module attributes {exec.arena_bytes = 512 : i64, exec.threads = 1 : i64} {
  dist.mesh @mesh ["dp" = 2, "tp" = 2]
  func.func @forward(%x: tensor<16xf32> {dtc.role = #dtc.role<input, "x">, exec.offsets = 0 : i64})
      -> (tensor<16xf32> {dtc.role = #dtc.role<output, "y">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    %a = exec.copy %x {exec.offsets = array<i64: 128>} : tensor<16xf32>
    // expected-note @below {{the op in flight is here}}
    %s = dist.all_reduce sum %a on @mesh {"dp"} {exec.offsets = array<i64: 64>, exec.queue = #exec.queue<collective>} : tensor<16xf32>
    // expected-error @below {{touches what an op in flight uses, at offset: 128}}
    %r = dist.all_reduce sum %x on @mesh {"tp"} {exec.offsets = array<i64: 128>, exec.queue = #exec.queue<collective>} : tensor<16xf32>
    %t = exec.wait %s {exec.offsets = array<i64: 64>} : tensor<16xf32>
    %u = exec.wait %r {exec.offsets = array<i64: 128>} : tensor<16xf32>
    return %t : tensor<16xf32>
  }
  exec.schedule microbatches 1 {
    exec.call @forward microbatch 0 slot 0
  }
}

// -----

// Who waits for what other axes make of a collective's result has waited for that, too.
module attributes {exec.arena_bytes = 512 : i64, exec.threads = 1 : i64} {
  dist.mesh @mesh ["dp" = 2, "tp" = 2]
  func.func @forward(%x: tensor<16xf32> {dtc.role = #dtc.role<input, "x">, exec.offsets = 0 : i64})
      -> (tensor<16xf32> {dtc.role = #dtc.role<output, "y">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    %a = exec.copy %x {exec.offsets = array<i64: 128>} : tensor<16xf32>
    %s = dist.all_reduce sum %a on @mesh {"dp"} {exec.offsets = array<i64: 64>, exec.queue = #exec.queue<collective>} : tensor<16xf32>
    %r = dist.all_reduce sum %s on @mesh {"tp"} {exec.offsets = array<i64: 64>, exec.queue = #exec.queue<collective>} : tensor<16xf32>
    %t = exec.wait %r {exec.offsets = array<i64: 64>} : tensor<16xf32>
    %b = exec.copy %x {exec.offsets = array<i64: 128>} : tensor<16xf32>
    return %t : tensor<16xf32>
  }
  exec.schedule microbatches 1 {
    exec.call @forward microbatch 0 slot 0
  }
}
