// RUN: dtc-opt %s -split-input-file -verify-diagnostics

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{kernel is not declared: @k}}
  %0 = exec.launch @k(%x) extent 4 in_place [-1] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

exec.kernel @k extent 4 scratch 0 {
^bb0(%a: tensor<4xf32>):
  exec.yield %a : tensor<4xf32>
}
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{kernel k has extent 4, the launch: 8}}
  %0 = exec.launch @k(%x) extent 8 in_place [-1] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

exec.kernel @k extent 4 scratch 0 {
^bb0(%a: tensor<4xf32>):
  exec.yield %a : tensor<4xf32>
}
func.func @f(%x: tensor<8xf32>) {
  // expected-error @+1 {{kernel k has operands of type 'tensor<4xf32>', the launch: 'tensor<8xf32>'}}
  %0 = exec.launch @k(%x) extent 4 in_place [-1] : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

exec.kernel @k extent 4 scratch 0 flat {
^bb0(%a: tensor<4xf32>):
  exec.yield %a : tensor<4xf32>
}
func.func @f(%x: tensor<8xf32>) {
  // expected-error @+1 {{kernel k has results of type 'tensor<4xf32>', the launch: 'tensor<8xf64>'}}
  %0 = exec.launch @k(%x) extent 8 in_place [-1] : (tensor<8xf32>) -> tensor<8xf64>
  return
}

// -----

exec.kernel @k extent 1 scratch 0 flat {
^bb0(%a: tensor<1xf32>):
  exec.yield %a : tensor<1xf32>
}
func.func @f(%x: tensor<8xf32>) {
  // expected-error @+1 {{kernel k has extent 1, the launch: 8}}
  %0 = exec.launch @k(%x) extent 8 in_place [-1] : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

exec.kernel @k extent 4 scratch 0 {
^bb0(%a: tensor<4xf32>):
  exec.yield %a : tensor<4xf32>
}
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{kernel k has 1 operands, the launch: 2}}
  %0 = exec.launch @k(%x, %x) extent 4 in_place [-1] : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

exec.kernel @k extent 4 scratch 0 {
^bb0(%a: tensor<4xf32>):
  exec.yield %a : tensor<4xf32>
}
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{in_place names no operand: 1}}
  %0 = exec.launch @k(%x) extent 4 in_place [1] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

exec.kernel @k extent 4 scratch 0 {
^bb0(%a: tensor<4xf32>):
  exec.yield %a : tensor<4xf32>
}
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{in_place needs an entry for each of 1 results, got: 0}}
  %0 = exec.launch @k(%x) extent 4 in_place [] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error @+1 {{scratch is negative: -1}}
exec.kernel @k extent 4 scratch -1 {
^bb0(%a: tensor<4xf32>):
  exec.yield %a : tensor<4xf32>
}

// -----

func.func private @g(tensor<4xf32>)
// expected-error @+1 {{body may not have side effects, got: func.call}}
exec.kernel @k extent 4 scratch 0 {
^bb0(%a: tensor<4xf32>):
  func.call @g(%a) : (tensor<4xf32>) -> ()
  exec.yield %a : tensor<4xf32>
}

// -----

// expected-error @+1 {{operands must be tensors of static shape, got: 'f32'}}
exec.kernel @k extent 4 scratch 0 {
^bb0(%a: f32):
  exec.yield
}

// -----

// expected-error @below {{replaces no operand: 1}}
exec.kernel @k extent 4 scratch 0 replaces [1] {
^bb0(%a: tensor<4xf32>):
  %0 = math.exp %a : tensor<4xf32>
  exec.yield %0 : tensor<4xf32>
}

// -----

func.func @all(%x: tensor<4xf32>) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
  return
}
// expected-error @+1 {{stands for a function of another type: @all}}
func.func @last(%x: tensor<8xf32>) attributes {dtc.runs = #dtc.runs<microbatch, forward>, exec.last_of = @all} {
  return
}

// -----

// expected-error @+1 {{stands for what is no function of other microbatches: @last}}
func.func @last() attributes {dtc.runs = #dtc.runs<microbatch, forward>, exec.last_of = @last} {
  return
}

// -----

func.func @all() attributes {dtc.runs = #dtc.runs<step>} {
  return
}
// expected-error @+1 {{stands for a function, but both must run for each microbatch: @all}}
func.func @last() attributes {dtc.runs = #dtc.runs<microbatch, forward>, exec.last_of = @all} {
  return
}

// -----

// expected-error @+1 {{exec.last_of must be on a function and name one, got: "all"}}
func.func @last() attributes {exec.last_of = "all"} {
  return
}

// -----

func.func @f(%x: tensor<2x3x8x8xf32>, %dy: tensor<2x6x8x4xf32>, %before: tensor<6x3x3x3xf32>) -> tensor<6x3x3x3xf32> {
  // expected-error @below {{dimension 2 must have 4 windows: 8}}
  %0 = exec.conv_weight_grad %x, %dy with %before strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] groups 1 : tensor<2x3x8x8xf32>, tensor<2x6x8x4xf32> -> tensor<6x3x3x3xf32>
  return %0 : tensor<6x3x3x3xf32>
}

// -----

func.func @f(%x: tensor<2x3x8x8xf32>, %dy: tensor<2x6x4x4xf32>, %before: tensor<162xf32>) -> tensor<6x3x3x3xf32> {
  // expected-error @below {{failed to verify that all of {before, result} have same type}}
  %0 = "exec.conv_weight_grad"(%x, %dy, %before) <{dilations = array<i64: 1, 1>, groups = 1 : i64, padHigh = array<i64: 1, 1>, padLow = array<i64: 1, 1>, strides = array<i64: 2, 2>}> : (tensor<2x3x8x8xf32>, tensor<2x6x4x4xf32>, tensor<162xf32>) -> tensor<6x3x3x3xf32>
  return %0 : tensor<6x3x3x3xf32>
}
