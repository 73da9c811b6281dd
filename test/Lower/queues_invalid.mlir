// RUN: dtc-opt %s -split-input-file -verify-diagnostics --dtc-plan-memory --dtc-verify-schedule

module {
  dist.mesh @mesh ["dp" = 2]
  func.func @update(%x: tensor<16xf32> {dtc.role = #dtc.role<parameter, "x">})
      -> (tensor<16xf32> {dtc.role = #dtc.role<parameter, "x">}) attributes {dtc.runs = #dtc.runs<step>} {
    %s = dist.all_reduce sum %x on @mesh {"dp"} {exec.queue = #exec.queue<collective>} : tensor<16xf32>
    // expected-error @below {{uses a value in flight without exec.wait, operand: 0}}
    return %s : tensor<16xf32>
  }
}

// -----

module {
  // expected-error @below {{can't be started on the queue: collective}}
  %0 = exec.zero {exec.queue = #exec.queue<collective>} : tensor<16xf32>
}

// -----

module {
  // expected-error @below {{can't be started on the queue: compute}}
  %0 = exec.zero {exec.queue = #exec.queue<compute>} : tensor<16xf32>
}

// -----

module {
  // expected-error @below {{exec.queue must be a #exec.queue, got: "send"}}
  %0 = exec.zero {exec.queue = "send"} : tensor<16xf32>
}

// -----

module {
  %0 = exec.zero : tensor<16xf32>
  // expected-error @below {{waits for what is not in flight}}
  %1 = exec.wait %0 : tensor<16xf32>
}

// -----

module {
  func.func @update(%x: tensor<16xf32> {dtc.role = #dtc.role<parameter, "x">}) attributes {dtc.runs = #dtc.runs<step>} {
    // expected-error @below {{is started with an operand that is no outbox}}
    exec.send %x to [1] channel 0 {exec.queue = #exec.queue<send>} : tensor<16xf32>
    return
  }
}

// -----

module {
  // expected-error @below {{no rank has the number: -2}}
  %0 = exec.receive from [-2] channel 0 : tensor<16xf32>
}

// -----

module {
  // expected-error @below {{receives nothing}}
  "exec.receive"() <{peers = array<i32: 1>, channel = 0 : i64}> : () -> ()
}

// -----

module {
  // expected-error @below {{channel is negative: -1}}
  %0 = exec.receive from [1] channel -1 : tensor<16xf32>
}

// -----

module {
  func.func @forward(%x: tensor<16xf32> {dtc.role = #dtc.role<inbox, "x">})
      -> (tensor<16xf32> {dtc.role = #dtc.role<output, "y">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    // expected-error @below {{uses a value in flight without exec.wait, argument: 0}}
    %y = exec.copy %x : tensor<16xf32>
    return %y : tensor<16xf32>
  }
  exec.schedule microbatches 1 {
    exec.call @forward microbatch 0 slot 0
  }
}

// -----

module {
  func.func @forward(%x: tensor<16xf32> {dtc.role = #dtc.role<kept, "x">, exec.space = #exec.space<host>})
      -> (tensor<16xf32> {dtc.role = #dtc.role<output, "y">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    // expected-error @below {{reads host memory, which only exec.copy may}}
    %y = exec.matmul %x, %x batch [] mnk [4, 4, 4] strides [4, 1], [4, 1] -> [4, 1] offsets [0, 0] : tensor<16xf32>, tensor<16xf32> -> tensor<16xf32>
    return %y : tensor<16xf32>
  }
  exec.schedule microbatches 1 {
    exec.call @forward microbatch 0 slot 0
  }
}

// -----

module {
  func.func @forward(%x: tensor<16xf32> {dtc.role = #dtc.role<input, "x">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    // expected-error @below {{copies to the host what is not returned there}}
    %y = exec.copy %x to_host : tensor<16xf32>
    return
  }
  exec.schedule microbatches 1 {
    exec.call @forward microbatch 0 slot 0
  }
}

// -----

module {
  func.func @forward(%x: tensor<16xf32> {dtc.role = #dtc.role<kept, "x">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    return
  }
  // expected-error @below {{functions disagree about the space of #dtc.role<kept, "x">}}
  func.func @again(%x: tensor<16xf32> {dtc.role = #dtc.role<kept, "x">, exec.space = #exec.space<host>}) attributes {dtc.runs = #dtc.runs<microbatch, input_grad>} {
    return
  }
  exec.schedule microbatches 1 {
  }
}

// -----

module {
  // expected-error @below {{doesn't say how often it runs (dtc.runs)}}
  func.func @forward(%x: tensor<16xf32> {dtc.role = #dtc.role<input, "x">}) {
    return
  }
  exec.schedule microbatches 1 {
  }
}
