// Heads that can't be padded exactly: nothing becomes longer.
// RUN: dtc-opt --dtc-train="hidden-ways=3 hidden-multiple=3 hidden-is-priced" %s --split-input-file | FileCheck %s
// CHECK-NOT: dtc.filled

// What is normalized over all heads would be divided by more of them.
// CHECK: dtc.parameter trainable @q : tensor<4x2x8xf32> file tensor<8x8xf32>
module {
  dtc.parameter trainable @q : tensor<4x2x8xf32> file tensor<8x8xf32>
  dtc.parameter trainable @out : tensor<8x4x2xf32> file tensor<8x8xf32>
  func.func @forward(
      %q: tensor<4x2x8xf32> {dtc.role = #dtc.role<parameter, "q">},
      %out: tensor<8x4x2xf32> {dtc.role = #dtc.role<parameter, "out">},
      %x: tensor<2x4x8xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<2x4x8xf32> {dtc.role = #dtc.role<output, "y">}) {
    %0 = dtc.contract %x [0, 1, 4], %q [2, 3, 4] -> [0, 1, 2, 3] : tensor<2x4x8xf32>, tensor<4x2x8xf32> -> tensor<2x4x4x2xf32>
    %1 = dtc.reshape %0 : tensor<2x4x4x2xf32> -> tensor<2x4x8xf32>
    %2, %rstd = dtc.rms_norm %1 eps 1.0e-6 : tensor<2x4x8xf32> -> tensor<2x4x8xf32>, tensor<2x4xf32>
    %3 = dtc.reshape %2 : tensor<2x4x8xf32> -> tensor<2x4x4x2xf32>
    %4, %lse = dtc.attention %3, %0, %0 scale 5.0e-01 : tensor<2x4x4x2xf32>, tensor<2x4x4x2xf32>, tensor<2x4x4x2xf32> -> tensor<2x4x4x2xf32>, tensor<2x4x4xf32>
    %5 = dtc.contract %4 [0, 1, 3, 4], %out [2, 3, 4] -> [0, 1, 2] : tensor<2x4x4x2xf32>, tensor<8x4x2xf32> -> tensor<2x4x8xf32>
    return %5 : tensor<2x4x8xf32>
  }
}

// -----

// Rows of zeros have no root to be divided by.
// CHECK: dtc.parameter trainable @q : tensor<4x2x8xf32> file tensor<8x8xf32>
module {
  dtc.parameter trainable @q : tensor<4x2x8xf32> file tensor<8x8xf32>
  dtc.parameter trainable @out : tensor<8x4x2xf32> file tensor<8x8xf32>
  func.func @forward(
      %q: tensor<4x2x8xf32> {dtc.role = #dtc.role<parameter, "q">},
      %out: tensor<8x4x2xf32> {dtc.role = #dtc.role<parameter, "out">},
      %x: tensor<2x4x8xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<2x4x8xf32> {dtc.role = #dtc.role<output, "y">}) {
    %0 = dtc.contract %x [0, 1, 4], %q [2, 3, 4] -> [0, 1, 2, 3] : tensor<2x4x8xf32>, tensor<4x2x8xf32> -> tensor<2x4x4x2xf32>
    %1, %rstd = dtc.rms_norm %0 eps 0.0 : tensor<2x4x4x2xf32> -> tensor<2x4x4x2xf32>, tensor<2x4x4xf32>
    %2, %lse = dtc.attention %1, %0, %0 scale 5.0e-01 : tensor<2x4x4x2xf32>, tensor<2x4x4x2xf32>, tensor<2x4x4x2xf32> -> tensor<2x4x4x2xf32>, tensor<2x4x4xf32>
    %3 = dtc.contract %2 [0, 1, 3, 4], %out [2, 3, 4] -> [0, 1, 2] : tensor<2x4x4x2xf32>, tensor<8x4x2xf32> -> tensor<2x4x8xf32>
    return %3 : tensor<2x4x8xf32>
  }
}

// -----

// Values that a bias lifts from zero would have the output's weights learn: it is the same for all heads.
// CHECK: dtc.parameter trainable @v : tensor<4x2x8xf32> file tensor<8x8xf32>
module {
  dtc.parameter trainable @v : tensor<4x2x8xf32> file tensor<8x8xf32>
  dtc.parameter trainable @bias : tensor<2xf32> file tensor<2xf32>
  dtc.parameter trainable @out : tensor<8x4x2xf32> file tensor<8x8xf32>
  func.func @forward(
      %v: tensor<4x2x8xf32> {dtc.role = #dtc.role<parameter, "v">},
      %bias: tensor<2xf32> {dtc.role = #dtc.role<parameter, "bias">},
      %out: tensor<8x4x2xf32> {dtc.role = #dtc.role<parameter, "out">},
      %x: tensor<2x4x8xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<2x4x8xf32> {dtc.role = #dtc.role<output, "y">}) {
    %0 = dtc.contract %x [0, 1, 4], %v [2, 3, 4] -> [0, 1, 2, 3] : tensor<2x4x8xf32>, tensor<4x2x8xf32> -> tensor<2x4x4x2xf32>
    %1 = dtc.broadcast %bias [3] : tensor<2xf32> -> tensor<2x4x4x2xf32>
    %2 = arith.addf %0, %1 : tensor<2x4x4x2xf32>
    %3, %lse = dtc.attention %0, %0, %2 scale 5.0e-01 : tensor<2x4x4x2xf32>, tensor<2x4x4x2xf32>, tensor<2x4x4x2xf32> -> tensor<2x4x4x2xf32>, tensor<2x4x4xf32>
    %4 = dtc.contract %3 [0, 1, 3, 4], %out [2, 3, 4] -> [0, 1, 2] : tensor<2x4x4x2xf32>, tensor<8x4x2xf32> -> tensor<2x4x8xf32>
    return %4 : tensor<2x4x8xf32>
  }
}

// -----

// The heads' biases are read elsewhere, too.
// CHECK: dtc.parameter trainable @q : tensor<4x2x8xf32> file tensor<8x8xf32>
module {
  dtc.parameter trainable @q : tensor<4x2x8xf32> file tensor<8x8xf32>
  dtc.parameter trainable @table : tensor<5x4xf32> file tensor<5x4xf32>
  dtc.parameter trainable @out : tensor<8x4x2xf32> file tensor<8x8xf32>
  func.func @forward(
      %q: tensor<4x2x8xf32> {dtc.role = #dtc.role<parameter, "q">},
      %table: tensor<5x4xf32> {dtc.role = #dtc.role<parameter, "table">},
      %out: tensor<8x4x2xf32> {dtc.role = #dtc.role<parameter, "out">},
      %x: tensor<2x4x8xf32> {dtc.role = #dtc.role<input, "x">},
      %places: tensor<4x4xi64> {dtc.role = #dtc.role<input, "places">})
      -> (tensor<2x4x8xf32> {dtc.role = #dtc.role<output, "y">}) {
    %0 = dtc.contract %x [0, 1, 4], %q [2, 3, 4] -> [0, 1, 2, 3] : tensor<2x4x8xf32>, tensor<4x2x8xf32> -> tensor<2x4x4x2xf32>
    %1 = dtc.gather %table, %places axis 0 : tensor<5x4xf32>, tensor<4x4xi64> -> tensor<4x4x4xf32>
    %2 = dtc.transpose %1 [2, 0, 1] : tensor<4x4x4xf32> -> tensor<4x4x4xf32>
    %3 = dtc.broadcast %2 [1, 2, 3] : tensor<4x4x4xf32> -> tensor<2x4x4x4xf32>
    %4, %lse = dtc.attention %0, %0, %0 bias %3 : tensor<2x4x4x4xf32> scale 5.0e-01 : tensor<2x4x4x2xf32>, tensor<2x4x4x2xf32>, tensor<2x4x4x2xf32> -> tensor<2x4x4x2xf32>, tensor<2x4x4xf32>
    %5 = dtc.contract %4 [0, 1, 3, 4], %out [2, 3, 4] -> [0, 1, 2] : tensor<2x4x4x2xf32>, tensor<8x4x2xf32> -> tensor<2x4x8xf32>
    %6 = dtc.reduce sum %3 [1, 2, 3] : tensor<2x4x4x4xf32> -> tensor<2xf32>
    %7 = dtc.broadcast %6 [0] : tensor<2xf32> -> tensor<2x4x8xf32>
    %8 = arith.addf %5, %7 : tensor<2x4x8xf32>
    return %8 : tensor<2x4x8xf32>
  }
}

// -----

// Dropout draws by the index in the sample. More heads inside of it would change that of other elements.
// CHECK: dtc.parameter trainable @q : tensor<4x2x8xf32> file tensor<8x8xf32>
module {
  dtc.parameter trainable @q : tensor<4x2x8xf32> file tensor<8x8xf32>
  dtc.parameter trainable @out : tensor<8x4x2xf32> file tensor<8x8xf32>
  func.func @forward(
      %q: tensor<4x2x8xf32> {dtc.role = #dtc.role<parameter, "q">},
      %out: tensor<8x4x2xf32> {dtc.role = #dtc.role<parameter, "out">},
      %x: tensor<2x4x8xf32> {dtc.role = #dtc.role<input, "x">},
      %keys: tensor<2xi64> {dtc.role = #dtc.role<input, "dropout_keys">})
      -> (tensor<2x4x8xf32> {dtc.role = #dtc.role<output, "y">}) {
    %0 = dtc.contract %x [0, 1, 4], %q [2, 3, 4] -> [0, 1, 2, 3] : tensor<2x4x8xf32>, tensor<4x2x8xf32> -> tensor<2x4x4x2xf32>
    %1 = dtc.contract %0 [0, 1, 2, 4], %0 [0, 3, 2, 4] -> [0, 1, 2, 3] : tensor<2x4x4x2xf32>, tensor<2x4x4x2xf32> -> tensor<2x4x4x4xf32>
    %2 = dtc.softmax %1 3 : tensor<2x4x4x4xf32>
    %3 = dtc.dropout %2 keys %keys : tensor<2xi64> ratio 1.0e-01 : tensor<2x4x4x4xf32>
    %4 = dtc.contract %3 [0, 1, 2, 4], %0 [0, 4, 2, 3] -> [0, 1, 2, 3] : tensor<2x4x4x4xf32>, tensor<2x4x4x2xf32> -> tensor<2x4x4x2xf32>
    %5 = dtc.contract %4 [0, 1, 3, 4], %out [2, 3, 4] -> [0, 1, 2] : tensor<2x4x4x2xf32>, tensor<8x4x2xf32> -> tensor<2x4x8xf32>
    return %5 : tensor<2x4x8xf32>
  }
}

// -----

// A softmax over the heads would have shares for those that are added.
// CHECK: dtc.parameter trainable @q : tensor<4x2x8xf32> file tensor<8x8xf32>
module {
  dtc.parameter trainable @q : tensor<4x2x8xf32> file tensor<8x8xf32>
  dtc.parameter trainable @out : tensor<8x4x2xf32> file tensor<8x8xf32>
  func.func @forward(
      %q: tensor<4x2x8xf32> {dtc.role = #dtc.role<parameter, "q">},
      %out: tensor<8x4x2xf32> {dtc.role = #dtc.role<parameter, "out">},
      %x: tensor<2x4x8xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<2x4x8xf32> {dtc.role = #dtc.role<output, "y">}) {
    %0 = dtc.contract %x [0, 1, 4], %q [2, 3, 4] -> [0, 1, 2, 3] : tensor<2x4x8xf32>, tensor<4x2x8xf32> -> tensor<2x4x4x2xf32>
    %1 = dtc.contract %0 [0, 2, 1, 4], %0 [0, 3, 1, 4] -> [0, 1, 2, 3] : tensor<2x4x4x2xf32>, tensor<2x4x4x2xf32> -> tensor<2x4x4x4xf32>
    %2 = dtc.softmax %1 1 : tensor<2x4x4x4xf32>
    %3 = dtc.contract %2 [0, 2, 1, 4], %0 [0, 4, 2, 3] -> [0, 1, 2, 3] : tensor<2x4x4x4xf32>, tensor<2x4x4x2xf32> -> tensor<2x4x4x2xf32>
    %4 = dtc.contract %3 [0, 1, 3, 4], %out [2, 3, 4] -> [0, 1, 2] : tensor<2x4x4x2xf32>, tensor<8x4x2xf32> -> tensor<2x4x8xf32>
    return %4 : tensor<2x4x8xf32>
  }
}
