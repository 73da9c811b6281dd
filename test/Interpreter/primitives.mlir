// Values small enough to check by hand.
// RUN: dtc-opt %s -split-input-file -dtc-interpret -o /dev/null | FileCheck %s

// CHECK: result 0: tensor<2x3xf32> {{\[\[}}0, 1, 2], [0, 1, 2]]
// CHECK: result 1: tensor<2x3xi32> {{\[\[}}0, 0, 0], [1, 1, 1]]
// CHECK: result 2: tensor<2x2x2xi64> {{\[\[\[}}1, 2], [1, 2]], {{\[\[}}3, 4], [3, 4]]]
// CHECK: result 3: tensor<3x2xi64> {{\[\[}}1, 2], [3, 4], [5, 6]]
// CHECK: result 4: tensor<3x2xi64> {{\[\[}}1, 4], [2, 5], [3, 6]]
// CHECK: result 5: tensor<1x2xi64> {{\[\[}}4, 6]]
// CHECK: result 6: tensor<3x6xi64> {{\[\[}}7, 7, 7, 7, 7, 7], [7, 1, 7, 2, 7, 3], [7, 4, 7, 5, 7, 6]]
// CHECK: result 7: tensor<2x5xi64> {{\[\[}}1, 2, 3, 1, 2], [4, 5, 6, 3, 4]]
func.func @main() -> (tensor<2x3xf32>, tensor<2x3xi32>, tensor<2x2x2xi64>, tensor<3x2xi64>, tensor<3x2xi64>,
                      tensor<1x2xi64>, tensor<3x6xi64>, tensor<2x5xi64>) {
  %x = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi64>
  %y = arith.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>
  %0 = dtc.iota 1 : tensor<2x3xf32>
  %1 = dtc.iota 0 : tensor<2x3xi32>
  %2 = dtc.broadcast %y [0, 2] : tensor<2x2xi64> -> tensor<2x2x2xi64>
  %3 = dtc.reshape %x : tensor<2x3xi64> -> tensor<3x2xi64>
  %4 = dtc.transpose %x [1, 0] : tensor<2x3xi64> -> tensor<3x2xi64>
  %5 = dtc.slice %x offsets [1, 0] strides [1, 2] : tensor<2x3xi64> -> tensor<1x2xi64>
  %6 = dtc.pad %x low [1, 1] interior [0, 1] value 7.0 : tensor<2x3xi64> -> tensor<3x6xi64>
  %7 = dtc.concat 1 (%x, %y) : tensor<2x3xi64>, tensor<2x2xi64> -> tensor<2x5xi64>
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<2x3xf32>, tensor<2x3xi32>, tensor<2x2x2xi64>, tensor<3x2xi64>,
    tensor<3x2xi64>, tensor<1x2xi64>, tensor<3x6xi64>, tensor<2x5xi64>
}

// -----

// CHECK: result 0: tensor<2xi64> [6, 15]
// CHECK: result 1: tensor<3xi64> [4, 10, 18]
// CHECK: result 2: tensor<i64> 6
// CHECK: result 3: tensor<0xf32> []
// CHECK: result 4: tensor<2xf32> [-inf, -inf]
// CHECK: result 5: tensor<2x3xi64> {{\[\[}}1, 3, 6], [4, 9, 15]]
// CHECK: result 6: tensor<2x3xi64> {{\[\[}}5, 3, 0], [11, 6, 0]]
// CHECK: result 7: tensor<2x3xi64> {{\[\[}}3, 6, 9], [12, 15, 18]]
func.func @main() -> (tensor<2xi64>, tensor<3xi64>, tensor<i64>, tensor<0xf32>, tensor<2xf32>, tensor<2x3xi64>,
                      tensor<2x3xi64>, tensor<2x3xi64>) {
  %x = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi64>
  %empty = arith.constant dense<0.0> : tensor<2x0xf32>
  %0 = dtc.reduce sum %x [1] : tensor<2x3xi64> -> tensor<2xi64>
  %1 = dtc.reduce prod %x [0] : tensor<2x3xi64> -> tensor<3xi64>
  %2 = dtc.reduce max %x [0, 1] : tensor<2x3xi64> -> tensor<i64>
  %3 = dtc.reduce sum %empty [0] : tensor<2x0xf32> -> tensor<0xf32>
  %4 = dtc.reduce max %empty [1] : tensor<2x0xf32> -> tensor<2xf32>
  %5 = dtc.cumsum %x 1 : tensor<2x3xi64> -> tensor<2x3xi64>
  %6 = dtc.cumsum %x 1 exclusive reverse : tensor<2x3xi64> -> tensor<2x3xi64>
  %7 = dtc.sum %x, %x, %x : tensor<2x3xi64>
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<2xi64>, tensor<3xi64>, tensor<i64>, tensor<0xf32>, tensor<2xf32>,
    tensor<2x3xi64>, tensor<2x3xi64>, tensor<2x3xi64>
}

// -----

// Indices outside the table give zeros and drop updates.
// CHECK: result 0: tensor<2x2xf32> {{\[\[}}19, 22], [43, 50]]
// CHECK: result 1: tensor<2x2xf32> {{\[\[}}19, 43], [22, 50]]
// CHECK: result 2: tensor<3x2xf32> {{\[\[}}3, 4], [0, 0], [1, 2]]
// CHECK: result 3: tensor<2x2xf32> {{\[\[}}5, 6], [1, 2]]
// CHECK: result 4: tensor<2xf32> [2, 0]
func.func @main() -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<3x2xf32>, tensor<2x2xf32>, tensor<2xf32>) {
  %a = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %b = arith.constant dense<[[5.0, 6.0], [7.0, 8.0]]> : tensor<2x2xf32>
  %i = arith.constant dense<[1, -1, 0]> : tensor<3xi64>
  %updates = arith.constant dense<[[1.0, 2.0], [9.0, 9.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %columns = arith.constant dense<[1, 2]> : tensor<2xi32>
  %0 = dtc.contract %a [0, 1], %b [1, 2] -> [0, 2] : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
  %1 = dtc.contract %a [0, 1], %b [1, 2] -> [2, 0] : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
  %2 = dtc.gather %a, %i axis 0 : tensor<2x2xf32>, tensor<3xi64> -> tensor<3x2xf32>
  %3 = dtc.scatter_add %i, %updates axis 0 : tensor<3xi64>, tensor<3x2xf32> -> tensor<2x2xf32>
  %4 = dtc.pick %a, %columns : tensor<2x2xf32>, tensor<2xi32> -> tensor<2xf32>
  return %0, %1, %2, %3, %4 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<3x2xf32>, tensor<2x2xf32>, tensor<2xf32>
}

// -----

// Where buckets begin and end, then what is in them: the row among the bucket's times 3, and the place.
// CHECK: result 0: tensor<2x7xi32> {{\[\[}}0, 2, 2, 3, 4, 2, 0], [0, 0, 0, 0, -1, -1, -1]]
// CHECK: result 1: tensor<5x1xf32> {{\[\[}}3], [2], [0], [0], [1]]
func.func @main() -> (tensor<2x7xi32>, tensor<5x1xf32>) {
  %i = arith.constant dense<[4, 1, 0, 5, -1]> : tensor<5xi64>
  %updates = arith.constant dense<[[1.0], [2.0], [3.0], [4.0], [5.0]]> : tensor<5x1xf32>
  %0 = dtc.bucket_indices %i rows 5 of 2 : tensor<5xi64> -> tensor<2x7xi32>
  %1 = dtc.scatter_add %i, %updates axis 0 buckets %0 of 2 : tensor<5xi64>, tensor<5x1xf32>, tensor<2x7xi32> -> tensor<5x1xf32>
  return %0, %1 : tensor<2x7xi32>, tensor<5x1xf32>
}

// -----

// Equal elements in the order of their indices; NaN counts as infinity, -0 as 0.
// CHECK: result 0: tensor<3x3xi64> {{\[\[}}1, 3, 0], [0, 2, 1], [0, 1, 2]]
// CHECK: result 1: tensor<3x2xi64> {{\[\[}}2, 0], [1, 3], [0, 1]]
func.func @main() -> (tensor<3x3xi64>, tensor<3x2xi64>) {
  %x = arith.constant dense<[[1.0, 5.0, -2.0, 5.0], [0x7F800000, 3.0, 0x7FC00000, 3.0], [0.0, -0.0, 0.0, 0.0]]> : tensor<3x4xf32>
  %0 = dtc.top_k %x : tensor<3x4xf32> -> tensor<3x3xi64>
  %1 = dtc.top_k %x smallest : tensor<3x4xf32> -> tensor<3x2xi64>
  return %0, %1 : tensor<3x3xi64>, tensor<3x2xi64>
}

// -----

// A 3x3 plane under 2x2 kernels of ones; a pool's first maximum gets the gradient.
// CHECK: result 0: tensor<1x1x2x2xf32> {{.*}}[12, 16], [24, 28]]]]
// CHECK: result 1: tensor<1x1x3x3xf32> {{.*}}[1, 2, 1], [2, 4, 2], [1, 2, 1]]]]
// CHECK: result 2: tensor<1x1x2x2xf32> {{.*}}[12, 16], [24, 28]]]]
// CHECK: result 3: tensor<1x1x2x2xf32> {{.*}}[1, 3], [7, 9]]]]
// CHECK: result 4: tensor<1x1x3x3xf32> {{.*}}[1, 1, 0], [1, 1, 0], [0, 0, 0]]]]
func.func @main() -> (tensor<1x1x2x2xf32>, tensor<1x1x3x3xf32>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>, tensor<1x1x3x3xf32>) {
  %x = arith.constant dense<[[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]]> : tensor<1x1x3x3xf32>
  %ones = arith.constant dense<1.0> : tensor<1x1x2x2xf32>
  %plateau = arith.constant dense<[[[[4.0, 4.0, 0.0], [4.0, 0.0, 0.0], [0.0, 0.0, 0.0]]]]> : tensor<1x1x3x3xf32>
  %0 = dtc.conv %x, %ones strides [1, 1] pad [0, 0], [0, 0] dilations [1, 1] groups 1 : tensor<1x1x3x3xf32>, tensor<1x1x2x2xf32> -> tensor<1x1x2x2xf32>
  %1 = dtc.conv_input_grad %ones, %ones strides [1, 1] pad [0, 0], [0, 0] dilations [1, 1] groups 1 : tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32> -> tensor<1x1x3x3xf32>
  %2 = dtc.conv_weight_grad %x, %ones strides [1, 1] pad [0, 0], [0, 0] dilations [1, 1] groups 1 : tensor<1x1x3x3xf32>, tensor<1x1x2x2xf32> -> tensor<1x1x2x2xf32>
  %3 = dtc.max_pool %x kernel [2, 2] strides [2, 2] pad [1, 1], [0, 0] dilations [1, 1] : tensor<1x1x3x3xf32> -> tensor<1x1x2x2xf32>
  %4 = dtc.max_pool_grad %plateau, %ones kernel [2, 2] strides [1, 1] pad [0, 0], [0, 0] dilations [1, 1] : tensor<1x1x3x3xf32>, tensor<1x1x2x2xf32> -> tensor<1x1x3x3xf32>
  return %0, %1, %2, %3, %4 : tensor<1x1x2x2xf32>, tensor<1x1x3x3xf32>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>, tensor<1x1x3x3xf32>
}
