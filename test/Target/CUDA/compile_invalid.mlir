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

// -----

// Joined parts that aren't those of a tensor: the second part of the first piece is missing.
// expected-error @+1 {{only sums of arithmetic element by element can be joined}}
exec.kernel @parts extent 1250 scratch 0 flat geometry <blocks = 2, threads = 256> pieces 2 {
^bb0(%x: tensor<4096xf32>, %y: tensor<8xf32>):
  %0 = dtc.pad %x low [0] interior [0] value 0.0 : tensor<4096xf32> -> tensor<8192xf32>
  %1 = dtc.reshape %0 : tensor<8192xf32> -> tensor<2x4096xf32>
  %2 = dtc.reduce sum %1 [1] : tensor<2x4096xf32> -> tensor<2xf32>
  %3 = dtc.pad %y low [0] interior [0] value 0.0 : tensor<8xf32> -> tensor<4096xf32>
  %4 = dtc.reshape %3 : tensor<4096xf32> -> tensor<1x4096xf32>
  %5 = dtc.reduce sum %4 [1] : tensor<1x4096xf32> -> tensor<1xf32>
  %6 = dtc.concat 0(%2, %5) : tensor<2xf32>, tensor<1xf32> -> tensor<3xf32>
  exec.yield %6 : tensor<3xf32>
}

// -----

// Threads share parts of 2,048 elements or a power of two times as many.
// expected-error @+1 {{has parts that threads can't share: 6144}}
exec.kernel @share extent 2 scratch 0 flat geometry <blocks = 2, threads = 256> pieces 2 {
^bb0(%x: tensor<8xf32>, %y: tensor<8xf32>):
  %0 = dtc.pad %x low [0] interior [0] value 0.0 : tensor<8xf32> -> tensor<6144xf32>
  %1 = dtc.reshape %0 : tensor<6144xf32> -> tensor<1x6144xf32>
  %2 = dtc.reduce sum %1 [1] : tensor<1x6144xf32> -> tensor<1xf32>
  %3 = dtc.pad %y low [0] interior [0] value 0.0 : tensor<8xf32> -> tensor<6144xf32>
  %4 = dtc.reshape %3 : tensor<6144xf32> -> tensor<1x6144xf32>
  %5 = dtc.reduce sum %4 [1] : tensor<1x6144xf32> -> tensor<1xf32>
  %6 = dtc.concat 0(%2, %5) : tensor<1xf32>, tensor<1xf32> -> tensor<2xf32>
  exec.yield %6 : tensor<2xf32>
}

// -----

// A maximum isn't added up.
// expected-error @+1 {{only sums of arithmetic element by element can be joined}}
exec.kernel @maxima extent 2 scratch 0 flat geometry <blocks = 2, threads = 256> pieces 2 {
^bb0(%x: tensor<8xf32>, %y: tensor<8xf32>):
  %0 = dtc.pad %x low [0] interior [0] value 0.0 : tensor<8xf32> -> tensor<4096xf32>
  %1 = dtc.reshape %0 : tensor<4096xf32> -> tensor<1x4096xf32>
  %2 = dtc.reduce max %1 [1] : tensor<1x4096xf32> -> tensor<1xf32>
  %3 = dtc.pad %y low [0] interior [0] value 0.0 : tensor<8xf32> -> tensor<4096xf32>
  %4 = dtc.reshape %3 : tensor<4096xf32> -> tensor<1x4096xf32>
  %5 = dtc.reduce max %4 [1] : tensor<1x4096xf32> -> tensor<1xf32>
  %6 = dtc.concat 0(%2, %5) : tensor<1xf32>, tensor<1xf32> -> tensor<2xf32>
  exec.yield %6 : tensor<2xf32>
}

// -----

// Tensor cores multiply halves.
exec.kernel @products extent 128 scratch 0 geometry <blocks = 2, threads = 256> {
^bb0(%x: tensor<2x8x16xf32>, %w: tensor<3x16x8xf32>, %c: tensor<2xi64>):
  // expected-error @+1 {{has operands that tensor cores don't multiply}}
  %0 = exec.grouped_matmul %x, %w by %c batch [2] mnk [8, 8, 16] of 3 experts [0, 128, 0] strides [128, 16, 1], [0, 8, 1] -> [64, 8, 1] : tensor<2x8x16xf32>, tensor<3x16x8xf32>, tensor<2xi64> -> tensor<2x8x8xf32>
  exec.yield %0 : tensor<2x8x8xf32>
}

// -----

exec.kernel @copied extent 128 scratch 0 geometry <blocks = 2, threads = 256> {
^bb0(%x: tensor<2x8x16xbf16>, %w: tensor<3x16x8xbf16>, %c: tensor<2xi64>):
  %y = arith.negf %x : tensor<2x8x16xbf16>
  // expected-error @+1 {{must be the only op of its kernel}}
  %0 = exec.grouped_matmul %y, %w by %c batch [2] mnk [8, 8, 16] of 3 experts [0, 128, 0] strides [128, 16, 1], [0, 8, 1] -> [64, 8, 1] : tensor<2x8x16xbf16>, tensor<3x16x8xbf16>, tensor<2xi64> -> tensor<2x8x8xbf16>
  exec.yield %0 : tensor<2x8x8xbf16>
}
