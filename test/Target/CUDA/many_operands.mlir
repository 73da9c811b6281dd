// A thread reads 80 elements before it can use the first: rows of five operands, less the largest of all. By whole
// accesses of eight elements they don't fit into its registers, so it has four.
// RUN: dtc-opt --target=cuda %s --dtc-form-kernels | FileCheck %s

// CHECK-DAG: exec.kernel @pointwise_0 extent 2048 scratch 0 geometry <blocks = 8, threads = 256>
// CHECK-DAG: exec.kernel @pointwise_1 extent 2048 scratch 0 geometry <blocks = 8, threads = 256>
func.func @f(%x0: tensor<16x8192xbf16>, %x1: tensor<16x8192xbf16>, %x2: tensor<16x8192xbf16>, %x3: tensor<16x8192xbf16>, %x4: tensor<16x8192xbf16>) -> tensor<8192xbf16> {
  %w0 = arith.extf %x0 : tensor<16x8192xbf16> to tensor<16x8192xf32>
  %m0 = dtc.reduce max %w0 [0] : tensor<16x8192xf32> -> tensor<8192xf32>
  %w1 = arith.extf %x1 : tensor<16x8192xbf16> to tensor<16x8192xf32>
  %m1 = dtc.reduce max %w1 [0] : tensor<16x8192xf32> -> tensor<8192xf32>
  %w2 = arith.extf %x2 : tensor<16x8192xbf16> to tensor<16x8192xf32>
  %m2 = dtc.reduce max %w2 [0] : tensor<16x8192xf32> -> tensor<8192xf32>
  %w3 = arith.extf %x3 : tensor<16x8192xbf16> to tensor<16x8192xf32>
  %m3 = dtc.reduce max %w3 [0] : tensor<16x8192xf32> -> tensor<8192xf32>
  %w4 = arith.extf %x4 : tensor<16x8192xbf16> to tensor<16x8192xf32>
  %m4 = dtc.reduce max %w4 [0] : tensor<16x8192xf32> -> tensor<8192xf32>
  %n1 = arith.maximumf %m0, %m1 : tensor<8192xf32>
  %n2 = arith.maximumf %n1, %m2 : tensor<8192xf32>
  %n3 = arith.maximumf %n2, %m3 : tensor<8192xf32>
  %n4 = arith.maximumf %n3, %m4 : tensor<8192xf32>
  %b = dtc.broadcast %n4 [1] : tensor<8192xf32> -> tensor<16x8192xf32>
  %d0 = arith.subf %w0, %b : tensor<16x8192xf32>
  %e0 = math.exp %d0 : tensor<16x8192xf32>
  %s0 = dtc.reduce sum %e0 [0] : tensor<16x8192xf32> -> tensor<8192xf32>
  %d1 = arith.subf %w1, %b : tensor<16x8192xf32>
  %e1 = math.exp %d1 : tensor<16x8192xf32>
  %s1 = dtc.reduce sum %e1 [0] : tensor<16x8192xf32> -> tensor<8192xf32>
  %t1 = arith.addf %s0, %s1 : tensor<8192xf32>
  %d2 = arith.subf %w2, %b : tensor<16x8192xf32>
  %e2 = math.exp %d2 : tensor<16x8192xf32>
  %s2 = dtc.reduce sum %e2 [0] : tensor<16x8192xf32> -> tensor<8192xf32>
  %t2 = arith.addf %t1, %s2 : tensor<8192xf32>
  %d3 = arith.subf %w3, %b : tensor<16x8192xf32>
  %e3 = math.exp %d3 : tensor<16x8192xf32>
  %s3 = dtc.reduce sum %e3 [0] : tensor<16x8192xf32> -> tensor<8192xf32>
  %t3 = arith.addf %t2, %s3 : tensor<8192xf32>
  %d4 = arith.subf %w4, %b : tensor<16x8192xf32>
  %e4 = math.exp %d4 : tensor<16x8192xf32>
  %s4 = dtc.reduce sum %e4 [0] : tensor<16x8192xf32> -> tensor<8192xf32>
  %t4 = arith.addf %t3, %s4 : tensor<8192xf32>
  %r = arith.truncf %t4 : tensor<8192xf32> to tensor<8192xbf16>
  return %r : tensor<8192xbf16>
}
