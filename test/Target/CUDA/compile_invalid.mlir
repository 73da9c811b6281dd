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

// -----

// Pieces that differ in more than their size.
exec.kernel @unlike extent 64 scratch 0 flat geometry <blocks = 2, threads = 256> pieces 2 {
^bb0(%x: tensor<512xf32>, %y: tensor<64xf32>, %s: tensor<f32>):
  %0 = arith.addf %x, %x : tensor<512xf32>
  // expected-error @+1 {{differs from that of the first piece of its kernel}}
  %1 = arith.mulf %y, %y : tensor<64xf32>
  exec.yield %0, %1 : tensor<512xf32>, tensor<64xf32>
}

// -----

// A piece that reads another one's operand.
exec.kernel @across extent 64 scratch 0 flat geometry <blocks = 2, threads = 256> pieces 2 {
^bb0(%x: tensor<512xf32>, %y: tensor<512xf32>, %z: tensor<512xf32>, %w: tensor<512xf32>):
  %0 = arith.addf %x, %y : tensor<512xf32>
  // expected-error @+1 {{differs from that of the first piece of its kernel}}
  %1 = arith.addf %w, %z : tensor<512xf32>
  exec.yield %0, %1 : tensor<512xf32>, tensor<512xf32>
}

// -----

// expected-error @+1 {{has an operand unlike that of its first piece: 1}}
exec.kernel @types extent 64 scratch 0 flat geometry <blocks = 2, threads = 256> pieces 2 {
^bb0(%x: tensor<512xf32>, %y: tensor<64xf64>):
  %0 = arith.addf %x, %x : tensor<512xf32>
  %1 = arith.addf %y, %y : tensor<64xf64>
  exec.yield %0, %1 : tensor<512xf32>, tensor<64xf64>
}
