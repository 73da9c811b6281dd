// RUN: dtc-opt --dtc-train="hidden-ways=3 hidden-multiple=3" %s --split-input-file | FileCheck %s
// RUN: dtc-opt --dtc-train="hidden-ways=2 hidden-multiple=2" %s --split-input-file | FileCheck --check-prefix=DIVIDES %s
// The plan whose padding this is had none of these dimensions, or one of each.
// RUN: dtc-opt --dtc-train="hidden-ways=3 hidden-multiple=3 hidden-of-some hidden-among=1:gate" %s --split-input-file | FileCheck --check-prefix=DIVIDES %s
// RUN: dtc-opt --dtc-train="hidden-ways=3 hidden-multiple=3 hidden-of-some hidden-among=1:up,0:gate" %s --split-input-file | FileCheck %s
// Adam would divide 0 by 0.
// RUN: dtc-opt --dtc-train="hidden-ways=3 hidden-multiple=3 optimizer=adam eps=0" %s --split-input-file | FileCheck --check-prefix=DIVIDES %s
// RUN: dtc-opt --dtc-train="hidden-ways=40 hidden-multiple=40" %s --split-input-file | FileCheck --check-prefix=TOO-MANY %s

// Both weights and the bias get a column that no file has, and the state of the optimizer with them. The constant, which
// something else could read, is made anew.
// CHECK:       dtc.parameter trainable @up : tensor<8x129xf32> file tensor<8x128xf32>
// CHECK:       dtc.parameter trainable @bias : tensor<129xf32> file tensor<128xf32>
// CHECK:       dtc.parameter trainable @down : tensor<4x129xf32> file tensor<4x128xf32>
// CHECK-LABEL: func.func @loss_and_grads(
// CHECK:         %[[SUM:.*]] = arith.addf {{.*}} : tensor<4x129xf32>
// CHECK:         %[[HALF:.*]] = arith.constant {{.*}}dense<5.000000e-01> : tensor<4x129xf32>
// CHECK:         %[[SCALED:.*]] = arith.mulf %[[SUM]], %[[HALF]]
// CHECK:         %[[ACT:.*]] = dtc.activation gelu %[[SCALED]] {{.*}} : tensor<4x129xf32>
// CHECK:         dtc.contract %[[ACT]] [0, 2], %{{.*}} [1, 2] -> [0, 1] {{.*}} -> tensor<4x4xf32>
// CHECK-LABEL: func.func @update(
// CHECK-SAME:    tensor<8x129xf32> {dtc.role = #dtc.role<state, "up", exp_avg>}

// DIVIDES: dtc.parameter trainable @up : tensor<8x128xf32> file tensor<8x128xf32>
// DIVIDES: dtc.parameter trainable @down : tensor<4x128xf32> file tensor<4x128xf32>

// 160 features would be a quarter more.
// TOO-MANY: dtc.parameter trainable @up : tensor<8x128xf32> file tensor<8x128xf32>
module {
  dtc.parameter trainable @up : tensor<8x128xf32> file tensor<8x128xf32>
  dtc.parameter trainable @bias : tensor<128xf32> file tensor<128xf32>
  dtc.parameter trainable @down : tensor<4x128xf32> file tensor<4x128xf32>
  func.func @forward(
      %up: tensor<8x128xf32> {dtc.role = #dtc.role<parameter, "up">},
      %bias: tensor<128xf32> {dtc.role = #dtc.role<parameter, "bias">},
      %down: tensor<4x128xf32> {dtc.role = #dtc.role<parameter, "down">},
      %x: tensor<4x8xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4x4xf32> {dtc.role = #dtc.role<output, "y">}) {
    %half = arith.constant dense<0.5> : tensor<4x128xf32>
    %0 = dtc.contract %x [0, 2], %up [2, 1] -> [0, 1] : tensor<4x8xf32>, tensor<8x128xf32> -> tensor<4x128xf32>
    %1 = dtc.broadcast %bias [1] : tensor<128xf32> -> tensor<4x128xf32>
    %2 = arith.addf %0, %1 : tensor<4x128xf32>
    %3 = arith.mulf %2, %half : tensor<4x128xf32>
    %4 = dtc.activation gelu %3 : tensor<4x128xf32>
    %5 = dtc.contract %4 [0, 2], %down [1, 2] -> [0, 1] : tensor<4x128xf32>, tensor<4x128xf32> -> tensor<4x4xf32>
    return %5 : tensor<4x4xf32>
  }
}

// -----

// A sigmoid makes 0.5 of zeros, which a product with zeros makes zeros of again.
// CHECK: dtc.parameter trainable @gate : tensor<129x8xf32> file tensor<128x8xf32>
// CHECK: dtc.parameter trainable @up : tensor<129x8xf32> file tensor<128x8xf32>
// CHECK: dtc.parameter trainable @down : tensor<129x4xf32> file tensor<128x4xf32>
module {
  dtc.parameter trainable @gate : tensor<128x8xf32> file tensor<128x8xf32>
  dtc.parameter trainable @up : tensor<128x8xf32> file tensor<128x8xf32>
  dtc.parameter trainable @down : tensor<128x4xf32> file tensor<128x4xf32>
  func.func @forward(
      %gate: tensor<128x8xf32> {dtc.role = #dtc.role<parameter, "gate">},
      %up: tensor<128x8xf32> {dtc.role = #dtc.role<parameter, "up">},
      %down: tensor<128x4xf32> {dtc.role = #dtc.role<parameter, "down">},
      %x: tensor<4x8xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4x4xf32> {dtc.role = #dtc.role<output, "y">}) {
    %0 = dtc.contract %x [0, 2], %gate [1, 2] -> [0, 1] : tensor<4x8xf32>, tensor<128x8xf32> -> tensor<4x128xf32>
    %1 = dtc.activation sigmoid %0 : tensor<4x128xf32>
    %2 = dtc.contract %x [0, 2], %up [1, 2] -> [0, 1] : tensor<4x8xf32>, tensor<128x8xf32> -> tensor<4x128xf32>
    %3 = arith.mulf %1, %2 : tensor<4x128xf32>
    %4 = dtc.contract %3 [0, 2], %down [2, 1] -> [0, 1] : tensor<4x128xf32>, tensor<128x4xf32> -> tensor<4x4xf32>
    return %4 : tensor<4x4xf32>
  }
}

// -----

// A sigmoid alone would have the second weight learn.
// CHECK: dtc.parameter trainable @up : tensor<128x8xf32> file tensor<128x8xf32>
module {
  dtc.parameter trainable @up : tensor<128x8xf32> file tensor<128x8xf32>
  dtc.parameter trainable @down : tensor<128x4xf32> file tensor<128x4xf32>
  func.func @forward(
      %up: tensor<128x8xf32> {dtc.role = #dtc.role<parameter, "up">},
      %down: tensor<128x4xf32> {dtc.role = #dtc.role<parameter, "down">},
      %x: tensor<4x8xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4x4xf32> {dtc.role = #dtc.role<output, "y">}) {
    %0 = dtc.contract %x [0, 2], %up [1, 2] -> [0, 1] : tensor<4x8xf32>, tensor<128x8xf32> -> tensor<4x128xf32>
    %1 = dtc.activation sigmoid %0 : tensor<4x128xf32>
    %2 = dtc.contract %1 [0, 2], %down [2, 1] -> [0, 1] : tensor<4x128xf32>, tensor<128x4xf32> -> tensor<4x4xf32>
    return %2 : tensor<4x4xf32>
  }
}

// -----

// A softmax would give zeros a share.
// CHECK: dtc.parameter trainable @up : tensor<128x8xf32> file tensor<128x8xf32>
module {
  dtc.parameter trainable @up : tensor<128x8xf32> file tensor<128x8xf32>
  dtc.parameter trainable @down : tensor<128x4xf32> file tensor<128x4xf32>
  func.func @forward(
      %up: tensor<128x8xf32> {dtc.role = #dtc.role<parameter, "up">},
      %down: tensor<128x4xf32> {dtc.role = #dtc.role<parameter, "down">},
      %x: tensor<4x8xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4x4xf32> {dtc.role = #dtc.role<output, "y">}) {
    %0 = dtc.contract %x [0, 2], %up [1, 2] -> [0, 1] : tensor<4x8xf32>, tensor<128x8xf32> -> tensor<4x128xf32>
    %1 = dtc.softmax %0 1 : tensor<4x128xf32>
    %2 = dtc.contract %1 [0, 2], %down [2, 1] -> [0, 1] : tensor<4x128xf32>, tensor<128x4xf32> -> tensor<4x4xf32>
    return %2 : tensor<4x4xf32>
  }
}

// -----

// Something else reads the features.
// CHECK: dtc.parameter trainable @up : tensor<128x8xf32> file tensor<128x8xf32>
module {
  dtc.parameter trainable @up : tensor<128x8xf32> file tensor<128x8xf32>
  dtc.parameter trainable @down : tensor<128x4xf32> file tensor<128x4xf32>
  func.func @forward(
      %up: tensor<128x8xf32> {dtc.role = #dtc.role<parameter, "up">},
      %down: tensor<128x4xf32> {dtc.role = #dtc.role<parameter, "down">},
      %x: tensor<4x8xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4x4xf32> {dtc.role = #dtc.role<output, "logits">}) {
    %0 = dtc.contract %x [0, 2], %up [1, 2] -> [0, 1] : tensor<4x8xf32>, tensor<128x8xf32> -> tensor<4x128xf32>
    %1 = dtc.activation relu %0 : tensor<4x128xf32>
    %2 = dtc.contract %1 [0, 2], %down [2, 1] -> [0, 1] : tensor<4x128xf32>, tensor<128x4xf32> -> tensor<4x4xf32>
    %3 = dtc.reduce max %0 [1] : tensor<4x128xf32> -> tensor<4xf32>
    %4 = dtc.broadcast %3 [0] : tensor<4xf32> -> tensor<4x4xf32>
    %5 = arith.addf %2, %4 : tensor<4x4xf32>
    return %5 : tensor<4x4xf32>
  }
}
