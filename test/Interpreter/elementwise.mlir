// RUN: dtc-opt %s -split-input-file -dtc-interpret -o /dev/null | FileCheck %s
// RUN: dtc-opt %s -split-input-file -dtc-interpret=fp64=true -o /dev/null | FileCheck %s --check-prefix=FP64

// Integers wrap and divide as arith says; i1 is signed where the op is.
// CHECK: result 0: tensor<3xi8> [-128, -1, 5]
// CHECK: result 1: tensor<3xi8> [-4, 3, -3]
// CHECK: result 2: tensor<3xi8> [-3, 4, -2]
// CHECK: result 3: tensor<3xi8> [124, 3, 125]
// CHECK: result 4: tensor<3xi1> [1, 0, 1]
// CHECK: result 5: tensor<3xi1> [0, 0, 0]
// CHECK: result 6: tensor<2xi32> [-1, 0]
// CHECK: result 7: tensor<2xi32> [1, 0]
func.func @main() -> (tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xi1>, tensor<3xi1>,
                      tensor<2xi32>, tensor<2xi32>) {
  %a = arith.constant dense<[127, -2, 2]> : tensor<3xi8>
  %b = arith.constant dense<[1, 1, 3]> : tensor<3xi8>
  %c = arith.constant dense<[-7, 7, -5]> : tensor<3xi8>
  %two = arith.constant dense<2> : tensor<3xi8>
  %flags = arith.constant dense<[true, false]> : tensor<2xi1>
  %0 = arith.addi %a, %b : tensor<3xi8>
  %1 = arith.floordivsi %c, %two : tensor<3xi8>
  %2 = arith.ceildivsi %c, %two : tensor<3xi8>
  %3 = arith.divui %c, %two : tensor<3xi8>
  %4 = arith.cmpi slt, %c, %two : tensor<3xi8>
  %5 = arith.cmpi ult, %c, %two : tensor<3xi8>
  %6 = arith.extsi %flags : tensor<2xi1> to tensor<2xi32>
  %7 = arith.extui %flags : tensor<2xi1> to tensor<2xi32>
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xi1>,
    tensor<3xi1>, tensor<2xi32>, tensor<2xi32>
}

// -----

// Each op rounds to its own type, to nearest even; fp64 keeps everything.
// CHECK: result 0: tensor<3xbf16> [1, 1.01562, 256]
// CHECK: result 1: tensor<3xf16> [inf, 65504, 5.96046e-08]
// CHECK: result 2: tensor<2xf32> [0, 1.6e+07]
// FP64: result 0: tensor<3xbf16> [1.00391, 1.01172, 257]
// FP64: result 1: tensor<3xf16> [65520, 65519, 5e-08]
// FP64: result 2: tensor<2xf32> [1, 1.6e+07]
func.func @main() -> (tensor<3xbf16>, tensor<3xf16>, tensor<2xf32>) {
  %a = arith.constant dense<[1.00390625, 1.01171875, 257.0]> : tensor<3xf64>
  %b = arith.constant dense<[65520.0, 65519.0, 5.0e-8]> : tensor<3xf64>
  %big = arith.constant dense<[1.0e9, 1.6e7]> : tensor<2xf32>
  %one = arith.constant dense<[1.0, 0.0]> : tensor<2xf32>
  %0 = arith.truncf %a : tensor<3xf64> to tensor<3xbf16>
  %1 = arith.truncf %b : tensor<3xf64> to tensor<3xf16>
  %sum = arith.addf %big, %one : tensor<2xf32>
  %zero = arith.mulf %big, %one : tensor<2xf32>
  %2 = arith.subf %sum, %zero : tensor<2xf32>
  return %0, %1, %2 : tensor<3xbf16>, tensor<3xf16>, tensor<2xf32>
}

// -----

// CHECK: result 0: tensor<4xf32> [nan, 2, 0, inf]
// CHECK: result 1: tensor<4xf32> [1, 2, {{-?}}0, inf]
// CHECK: result 2: tensor<4xi1> [0, 1, 1, 0]
// CHECK: result 3: tensor<4xi1> [1, 1, 1, 0]
// CHECK: result 4: tensor<4xi32> [0, -1, 0, 2147483647]
// CHECK: result 5: tensor<4xf32> [1, -1, 0, 7]
func.func @main() -> (tensor<4xf32>, tensor<4xf32>, tensor<4xi1>, tensor<4xi1>, tensor<4xi32>, tensor<4xf32>) {
  %a = arith.constant dense<[0x7FC00000, -1.5, -0.0, 0x7F800000]> : tensor<4xf32>
  %b = arith.constant dense<[1.0, 2.0, 0.0, 7.0]> : tensor<4xf32>
  %n = arith.constant dense<[1, -1, 0, 7]> : tensor<4xi32>
  %0 = arith.maximumf %a, %b : tensor<4xf32>
  %1 = arith.maxnumf %a, %b : tensor<4xf32>
  %2 = arith.cmpf ole, %a, %b : tensor<4xf32>
  %3 = arith.cmpf ule, %a, %b : tensor<4xf32>
  %4 = arith.fptosi %a : tensor<4xf32> to tensor<4xi32>
  %5 = arith.sitofp %n : tensor<4xi32> to tensor<4xf32>
  return %0, %1, %2, %3, %4, %5 : tensor<4xf32>, tensor<4xf32>, tensor<4xi1>, tensor<4xi1>, tensor<4xi32>, tensor<4xf32>
}
