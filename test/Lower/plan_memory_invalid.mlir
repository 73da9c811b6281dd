// RUN: dtc-opt %s -split-input-file -verify-diagnostics --dtc-plan-memory --dtc-verify-schedule

// expected-error @below {{needs one exec.schedule, has: 0}}
module {
}

// -----

module {
  // expected-error @below {{argument without a role of its own: 0}}
  func.func @forward(%x: tensor<4xf32>) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    return
  }
  exec.schedule microbatches 1 {
  }
}

// -----

module {
  // expected-error @below {{argument without a role of its own: 1}}
  func.func @forward(%x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">},
                     %y: tensor<4xf32> {dtc.role = #dtc.role<input, "x">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    return
  }
  exec.schedule microbatches 1 {
  }
}

// -----

module {
  func.func @loss_and_grads(%w: tensor<4xf32> {dtc.role = #dtc.role<parameter, "w">}) attributes {dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    return
  }
  // expected-error @below {{functions disagree about the type of #dtc.role<parameter, "w">: 'tensor<4xf32>', 'tensor<8xf32>'}}
  func.func @update(%w: tensor<8xf32> {dtc.role = #dtc.role<parameter, "w">}) attributes {dtc.runs = #dtc.runs<step>} {
    return
  }
  exec.schedule microbatches 1 {
  }
}

// -----

module {
  func.func @forward(%x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4xf32> {dtc.role = #dtc.role<output, "y">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    // expected-error @below {{can't be executed: math.exp}}
    %0 = math.exp %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  exec.schedule microbatches 1 {
    exec.call @forward microbatch 0 slot 0
  }
}

// -----

module {
  func.func @forward(%x: tensor<4x4xf64> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4x4xf64> {dtc.role = #dtc.role<output, "y">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    // expected-error @below {{the library can't compute it for these types and shapes: no library product of this element type}}
    %0 = exec.matmul %x, %x batch [] mnk [4, 4, 4] strides [4, 1], [4, 1] -> [4, 1] offsets [0, 0] : tensor<4x4xf64>, tensor<4x4xf64> -> tensor<4x4xf64>
    return %0 : tensor<4x4xf64>
  }
  exec.schedule microbatches 1 {
    exec.call @forward microbatch 0 slot 0
  }
}

// -----

module {
  // expected-error @below {{results exchange the places of arguments}}
  func.func @update(%a: tensor<4xf32> {dtc.role = #dtc.role<parameter, "a">},
                    %b: tensor<4xf32> {dtc.role = #dtc.role<parameter, "b">})
      -> (tensor<4xf32> {dtc.role = #dtc.role<parameter, "a">},
          tensor<4xf32> {dtc.role = #dtc.role<parameter, "b">}) attributes {dtc.runs = #dtc.runs<step>} {
    return %b, %a : tensor<4xf32>, tensor<4xf32>
  }
  exec.schedule microbatches 1 {
    exec.call @update microbatch 0 slot 0
  }
}

// -----

module {
  func.func @loss_and_grads(%x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">}) attributes {dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    return
  }
  // expected-error @below {{takes once a step what each microbatch has its own of: #dtc.role<input, "x">}}
  func.func @update(%x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">}) attributes {dtc.runs = #dtc.runs<step>} {
    return
  }
  exec.schedule microbatches 2 {
  }
}
