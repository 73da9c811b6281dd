// RUN: dtc-opt %s -split-input-file -dtc-interpret -verify-diagnostics

func.func @main() -> tensor<2xi64> {
  %a = arith.constant dense<[1, 2]> : tensor<2xi64>
  %b = arith.constant dense<[1, 0]> : tensor<2xi64>
  // expected-error @+1 {{divides by zero at element 1}}
  %0 = arith.divsi %a, %b : tensor<2xi64>
  return %0 : tensor<2xi64>
}

// -----

// expected-error @+1 {{no such function: main}}
module {}

// -----

// expected-error @+1 {{no inputs can be drawn of this type: 'f32'}}
func.func @main(%x: f32) {
  return
}

// -----

// expected-error @+1 {{must have one block to be interpreted}}
func.func private @other()
func.func @main() {
  call @other() : () -> ()
  return
}

// -----

// expected-error @+1 {{is called too deep in other functions}}
func.func @main() {
  call @main() : () -> ()
  return
}

// -----

dist.mesh @mesh ["x" = 2]
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{needs a mesh to be interpreted}}
  %0 = dist.all_reduce sum %x on @mesh {"x"} : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @main(%x: tensor<2xf32>) -> tensor<2xi32> {
  // expected-error @+1 {{is not interpreted}}
  %0 = arith.bitcast %x : tensor<2xf32> to tensor<2xi32>
  return %0 : tensor<2xi32>
}
