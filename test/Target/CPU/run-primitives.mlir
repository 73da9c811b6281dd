// Every primitive op inside a compiled kernel, on odd sizes.
// RUN: dtc-opt %s --dtc-decompose-layers --dtc-form-kernels --test-run-kernels -o /dev/null

func.func @move(%x: tensor<3x5x17xf32>) -> (tensor<17x3x5xf32>, tensor<3x85xf32>, tensor<3x2x5xf32>) {
  %y = arith.mulf %x, %x : tensor<3x5x17xf32>
  %0 = dtc.transpose %y [2, 0, 1] : tensor<3x5x17xf32> -> tensor<17x3x5xf32>
  %1 = dtc.reshape %y : tensor<3x5x17xf32> -> tensor<3x85xf32>
  %2 = dtc.slice %x offsets [0, 1, 2] strides [1, 3, 3] : tensor<3x5x17xf32> -> tensor<3x2x5xf32>
  return %0, %1, %2 : tensor<17x3x5xf32>, tensor<3x85xf32>, tensor<3x2x5xf32>
}

func.func @pad(%x: tensor<3x5xf32>) -> (tensor<7x11xf32>, tensor<3x5xf32>) {
  %0 = dtc.pad %x low [1, 2] interior [1, 0] value -1.5 : tensor<3x5xf32> -> tensor<7x11xf32>
  %1 = dtc.pad %x low [0, 0] interior [0, 0] value 0.0 : tensor<3x5xf32> -> tensor<3x5xf32>
  return %0, %1 : tensor<7x11xf32>, tensor<3x5xf32>
}

func.func @concat(%a: tensor<3x4xf32>, %b: tensor<3x1xf32>, %c: tensor<3x4xf32>, %d: tensor<2x4xf32>)
    -> (tensor<3x9xf32>, tensor<8x4xf32>) {
  %e = arith.negf %b : tensor<3x1xf32>
  %0 = dtc.concat 1 (%a, %e, %c) : tensor<3x4xf32>, tensor<3x1xf32>, tensor<3x4xf32> -> tensor<3x9xf32>
  %1 = dtc.concat 0 (%a, %d, %c) : tensor<3x4xf32>, tensor<2x4xf32>, tensor<3x4xf32> -> tensor<8x4xf32>
  return %0, %1 : tensor<3x9xf32>, tensor<8x4xf32>
}

func.func @sum_of_pads(%q: tensor<6x1x8xf32>, %k: tensor<6x1x8xf32>, %v: tensor<6x1x8xf32>) -> tensor<6x4x8xf32> {
  %0 = dtc.pad %q low [0, 0, 0] interior [0, 0, 0] value 0.0 : tensor<6x1x8xf32> -> tensor<6x4x8xf32>
  %1 = dtc.pad %k low [0, 3, 0] interior [0, 0, 0] value 0.0 : tensor<6x1x8xf32> -> tensor<6x4x8xf32>
  %2 = dtc.pad %v low [0, 1, 0] interior [0, 0, 0] value 0.0 : tensor<6x1x8xf32> -> tensor<6x4x8xf32>
  %3 = dtc.sum %0, %1, %2 : tensor<6x4x8xf32>
  return %3 : tensor<6x4x8xf32>
}

func.func @reduce_rows(%x: tensor<5x3x1000xf32>) -> (tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x3xf32>, tensor<5xf32>) {
  %0 = dtc.reduce sum %x [2] : tensor<5x3x1000xf32> -> tensor<5x3xf32>
  %1 = dtc.reduce max %x [2] : tensor<5x3x1000xf32> -> tensor<5x3xf32>
  %2 = dtc.reduce min %x [2] : tensor<5x3x1000xf32> -> tensor<5x3xf32>
  %3 = dtc.reduce prod %x [1, 2] : tensor<5x3x1000xf32> -> tensor<5xf32>
  return %0, %1, %2, %3 : tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x3xf32>, tensor<5xf32>
}

func.func @reduce_columns(%x: tensor<37x17xf32>, %y: tensor<3x19x5xf32>, %z: tensor<18x1030xf32>)
    -> (tensor<17xf32>, tensor<3x5xf32>, tensor<1030xf32>, tensor<17xf32>) {
  %0 = dtc.reduce sum %x [0] : tensor<37x17xf32> -> tensor<17xf32>
  %1 = dtc.reduce max %y [1] : tensor<3x19x5xf32> -> tensor<3x5xf32>
  %2 = dtc.reduce sum %z [0] : tensor<18x1030xf32> -> tensor<1030xf32>
  %3 = dtc.reduce min %x [0] : tensor<37x17xf32> -> tensor<17xf32>
  return %0, %1, %2, %3 : tensor<17xf32>, tensor<3x5xf32>, tensor<1030xf32>, tensor<17xf32>
}

// Channels of an image: kept in the middle.
func.func @reduce_channels(%x: tensor<4x3x5x7xf32>) -> (tensor<3xf32>, tensor<4x3xf32>) {
  %0 = dtc.reduce sum %x [0, 2, 3] : tensor<4x3x5x7xf32> -> tensor<3xf32>
  %1 = dtc.reduce sum %x [2, 3] : tensor<4x3x5x7xf32> -> tensor<4x3xf32>
  return %0, %1 : tensor<3xf32>, tensor<4x3xf32>
}

func.func @reduce_whole(%x: tensor<40000xf32>, %y: tensor<3xf32>) -> (tensor<f32>, tensor<f32>) {
  %s = arith.mulf %x, %x : tensor<40000xf32>
  %0 = dtc.reduce sum %s [0] : tensor<40000xf32> -> tensor<f32>
  %1 = dtc.reduce max %y [0] : tensor<3xf32> -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}

func.func @window_and_gradient_accumulation(%x: tensor<4x3x17xf32>, %old: tensor<17xf32>) -> tensor<17xf32> {
  %0 = dtc.reduce sum %x [0, 1] : tensor<4x3x17xf32> -> tensor<17xf32>
  %1 = dtc.sum %0, %old : tensor<17xf32>
  return %1 : tensor<17xf32>
}

// In one kernel, though rows and columns lie in other dimensions.
func.func @columns_of_two_shapes(%x: tensor<5x7x3x17xf32>) -> (tensor<3x17xf32>, tensor<1x51xf32>, tensor<51x1x1xf32>) {
  %0 = dtc.reduce sum %x [0, 1] : tensor<5x7x3x17xf32> -> tensor<3x17xf32>
  %1 = dtc.reshape %x : tensor<5x7x3x17xf32> -> tensor<1x35x51xf32>
  %2 = dtc.reduce sum %1 [1] : tensor<1x35x51xf32> -> tensor<1x51xf32>
  %3 = dtc.reshape %x : tensor<5x7x3x17xf32> -> tensor<35x51x1x1xf32>
  %4 = dtc.reduce max %3 [0] : tensor<35x51x1x1xf32> -> tensor<51x1x1xf32>
  return %0, %2, %4 : tensor<3x17xf32>, tensor<1x51xf32>, tensor<51x1x1xf32>
}

func.func @columns_onto(%x: tensor<40x3x17xf32>, %old: tensor<17xf32>) -> tensor<17xf32> {
  %0 = dtc.reduce sum %x [0, 1] : tensor<40x3x17xf32> -> tensor<17xf32>
  %1 = dtc.sum %0, %old : tensor<17xf32>
  return %1 : tensor<17xf32>
}

func.func @cumsum(%x: tensor<3x17x4xf32>) -> (tensor<3x17x4xf32>, tensor<3x17x4xf32>) {
  %0 = dtc.cumsum %x 1 : tensor<3x17x4xf32> -> tensor<3x17x4xf32>
  %1 = dtc.cumsum %x 2 exclusive reverse : tensor<3x17x4xf32> -> tensor<3x17x4xf32>
  return %0, %1 : tensor<3x17x4xf32>, tensor<3x17x4xf32>
}

// Indices are drawn from -1 to 6: outside on both sides.
func.func @by_index(%table: tensor<5x17xf32>, %i: tensor<2x9xi64>, %rows: tensor<2x9x6xf32>, %j: tensor<9xi32>, %wide: tensor<3x5x4xf32>)
    -> (tensor<2x9x17xf32>, tensor<2x9xf32>, tensor<3x9x4xf32>) {
  %0 = dtc.gather %table, %i axis 0 : tensor<5x17xf32>, tensor<2x9xi64> -> tensor<2x9x17xf32>
  %1 = dtc.pick %rows, %i : tensor<2x9x6xf32>, tensor<2x9xi64> -> tensor<2x9xf32>
  %2 = dtc.gather %wide, %j axis 1 : tensor<3x5x4xf32>, tensor<9xi32> -> tensor<3x9x4xf32>
  return %0, %1, %2 : tensor<2x9x17xf32>, tensor<2x9xf32>, tensor<3x9x4xf32>
}

// Conversions leave few different values: rows are full of ties. The whole row, and one of it.
func.func @top_k(%x: tensor<3x4x17xf32>, %i: tensor<5x19xi8>) -> (tensor<3x4x5xi64>, tensor<3x4x17xi64>, tensor<5x7xi64>, tensor<5x1xi64>) {
  %0 = dtc.top_k %x : tensor<3x4x17xf32> -> tensor<3x4x5xi64>
  %1 = dtc.top_k %x smallest : tensor<3x4x17xf32> -> tensor<3x4x17xi64>
  %ties = arith.sitofp %i : tensor<5x19xi8> to tensor<5x19xf32>
  %2 = dtc.top_k %ties : tensor<5x19xf32> -> tensor<5x7xi64>
  %3 = dtc.top_k %ties smallest : tensor<5x19xf32> -> tensor<5x1xi64>
  return %0, %1, %2, %3 : tensor<3x4x5xi64>, tensor<3x4x17xi64>, tensor<5x7xi64>, tensor<5x1xi64>
}

func.func @top_k_of_no_numbers(%x: tensor<4x9xf32>) -> (tensor<4x9xi64>, tensor<4x9xi64>) {
  %root = math.sqrt %x : tensor<4x9xf32>
  %zero = arith.constant dense<0.0> : tensor<4x9xf32>
  %y = arith.divf %root, %zero : tensor<4x9xf32>
  %0 = dtc.top_k %y : tensor<4x9xf32> -> tensor<4x9xi64>
  %1 = dtc.top_k %y smallest : tensor<4x9xf32> -> tensor<4x9xi64>
  return %0, %1 : tensor<4x9xi64>, tensor<4x9xi64>
}

// As routing does: probabilities, the best of them, where they are.
func.func @routing(%x: tensor<6x8xf32>, %old: tensor<6x2xf32>) -> (tensor<6x2xf32>, tensor<6x2x8xi1>) {
  %p = dtc.softmax %x 1 : tensor<6x8xf32>
  %at = dtc.top_k %p : tensor<6x8xf32> -> tensor<6x2xi64>
  %rows = dtc.broadcast %p [0, 2] : tensor<6x8xf32> -> tensor<6x2x8xf32>
  %best = dtc.pick %rows, %at : tensor<6x2x8xf32>, tensor<6x2xi64> -> tensor<6x2xf32>
  %0 = arith.addf %best, %old : tensor<6x2xf32>
  %wide = dtc.broadcast %at [0, 1] : tensor<6x2xi64> -> tensor<6x2x8xi64>
  %number = dtc.iota 2 : tensor<6x2x8xi64>
  %1 = arith.cmpi eq, %wide, %number : tensor<6x2x8xi64>
  return %0, %1 : tensor<6x2xf32>, tensor<6x2x8xi1>
}

func.func @scatter(%i: tensor<2x9xi64>, %u: tensor<2x9x17xf32>, %v: tensor<3x9x4xf32>, %j: tensor<9xi32>, %old: tensor<5x17xf32>)
    -> (tensor<5x17xf32>, tensor<5x17xf32>, tensor<3x5x4xf32>) {
  %0 = dtc.scatter_add %i, %u axis 0 : tensor<2x9xi64>, tensor<2x9x17xf32> -> tensor<5x17xf32>
  %t = dtc.scatter_add %i, %u axis 0 : tensor<2x9xi64>, tensor<2x9x17xf32> -> tensor<5x17xf32>
  %1 = dtc.sum %old, %t : tensor<5x17xf32>
  %2 = dtc.scatter_add %j, %v axis 1 : tensor<9xi32>, tensor<3x9x4xf32> -> tensor<3x5x4xf32>
  return %0, %1, %2 : tensor<5x17xf32>, tensor<5x17xf32>, tensor<3x5x4xf32>
}

func.func @scatter_onto(%i: tensor<2x9xi64>, %u: tensor<2x9x17xf32>, %old: tensor<5x17xf32>) -> tensor<5x17xf32> {
  %t = dtc.scatter_add %i, %u axis 0 : tensor<2x9xi64>, tensor<2x9x17xf32> -> tensor<5x17xf32>
  %1 = dtc.sum %old, %t : tensor<5x17xf32>
  return %1 : tensor<5x17xf32>
}

func.func @pool(%x: tensor<2x3x9x7xf32>, %g: tensor<2x3x5x4xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x3x9x7xf32>) {
  %0 = dtc.max_pool %x kernel [3, 3] strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] : tensor<2x3x9x7xf32> -> tensor<2x3x5x4xf32>
  %1 = dtc.max_pool_grad %x, %g kernel [3, 3] strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] : tensor<2x3x9x7xf32>, tensor<2x3x5x4xf32> -> tensor<2x3x9x7xf32>
  return %0, %1 : tensor<2x3x5x4xf32>, tensor<2x3x9x7xf32>
}

func.func @philox(%keys: tensor<5x17xi64>, %places: tensor<5x17xi64>) -> tensor<5x17xi64> {
  %0 = dtc.philox %keys, %places 3 : tensor<5x17xi64>
  return %0 : tensor<5x17xi64>
}

func.func @constants(%x: tensor<2x3xf32>, %c: tensor<2x3xi1>) -> (tensor<2x3xf32>, tensor<2x3xi1>, tensor<4x3xi32>) {
  %t = arith.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %m = arith.constant dense<[[true, false, true], [false, false, true]]> : tensor<2x3xi1>
  %0 = arith.addf %x, %t : tensor<2x3xf32>
  %1 = arith.andi %c, %m : tensor<2x3xi1>
  %2 = arith.select %1, %0, %x : tensor<2x3xi1>, tensor<2x3xf32>
  %3 = dtc.iota 0 : tensor<4x3xi32>
  return %2, %1, %3 : tensor<2x3xf32>, tensor<2x3xi1>, tensor<4x3xi32>
}

func.func @one(%x: tensor<1x1xf32>, %s: tensor<f64>) -> (tensor<1x1xf32>, tensor<f64>) {
  %0 = dtc.softmax %x 1 : tensor<1x1xf32>
  %1 = math.exp %s : tensor<f64>
  return %0, %1 : tensor<1x1xf32>, tensor<f64>
}

// The kernel of one element comes first.
func.func @one_and_many(%a: tensor<1xf32>, %b: tensor<3x4xf32>, %c: tensor<1x1xf32>)
    -> (tensor<1xf32>, tensor<3x4xf32>, tensor<1x1xf32>) {
  %0 = dtc.sum %a, %a : tensor<1xf32>
  %1 = dtc.sum %b, %b : tensor<3x4xf32>
  %2 = dtc.sum %c, %c : tensor<1x1xf32>
  return %0, %1, %2 : tensor<1xf32>, tensor<3x4xf32>, tensor<1x1xf32>
}
