// What ZeRO divides becomes parts: of 15 elements each of two ranks has 8, one of them padding.
// RUN: dtc-opt %s -dtc-train="optimizer=adamw clip-grad-norm=1" -dtc-plan="devices=2 plan=dp=2,zero=1" -dtc-pipeline=partition | FileCheck %s --check-prefix=STATES
// RUN: dtc-opt %s -dtc-train="optimizer=adamw microbatches=2" -dtc-plan="devices=2 plan=dp=2,zero=2" -dtc-pipeline=partition | FileCheck %s --check-prefix=GRADIENTS
// RUN: dtc-opt %s -dtc-train="optimizer=adamw" -dtc-plan="devices=2 plan=dp=2,zero=3" -dtc-pipeline=partition | FileCheck %s --check-prefix=PARAMETERS
// RUN: dtc-opt %s -dtc-train="optimizer=adamw precision=bf16" -dtc-plan="devices=2 plan=dp=2,zero=1" -dtc-pipeline=partition | FileCheck %s --check-prefix=MASTERS
// RUN: dtc-opt %s -dtc-train="optimizer=sgd" -dtc-plan="devices=2 plan=dp=2,zero=1" -dtc-pipeline=partition | FileCheck %s --check-prefix=STATELESS

// States: the update scatters the gradient, updates its part, and gathers the parameter.
// STATES-LABEL: func.func @loss_and_grads
// STATES-SAME: %arg0: tensor<3x5xf32>
// STATES-NOT: dist.{{all|reduce|slice}}
// STATES-LABEL: func.func @prologue
// STATES-LABEL: func.func @update
// STATES-SAME: %arg1: tensor<8xf32> {dist.flat = #dist.flat<3x5 [{}, {}] over {"dp"}>, dist.sharding = #dist.sharding<@mesh, [{"dp"}]>, dtc.role = #dtc.role<state, "w", exp_avg>}
// STATES-SAME: %arg3: tensor<3x5xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {}], sum = {"dp"}>
// STATES: %[[FLAT:.*]] = dtc.reshape %arg3 : tensor<3x5xf32> -> tensor<15xf32>
// STATES: %[[PADDED:.*]] = dtc.pad %[[FLAT]] low [0] interior [0] value 0.000000e+00
// STATES: %[[G:.*]] = dist.reduce_scatter sum %[[PADDED]] dim 0 on @mesh {"dp"} : tensor<16xf32> -> tensor<8xf32>
// The norm is that of all parts, reduced with the rest of the step vector.
// STATES: %[[SQUARES:.*]] = arith.mulf %[[G]], %[[G]] : tensor<8xf32>
// STATES: %[[SUM:.*]] = dtc.reduce sum %{{.*}} [0] : tensor<2xf32> -> tensor<f32>
// STATES: %[[FAULT:.*]] = arith.cmpf uge, %{{.*}}, %{{.*}} : tensor<8xf32>
// STATES: %[[FAULTS:.*]] = dtc.reduce sum %{{.*}} [0] : tensor<2xf32> -> tensor<f32>
// STATES: %[[COUNT:.*]] = arith.select %{{.*}}, %arg7, %{{.*}} : tensor<i1>, tensor<f32>
// STATES: %[[TOTAL:.*]]:4 = dist.all_reduce sum %arg4, %[[COUNT]], %[[FAULTS]], %[[SUM]] on @mesh {"dp"}
// STATES: math.sqrt %[[TOTAL]]#3
// STATES: %[[PART:.*]] = dist.slice %{{.*}} dim 0 on @mesh {"dp"} : tensor<16xf32> -> tensor<8xf32>
// STATES: %[[NEW:.*]], %{{.*}}, %{{.*}} = dtc.adam_update %[[PART]], %[[G]], %arg1, %arg2
// STATES: %[[ALL:.*]] = dist.all_gather %[[NEW]] dim 0 on @mesh {"dp"} : tensor<8xf32> -> tensor<16xf32>
// STATES: dtc.slice %[[ALL]] offsets [0] strides [1] : tensor<16xf32> -> tensor<15xf32>

// Gradients: each microbatch's is scattered, then added.
// GRADIENTS-LABEL: func.func @loss_and_grads
// GRADIENTS-SAME: %arg5: tensor<8xf32> {dist.flat = #dist.flat<3x5 [{}, {}] over {"dp"}>, dist.sharding = #dist.sharding<@mesh, [{"dp"}]>, dtc.role = #dtc.role<gradient, "w">}
// GRADIENTS: %[[TERM:.*]] = dist.reduce_scatter sum %{{.*}} dim 0 on @mesh {"dp"}
// GRADIENTS: dtc.sum %arg5, %[[TERM]] : tensor<8xf32>
// GRADIENTS-LABEL: func.func @update
// GRADIENTS-NOT: dist.reduce_scatter
// GRADIENTS: dtc.adam_update %{{.*}}, %arg3,
// GRADIENTS: dist.all_gather

// Parameters: gathered for each direction, while what comes before computes.
// PARAMETERS-LABEL: func.func @loss_and_grads
// PARAMETERS-SAME: %arg0: tensor<8xf32> {dist.flat
// PARAMETERS: dist.all_gather %arg0
// PARAMETERS: %[[AGAIN:.*]] = dtc.barrier %arg0
// PARAMETERS: dist.all_gather %[[AGAIN]]
// PARAMETERS-NOT: dist.all_gather
// PARAMETERS: dtc.cross_entropy_grad
// PARAMETERS: dist.reduce_scatter
// PARAMETERS-LABEL: func.func @update
// PARAMETERS-NOT: dist.all_gather
// PARAMETERS: dtc.adam_update %arg0, %arg3, %arg1, %arg2
// PARAMETERS-NOT: dist.all_gather

// Masters: what is gathered is in the precision of the parameter.
// MASTERS-LABEL: func.func @update
// MASTERS-SAME: %arg1: tensor<8xf32> {dist.flat{{.*}}dtc.role = #dtc.role<master, "w">}
// MASTERS: dtc.adam_update %arg1,
// MASTERS: dist.all_gather %{{.*}} dim 0 on @mesh {"dp"} : tensor<8xbf16> -> tensor<16xbf16>

// Without any state, too, the update is divided.
// STATELESS-LABEL: func.func @update
// STATELESS-SAME: tensor<3x5xf32> {{.*}}dtc.role = #dtc.role<parameter, "w">}
// STATELESS: %[[G:.*]] = dist.reduce_scatter sum
// STATELESS: %[[PART:.*]] = dist.slice
// STATELESS: dtc.sgd_update %[[PART]], %[[G]]
// STATELESS: dist.all_gather

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
