// RUN: dtc-opt --dtc-print-problem -o /dev/null --split-input-file %s | FileCheck %s

// A query sees the 128 keys up to itself; the order of the conditions and units in shapes don't matter.
// CHECK: "causal":true{{.*}}"name":"dtc.attention"{{.*}}"window":128
module {
  func.func @forward(%q: tensor<2x512x4x16xf32> {dtc.role = #dtc.role<input, "q">})
      -> (tensor<2x512x4x16xf32> {dtc.role = #dtc.role<output, "y">}) {
    %zero = arith.constant dense<0.0> : tensor<1x512x512xf32>
    %hidden = arith.constant dense<-3.40282347E+38> : tensor<1x512x512xf32>
    %before = arith.constant dense<-128> : tensor<512xi64>
    %i = dtc.iota 0 : tensor<512xi64>
    %low = arith.addi %i, %before : tensor<512xi64>
    %j = dtc.broadcast %i [2] : tensor<512xi64> -> tensor<1x512x512xi64>
    %query = dtc.broadcast %i [1] : tensor<512xi64> -> tensor<1x512x512xi64>
    %lows = dtc.broadcast %low [1] : tensor<512xi64> -> tensor<1x512x512xi64>
    %near = arith.cmpi sgt, %j, %lows : tensor<1x512x512xi64>
    %past = arith.cmpi sle, %j, %query : tensor<1x512x512xi64>
    %seen = arith.andi %near, %past : tensor<1x512x512xi1>
    %mask = arith.select %seen, %zero, %hidden : tensor<1x512x512xi1>, tensor<1x512x512xf32>
    %flat = dtc.reshape %mask : tensor<1x512x512xf32> -> tensor<512x512xf32>
    %bias = dtc.broadcast %flat [2, 3] : tensor<512x512xf32> -> tensor<2x4x512x512xf32>
    %y, %lse = dtc.attention %q, %q, %q bias %bias : tensor<2x4x512x512xf32> scale 0.25 : tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32> -> tensor<2x512x4x16xf32>, tensor<2x4x512xf32>
    return %y : tensor<2x512x4x16xf32>
  }
}

// -----

// Keys after the query are seen, too: no window.
// CHECK: "name":"dtc.attention"
// CHECK-NOT: "window"
module {
  func.func @forward(%q: tensor<2x512x4x16xf32> {dtc.role = #dtc.role<input, "q">})
      -> (tensor<2x512x4x16xf32> {dtc.role = #dtc.role<output, "y">}) {
    %zero = arith.constant dense<0.0> : tensor<512x512xf32>
    %hidden = arith.constant dense<-3.40282347E+38> : tensor<512x512xf32>
    %before = arith.constant dense<-128> : tensor<512xi64>
    %i = dtc.iota 0 : tensor<512xi64>
    %low = arith.addi %i, %before : tensor<512xi64>
    %j = dtc.broadcast %i [1] : tensor<512xi64> -> tensor<512x512xi64>
    %lows = dtc.broadcast %low [0] : tensor<512xi64> -> tensor<512x512xi64>
    %near = arith.cmpi sgt, %j, %lows : tensor<512x512xi64>
    %mask = arith.select %near, %zero, %hidden : tensor<512x512xi1>, tensor<512x512xf32>
    %bias = dtc.broadcast %mask [2, 3] : tensor<512x512xf32> -> tensor<2x4x512x512xf32>
    %y, %lse = dtc.attention %q, %q, %q bias %bias : tensor<2x4x512x512xf32> scale 0.25 : tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32> -> tensor<2x512x4x16xf32>, tensor<2x4x512xf32>
    return %y : tensor<2x512x4x16xf32>
  }
}

// -----

// What is seen also has other scores than 0: the bias is more than a mask.
// CHECK: "name":"dtc.attention"
// CHECK-NOT: "window"
module {
  func.func @forward(%q: tensor<2x512x4x16xf32> {dtc.role = #dtc.role<input, "q">})
      -> (tensor<2x512x4x16xf32> {dtc.role = #dtc.role<output, "y">}) {
    %one = arith.constant dense<1.0> : tensor<512x512xf32>
    %hidden = arith.constant dense<-3.40282347E+38> : tensor<512x512xf32>
    %before = arith.constant dense<-128> : tensor<512xi64>
    %i = dtc.iota 0 : tensor<512xi64>
    %low = arith.addi %i, %before : tensor<512xi64>
    %j = dtc.broadcast %i [1] : tensor<512xi64> -> tensor<512x512xi64>
    %query = dtc.broadcast %i [0] : tensor<512xi64> -> tensor<512x512xi64>
    %lows = dtc.broadcast %low [0] : tensor<512xi64> -> tensor<512x512xi64>
    %near = arith.cmpi sgt, %j, %lows : tensor<512x512xi64>
    %past = arith.cmpi sle, %j, %query : tensor<512x512xi64>
    %seen = arith.andi %near, %past : tensor<512x512xi1>
    %mask = arith.select %seen, %one, %hidden : tensor<512x512xi1>, tensor<512x512xf32>
    %bias = dtc.broadcast %mask [2, 3] : tensor<512x512xf32> -> tensor<2x4x512x512xf32>
    %y, %lse = dtc.attention %q, %q, %q bias %bias : tensor<2x4x512x512xf32> scale 0.25 : tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32> -> tensor<2x512x4x16xf32>, tensor<2x4x512xf32>
    return %y : tensor<2x512x4x16xf32>
  }
}
