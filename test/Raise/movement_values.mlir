// Moving reshapes and transposes changes no element: both print the same numbers.
// RUN: dtc-opt --dtc-interpret %s | grep ^result > %t.before
// RUN: dtc-opt --dtc-unflatten --dtc-interpret %s | grep ^result > %t.after
// RUN: FileCheck --check-prefix=BEFORE %s < %t.before
// RUN: diff %t.before %t.after

// BEFORE: {{[0-9]\.[0-9]+}}
func.func @main(%x: tensor<2x3x8xf32>, %w: tensor<8x24xf32>, %o: tensor<5x8xf32>) -> tensor<2x3x5xf32> {
  %half = arith.constant dense<0.5> : tensor<2x2x4x3xf32>
  %0 = dtc.reshape %x : tensor<2x3x8xf32> -> tensor<6x8xf32>
  %1 = dtc.contract %0 [0, 2], %w [2, 1] -> [0, 1] : tensor<6x8xf32>, tensor<8x24xf32> -> tensor<6x24xf32>
  %2 = dtc.reshape %1 : tensor<6x24xf32> -> tensor<2x3x24xf32>
  %3 = dtc.slice %2 offsets [0, 0, 0] strides [1, 1, 1] : tensor<2x3x24xf32> -> tensor<2x3x8xf32>
  %4 = dtc.slice %2 offsets [0, 0, 8] strides [1, 1, 1] : tensor<2x3x24xf32> -> tensor<2x3x8xf32>
  %5 = dtc.slice %2 offsets [0, 0, 16] strides [1, 1, 1] : tensor<2x3x24xf32> -> tensor<2x3x8xf32>
  %q = dtc.reshape %3 : tensor<2x3x8xf32> -> tensor<2x3x2x4xf32>
  %k = dtc.reshape %4 : tensor<2x3x8xf32> -> tensor<2x3x2x4xf32>
  %v = dtc.reshape %5 : tensor<2x3x8xf32> -> tensor<2x3x2x4xf32>
  %qt = dtc.transpose %q [0, 2, 1, 3] : tensor<2x3x2x4xf32> -> tensor<2x2x3x4xf32>
  %kt = dtc.transpose %k [0, 2, 1, 3] : tensor<2x3x2x4xf32> -> tensor<2x2x3x4xf32>
  %vt = dtc.transpose %v [0, 2, 1, 3] : tensor<2x3x2x4xf32> -> tensor<2x2x3x4xf32>
  %m = dtc.reshape %kt : tensor<2x2x3x4xf32> -> tensor<4x3x4xf32>
  %n = dtc.transpose %m [0, 2, 1] : tensor<4x3x4xf32> -> tensor<4x4x3xf32>
  %r = dtc.reshape %n : tensor<4x4x3xf32> -> tensor<2x2x4x3xf32>
  %ks = arith.mulf %r, %half : tensor<2x2x4x3xf32>
  %s = dtc.contract %qt [0, 1, 2, 4], %ks [0, 1, 4, 3] -> [0, 1, 2, 3] : tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32> -> tensor<2x2x3x3xf32>
  %a = dtc.contract %s [0, 1, 2, 4], %vt [0, 1, 4, 3] -> [0, 1, 2, 3] : tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32> -> tensor<2x2x3x4xf32>
  %t = dtc.transpose %a [0, 2, 1, 3] : tensor<2x2x3x4xf32> -> tensor<2x3x2x4xf32>
  %f = dtc.reshape %t : tensor<2x3x2x4xf32> -> tensor<6x8xf32>
  %y = dtc.contract %f [0, 2], %o [1, 2] -> [0, 1] : tensor<6x8xf32>, tensor<5x8xf32> -> tensor<6x5xf32>
  %z = dtc.reshape %y : tensor<6x5xf32> -> tensor<2x3x5xf32>
  return %z : tensor<2x3x5xf32>
}
