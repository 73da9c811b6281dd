// RUN: dtc-opt %s --dtc-split-passes -split-input-file | FileCheck %s

// What is a smaller tensor repeated, or in another type, is made again: the slot has y in bf16 and the
// table of four numbers.
// CHECK-LABEL: func.func @forward(
// CHECK: %[[TABLE:.*]] = dtc.concat
// CHECK: %[[Y:.*]] = dtc.contract
// CHECK: return %{{.*}}, %[[TABLE]], %[[Y]] : tensor<8x4xbf16>, tensor<4xf32>, tensor<8x4xbf16>
// CHECK-LABEL: func.func @backward(
// CHECK: arith.truncf
// CHECK: arith.extf
module {
  dist.mesh @mesh ["tp" = 1]
  func.func @stage(
      %x: tensor<8x4xbf16> {dtc.role = #dtc.role<input, "x">},
      %w: tensor<4x4xbf16> {dtc.role = #dtc.role<parameter, "w">},
      %t: tensor<2xf32> {dtc.role = #dtc.role<parameter, "t">},
      %dz: tensor<8x4xbf16> {dtc.role = #dtc.role<inbox, "c">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      -> (tensor<8x4xbf16> {dtc.role = #dtc.role<outbox, "b">, dtc.runs = #dtc.runs<microbatch, forward>},
          tensor<8x4xbf16> {dtc.role = #dtc.role<outbox, "d">, dtc.runs = #dtc.runs<microbatch, input_grad>},
          tensor<8x4xf32> {dtc.role = #dtc.role<gradient, "w">})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    %table = dtc.concat 0(%t, %t) {dtc.id = 0 : i64} : tensor<2xf32>, tensor<2xf32> -> tensor<4xf32>
    %all = dtc.broadcast %table [1] {dtc.id = 1 : i64} : tensor<4xf32> -> tensor<8x4xf32>
    %half = arith.truncf %all {dtc.id = 2 : i64} : tensor<8x4xf32> to tensor<8x4xbf16>
    %y = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] {dtc.id = 3 : i64} : tensor<8x4xbf16>, tensor<4x4xbf16> -> tensor<8x4xbf16>
    %z = arith.mulf %y, %half {dtc.id = 4 : i64} : tensor<8x4xbf16>
    %wide = arith.extf %y {dtc.id = 5 : i64} : tensor<8x4xbf16> to tensor<8x4xf32>
    %dx = arith.mulf %dz, %half {dtc.backward = #dtc.backward<4, input_grad>} : tensor<8x4xbf16>
    %dwide = arith.extf %dz {dtc.backward = #dtc.backward<4, input_grad>} : tensor<8x4xbf16> to tensor<8x4xf32>
    %dw = arith.mulf %wide, %dwide {dtc.backward = #dtc.backward<3, weight_grad>} : tensor<8x4xf32>
    return %z, %dx, %dw : tensor<8x4xbf16>, tensor<8x4xbf16>, tensor<8x4xf32>
  }
}

// -----

// Gate and up are all of one product, which is kept as it is. What the backward pass computes again without
// a reader needs no slot: m isn't kept for it.
// CHECK-LABEL: func.func @forward(
// CHECK: %[[M:.*]] = dtc.contract %arg0
// CHECK: %[[BOTH:.*]] = dtc.contract %[[M]]
// CHECK: return %{{.*}}, %[[BOTH]] : tensor<8x4xf32>, tensor<8x8xf32>
// CHECK-LABEL: func.func @backward(
// CHECK-COUNT-2: dtc.slice
// CHECK-NOT: dtc.contract
module {
  dist.mesh @mesh ["tp" = 1]
  func.func @stage(
      %x: tensor<8x4xf32> {dtc.role = #dtc.role<input, "x">},
      %v: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "v">},
      %w: tensor<8x4xf32> {dtc.role = #dtc.role<parameter, "w">},
      %dh: tensor<8x4xf32> {dtc.role = #dtc.role<inbox, "c">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      -> (tensor<8x4xf32> {dtc.role = #dtc.role<outbox, "b">, dtc.runs = #dtc.runs<microbatch, forward>},
          tensor<8x4xf32> {dtc.role = #dtc.role<outbox, "d">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    %m = dtc.contract %x [0, 2], %v [1, 2] -> [0, 1] {dtc.id = 0 : i64} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %both = dtc.contract %m [0, 2], %w [1, 2] -> [0, 1] {dtc.id = 1 : i64} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x8xf32>
    %gate = dtc.slice %both offsets [0, 0] strides [1, 1] {dtc.id = 2 : i64} : tensor<8x8xf32> -> tensor<8x4xf32>
    %up = dtc.slice %both offsets [0, 4] strides [1, 1] {dtc.id = 3 : i64} : tensor<8x8xf32> -> tensor<8x4xf32>
    %h = arith.mulf %gate, %up {dtc.id = 4 : i64} : tensor<8x4xf32>
    %again = dtc.contract %m [0, 2], %v [1, 2] -> [0, 1] {dtc.backward = #dtc.backward<0, recompute>} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %unread = math.absf %again {dtc.backward = #dtc.backward<0, recompute>} : tensor<8x4xf32>
    %dup = arith.mulf %dh, %gate {dtc.backward = #dtc.backward<4, input_grad>} : tensor<8x4xf32>
    %dgate = arith.mulf %dh, %up {dtc.backward = #dtc.backward<4, input_grad>} : tensor<8x4xf32>
    %dx = arith.addf %dup, %dgate {dtc.backward = #dtc.backward<4, input_grad>} : tensor<8x4xf32>
    return %h, %dx : tensor<8x4xf32>, tensor<8x4xf32>
  }
}

// -----

// Of probabilities that the backward pass reads as a whole, a part needs no copy. Where the largest is comes
// from one number of a row: a byte for each element isn't kept for it.
// CHECK-LABEL: func.func @forward(
// CHECK: %[[P:.*]] = dtc.softmax
// CHECK: %[[PLACE:.*]] = dtc.reduce min
// CHECK: return %{{[^,]*}}, %[[P]], %[[PLACE]] : tensor<8x31xf32>, tensor<8x32xf32>, tensor<8xi64>
// CHECK-LABEL: func.func @backward(
// CHECK: arith.cmpi eq
// CHECK: dtc.slice
module {
  dist.mesh @mesh ["tp" = 1]
  func.func @stage(
      %x: tensor<8x32xf32> {dtc.role = #dtc.role<input, "x">},
      %i: tensor<8x32xi64> {dtc.role = #dtc.role<input, "i">},
      %w: tensor<31x31xf32> {dtc.role = #dtc.role<parameter, "w">},
      %dz: tensor<8x31xf32> {dtc.role = #dtc.role<inbox, "c">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      -> (tensor<8x31xf32> {dtc.role = #dtc.role<outbox, "b">, dtc.runs = #dtc.runs<microbatch, forward>},
          tensor<8x32xf32> {dtc.role = #dtc.role<outbox, "d">, dtc.runs = #dtc.runs<microbatch, input_grad>},
          tensor<31x31xf32> {dtc.role = #dtc.role<gradient, "w">})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    %p = dtc.softmax %x 1 {dtc.id = 0 : i64} : tensor<8x32xf32>
    %place = dtc.reduce min %i [1] {dtc.id = 1 : i64} : tensor<8x32xi64> -> tensor<8xi64>
    %columns = dtc.iota 1 {dtc.id = 2 : i64} : tensor<8x32xi64>
    %places = dtc.broadcast %place [0] {dtc.id = 3 : i64} : tensor<8xi64> -> tensor<8x32xi64>
    %mask = arith.cmpi eq, %columns, %places {dtc.id = 4 : i64} : tensor<8x32xi64>
    %part = dtc.slice %p offsets [0, 0] strides [1, 1] {dtc.id = 5 : i64} : tensor<8x32xf32> -> tensor<8x31xf32>
    %z = dtc.contract %part [0, 2], %w [2, 1] -> [0, 1] {dtc.id = 6 : i64} : tensor<8x31xf32>, tensor<31x31xf32> -> tensor<8x31xf32>
    %dpart = dtc.contract %dz [0, 2], %w [1, 2] -> [0, 1] {dtc.backward = #dtc.backward<6, input_grad>} : tensor<8x31xf32>, tensor<31x31xf32> -> tensor<8x31xf32>
    %dw = dtc.contract %part [2, 0], %dz [2, 1] -> [0, 1] {dtc.backward = #dtc.backward<6, weight_grad>} : tensor<8x31xf32>, tensor<8x31xf32> -> tensor<31x31xf32>
    %dp = dtc.pad %dpart low [0, 0] interior [0, 0] value 0.0 {dtc.backward = #dtc.backward<5, input_grad>} : tensor<8x31xf32> -> tensor<8x32xf32>
    %dx = dtc.softmax_grad %p, %dp 1 {dtc.backward = #dtc.backward<0, input_grad>} : tensor<8x32xf32>
    %zero = arith.constant dense<0.0> : tensor<8x32xf32>
    %chosen = arith.select %mask, %dx, %zero {dtc.backward = #dtc.backward<1, input_grad>} : tensor<8x32xi1>, tensor<8x32xf32>
    return %z, %chosen, %dw : tensor<8x31xf32>, tensor<8x32xf32>, tensor<31x31xf32>
  }
}
