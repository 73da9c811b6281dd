// What calls compute where they evaluate is a choice by a scalar.
// RUN: dtc-opt %s -split-input-file -dtc-train="precision=bf16" | FileCheck %s
// RUN: dtc-opt %s -split-input-file -dtc-train="loss=none" | FileCheck %s --check-prefix=NONE

// A norm takes its running statistics, as they are in the file, and its gradient the same as its output.
// Its buffers stay.
// CHECK-LABEL: func.func @loss_and_grads
// CHECK-SAME:    %[[M:[^:]*]]: tensor<2xf32> {dtc.role = #dtc.role<buffer, "mean">}
// CHECK-SAME:    %[[V:[^:]*]]: tensor<2xf32> {dtc.role = #dtc.role<buffer, "variance">}
// CHECK-SAME:    %[[N:[^:]*]]: tensor<i64> {dtc.role = #dtc.role<buffer, "batches">}
// CHECK-SAME:    %[[E:[^:]*]]: tensor<f32> {dtc.role = #dtc.role<scalar, "", evaluation>}
// CHECK:         %[[E1:.*]] = dtc.broadcast %[[E]] []
// CHECK:         %[[IS1:.*]] = arith.cmpf une, %[[E1]]
// CHECK:         %[[MEAN:.*]] = arith.select %[[IS1]], %[[M]], %{{.*}} {dtc.id
// CHECK:         %[[E2:.*]] = dtc.broadcast %[[E]] []
// CHECK:         %[[IS2:.*]] = arith.cmpf une, %[[E2]]
// CHECK:         %[[BIASED:.*]] = arith.select %[[IS2]], %[[V]], %{{.*}} {dtc.id
// CHECK:         %[[SHIFTED:.*]] = arith.addf %[[BIASED]]
// CHECK:         math.rsqrt %[[SHIFTED]]
// CHECK:         %[[M1:.*]] = arith.select %{{.*}}, %[[M]], %{{.*}} {dtc.id
// CHECK:         %[[V1:.*]] = arith.select %{{.*}}, %[[V]], %{{.*}} {dtc.id
// CHECK:         %[[N1:.*]] = arith.select %{{.*}}, %[[N]], %{{.*}} {dtc.id
// CHECK:         dtc.broadcast %[[MEAN]] [1] {dtc.backward =
// CHECK:         return %{{.*}}, %[[M1]], %[[V1]], %[[N1]] :

// Without training there is nothing to choose.
// NONE-LABEL: func.func @forward
// NONE-NOT:     evaluation
// NONE-NOT:     arith.select
dtc.parameter trainable @up : tensor<4x2xf32> file tensor<4x2xf32>
dtc.parameter buffer @mean : tensor<2xf32> file tensor<2xf32>
dtc.parameter buffer @variance : tensor<2xf32> file tensor<2xf32>
dtc.parameter buffer @batches : tensor<i64> file tensor<i64>
func.func @forward(%up: tensor<4x2xf32> {dtc.role = #dtc.role<parameter, "up">},
                   %m: tensor<2xf32> {dtc.role = #dtc.role<buffer, "mean">},
                   %v: tensor<2xf32> {dtc.role = #dtc.role<buffer, "variance">},
                   %n: tensor<i64> {dtc.role = #dtc.role<buffer, "batches">},
                   %x: tensor<8x4xf32> {dtc.role = #dtc.role<input, "x">})
    -> (tensor<8x2xf32> {dtc.role = #dtc.role<output, "logits">},
        tensor<2xf32> {dtc.role = #dtc.role<buffer, "mean">},
        tensor<2xf32> {dtc.role = #dtc.role<buffer, "variance">},
        tensor<i64> {dtc.role = #dtc.role<buffer, "batches">}) {
  %h = dtc.contract %x [0, 2], %up [2, 1] -> [0, 1] : tensor<8x4xf32>, tensor<4x2xf32> -> tensor<8x2xf32>
  %y, %mean, %rstd, %variance = dtc.batch_norm %h running %m : tensor<2xf32>, %v : tensor<2xf32> eps 1.0e-5
    : tensor<8x2xf32> -> tensor<8x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  %m1 = arith.addf %m, %mean : tensor<2xf32>
  %v1 = arith.addf %v, %variance : tensor<2xf32>
  %one = arith.constant dense<1> : tensor<i64>
  %n1 = arith.addi %n, %one : tensor<i64>
  return %y, %m1, %v1, %n1 : tensor<8x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<i64>
}

// -----

// What eval() would do with an average of inputs isn't known: a program that changes it can't evaluate.
// CHECK-LABEL: func.func @loss_and_grads
// CHECK-NOT:     evaluation
dtc.parameter trainable @up : tensor<4x2xf32> file tensor<4x2xf32>
dtc.parameter buffer @average : tensor<8x4xf32> file tensor<8x4xf32>
func.func @forward(%up: tensor<4x2xf32> {dtc.role = #dtc.role<parameter, "up">},
                   %a: tensor<8x4xf32> {dtc.role = #dtc.role<buffer, "average">},
                   %x: tensor<8x4xf32> {dtc.role = #dtc.role<input, "x">})
    -> (tensor<8x2xf32> {dtc.role = #dtc.role<output, "logits">},
        tensor<8x4xf32> {dtc.role = #dtc.role<buffer, "average">}) {
  %h = dtc.contract %x [0, 2], %up [2, 1] -> [0, 1] : tensor<8x4xf32>, tensor<4x2xf32> -> tensor<8x2xf32>
  %a1 = arith.addf %a, %x : tensor<8x4xf32>
  return %h, %a1 : tensor<8x2xf32>, tensor<8x4xf32>
}

// -----

// Nor is it where the loss depends on what is counted.
// CHECK-LABEL: func.func @loss_and_grads
// CHECK-NOT:     evaluation
dtc.parameter trainable @up : tensor<4x2xf32> file tensor<4x2xf32>
dtc.parameter buffer @batches : tensor<f32> file tensor<f32>
func.func @forward(%up: tensor<4x2xf32> {dtc.role = #dtc.role<parameter, "up">},
                   %n: tensor<f32> {dtc.role = #dtc.role<buffer, "batches">},
                   %x: tensor<8x4xf32> {dtc.role = #dtc.role<input, "x">})
    -> (tensor<8x2xf32> {dtc.role = #dtc.role<output, "logits">},
        tensor<f32> {dtc.role = #dtc.role<buffer, "batches">}) {
  %h = dtc.contract %x [0, 2], %up [2, 1] -> [0, 1] : tensor<8x4xf32>, tensor<4x2xf32> -> tensor<8x2xf32>
  %spread = dtc.broadcast %n [] : tensor<f32> -> tensor<8x2xf32>
  %y = arith.mulf %h, %spread : tensor<8x2xf32>
  %one = arith.constant dense<1.0> : tensor<f32>
  %n1 = arith.addf %n, %one : tensor<f32>
  return %y, %n1 : tensor<8x2xf32>, tensor<f32>
}
