// RUN: dtc-opt --target=cuda %s --split-input-file --test-emit-ptx --verify-diagnostics -o /dev/null

// A function that a GPU has no form of yet.
exec.kernel @arc extent 4 scratch 0 geometry <blocks = 1, threads = 32> {
^bb0(%x: tensor<4xf32>):
  // expected-error @+1 {{cannot be computed on a GPU yet: math.erfc}}
  %0 = math.erfc %x : tensor<4xf32>
  exec.yield %0 : tensor<4xf32>
}

// -----

// A geometry that isn't the one its code is made for.
// expected-error @+1 {{geometry differs from that of its threads: 1 blocks of 32}}
exec.kernel @other extent 4 scratch 0 geometry <blocks = 2, threads = 32> {
^bb0(%x: tensor<4xf32>):
  %0 = arith.addf %x, %x : tensor<4xf32>
  exec.yield %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{geometry differs}}
exec.kernel @none extent 4 scratch 0 {
^bb0(%x: tensor<4xf32>):
  %0 = arith.addf %x, %x : tensor<4xf32>
  exec.yield %0 : tensor<4xf32>
}
