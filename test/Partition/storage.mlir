// What ZeRO divides becomes parts: of 15 elements each of two ranks has 8, one of them padding.
// RUN: dtc-opt %s -dtc-train="optimizer=adamw clip-grad-norm=1" -dtc-plan="devices=2 plan=dp=2,zero=1" -dtc-pipeline=partition | FileCheck %s --check-prefix=STATES
// RUN: dtc-opt %s -dtc-train="optimizer=adamw microbatches=2" -dtc-plan="devices=2 plan=dp=2,zero=2" -dtc-pipeline=partition | FileCheck %s --check-prefix=GRADIENTS
// RUN: dtc-opt %s -dtc-train="optimizer=adamw" -dtc-plan="devices=2 plan=dp=2,zero=3" -dtc-pipeline=partition | FileCheck %s --check-prefix=PARAMETERS
// RUN: dtc-opt %s -dtc-train="optimizer=adamw precision=bf16" -dtc-plan="devices=2 plan=dp=2,zero=1" -dtc-pipeline=partition | FileCheck %s --check-prefix=MASTERS

dtc.parameter trainable @w : tensor<3x5xf32> file tensor<3x5xf32>

func.func @forward(%w: tensor<3x5xf32> {dtc.role = #dtc.role<parameter, "w">},
                   %x: tensor<4x3xf32> {dtc.role = #dtc.role<input, "x">})
    -> (tensor<4x5xf32> {dtc.role = #dtc.role<output, "logits">}) {
  %y = dtc.contract %x [0, 1], %w [1, 2] -> [0, 2] : tensor<4x3xf32>, tensor<3x5xf32> -> tensor<4x5xf32>
  %t = math.tanh %y : tensor<4x5xf32>
  %z = dtc.contract %t [0, 1], %w [2, 1] -> [0, 2] : tensor<4x5xf32>, tensor<3x5xf32> -> tensor<4x3xf32>
  %l = dtc.contract %z [0, 1], %w [1, 2] -> [0, 2] : tensor<4x3xf32>, tensor<3x5xf32> -> tensor<4x5xf32>
  return %l : tensor<4x5xf32>
}
