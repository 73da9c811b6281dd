// RUN: dtc-opt %s -split-input-file -verify-diagnostics --dtc-plan-memory

module {
  // expected-error @below {{exec.room must be a tensor type of static shape, got: 16 : i64}}
  func.func private @update(tensor<16xf32> {exec.room = 16 : i64})
}

// -----

module {
  // expected-error @below {{exec.room must be a tensor type of static shape, got: tensor<?xf32>}}
  func.func private @update(tensor<16xf32> {exec.room = tensor<?xf32>})
}

// -----

module {
  // expected-error @below {{an argument or result doesn't fit into its room: 'tensor<16xf32>', 'tensor<4x2xf32>'}}
  func.func @update(%g: tensor<16xf32> {dtc.role = #dtc.role<gradient, "w">, exec.room = tensor<4x2xf32>})
      attributes {dtc.runs = #dtc.runs<step>} {
    return
  }
  exec.schedule microbatches 1 {
    exec.call @update microbatch 0 slot 0
  }
}
