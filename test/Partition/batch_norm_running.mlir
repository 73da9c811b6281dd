// A batch norm with running statistics: by a scalar, ranks normalize by these or by the batch's. What is drawn for
// the scalar isn't 0, so that the trials evaluate; --verify does both. Drawn variances may be negative: eps is
// larger than they are.
// RUN: dtc-opt %s -dtc-train -test-partition="each=false trials=20" | FileCheck %s
// RUN: dtc-opt %s -dtc-train="microbatches=2" -test-partition="each=false trials=20 mesh=4,2 seed=5" | FileCheck %s
// RUN: dtc-opt %s -dtc-train="precision=bf16" -test-partition="each=false trials=20 seed=9" | FileCheck %s
// RUN: dtc-opt %s -dtc-train -dtc-plan="devices=4 plan=dp=2,tp=2,zero=0" -test-partition="each=false trials=0 given" | FileCheck %s --check-prefix=GIVEN

// CHECK: test.partitions = 20
// GIVEN: test.partitions = 1

dtc.parameter trainable @up : tensor<4x6xf32> file tensor<4x6xf32>
dtc.parameter trainable @scale : tensor<6xf32> file tensor<6xf32>
dtc.parameter trainable @bias : tensor<6xf32> file tensor<6xf32>
dtc.parameter trainable @head : tensor<6x5xf32> file tensor<6x5xf32>
dtc.parameter buffer @mean : tensor<6xf32> file tensor<6xf32>
dtc.parameter buffer @variance : tensor<6xf32> file tensor<6xf32>

func.func @forward(%up: tensor<4x6xf32> {dtc.role = #dtc.role<parameter, "up">},
                   %scale: tensor<6xf32> {dtc.role = #dtc.role<parameter, "scale">},
                   %bias: tensor<6xf32> {dtc.role = #dtc.role<parameter, "bias">},
                   %head: tensor<6x5xf32> {dtc.role = #dtc.role<parameter, "head">},
                   %m: tensor<6xf32> {dtc.role = #dtc.role<buffer, "mean">},
                   %v: tensor<6xf32> {dtc.role = #dtc.role<buffer, "variance">},
                   %x: tensor<8x3x4xf32> {dtc.role = #dtc.role<input, "x">})
    -> (tensor<8x5xf32> {dtc.role = #dtc.role<output, "logits">},
        tensor<6xf32> {dtc.role = #dtc.role<buffer, "mean">},
        tensor<6xf32> {dtc.role = #dtc.role<buffer, "variance">}) {
  %h = dtc.contract %x [0, 2, 3], %up [3, 1] -> [0, 1, 2] : tensor<8x3x4xf32>, tensor<4x6xf32> -> tensor<8x6x3xf32>
  %y, %mean, %rstd, %variance = dtc.batch_norm %h scale %scale : tensor<6xf32> bias %bias : tensor<6xf32>
    running %m : tensor<6xf32>, %v : tensor<6xf32> eps 4.0
    : tensor<8x6x3xf32> -> tensor<8x6x3xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>
  %a = dtc.activation relu %y : tensor<8x6x3xf32>
  %s = dtc.reduce sum %a [2] : tensor<8x6x3xf32> -> tensor<8x6xf32>
  %logits = dtc.contract %s [0, 2], %head [2, 1] -> [0, 1] : tensor<8x6xf32>, tensor<6x5xf32> -> tensor<8x5xf32>
  %keep = arith.constant dense<0.75> : tensor<6xf32>
  %move = arith.constant dense<0.25> : tensor<6xf32>
  %m0 = arith.mulf %m, %keep : tensor<6xf32>
  %m1 = arith.mulf %mean, %move : tensor<6xf32>
  %m2 = arith.addf %m0, %m1 : tensor<6xf32>
  %v0 = arith.mulf %v, %keep : tensor<6xf32>
  %v1 = arith.mulf %variance, %move : tensor<6xf32>
  %v2 = arith.addf %v0, %v1 : tensor<6xf32>
  return %logits, %m2, %v2 : tensor<8x5xf32>, tensor<6xf32>, tensor<6xf32>
}
