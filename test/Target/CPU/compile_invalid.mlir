// RUN: dtc-opt %s -split-input-file -verify-diagnostics --test-run-kernels

exec.kernel @contraction extent 4 scratch 0 {
^bb0(%x: tensor<4x4xf32>):
  // expected-error @+1 {{cannot be part of a kernel}}
  %0 = dtc.contract %x [0, 1], %x [1, 2] -> [0, 2] : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  exec.yield %0 : tensor<4x4xf32>
}

// -----

// expected-error @+1 {{extent differs from that of its loops: 16}}
exec.kernel @extent extent 4 scratch 0 {
^bb0(%x: tensor<4x4xf32>):
  %0 = arith.negf %x : tensor<4x4xf32>
  exec.yield %0 : tensor<4x4xf32>
}

// -----

// expected-error @+1 {{scratch is too small, its loops need 64}}
exec.kernel @scratch extent 4 scratch 0 {
^bb0(%x: tensor<4x4xf32>):
  %0 = math.exp %x : tensor<4x4xf32>
  %1 = dtc.reduce sum %0 [1] : tensor<4x4xf32> -> tensor<4xf32>
  %2 = dtc.broadcast %1 [0] : tensor<4xf32> -> tensor<4x4xf32>
  %3 = arith.mulf %0, %2 : tensor<4x4xf32>
  exec.yield %3 : tensor<4x4xf32>
}

// -----

// expected-error @+1 {{is not elementwise but marked flat}}
exec.kernel @flat extent 16 scratch 0 flat {
^bb0(%x: tensor<16xf32>, %y: tensor<2x8xf32>):
  %0 = dtc.slice %y offsets [0, 0] strides [1, 1] : tensor<2x8xf32> -> tensor<1x8xf32>
  %1 = dtc.reshape %0 : tensor<1x8xf32> -> tensor<8xf32>
  %2 = dtc.concat 0 (%1, %1) : tensor<8xf32>, tensor<8xf32> -> tensor<16xf32>
  %3 = arith.addf %x, %2 : tensor<16xf32>
  exec.yield %3 : tensor<16xf32>
}

// -----

exec.kernel @rows extent 4 scratch 0 {
^bb0(%x: tensor<4x32xf32>, %y: tensor<64x3xf32>):
  %0 = dtc.reduce sum %x [1] : tensor<4x32xf32> -> tensor<4xf32>
  // expected-error @+1 {{does not reduce the same rows as the kernel's other reductions}}
  %1 = dtc.reduce sum %y [0] : tensor<64x3xf32> -> tensor<3xf32>
  exec.yield %0, %1 : tensor<4xf32>, tensor<3xf32>
}

// -----

exec.kernel @buckets extent 1 scratch 0 {
^bb0(%i: tensor<5xi64>):
  // expected-error @+1 {{buckets of indices are for GPUs alone}}
  %0 = dtc.bucket_indices %i rows 9 of 3 : tensor<5xi64> -> tensor<3x6xi32>
  exec.yield %0 : tensor<3x6xi32>
}
