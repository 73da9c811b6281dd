// RUN: dtc-opt --dtc-train="optimizer=adamw" "--dtc-plan=devices=2 plan=pp=2 all" %s | FileCheck %s --check-prefix=STAGES
// RUN: dtc-opt --dtc-train="optimizer=adamw" "--dtc-plan=devices=2 plan=dp=2,zero=3 all" %s | FileCheck %s --check-prefix=STORAGE
// RUN: dtc-opt --dtc-train="optimizer=adamw" "--dtc-plan=devices=1 plan=recompute=full all" %s | FileCheck %s --check-prefix=RECOMPUTE
// RUN: not dtc-opt --dtc-train="optimizer=adamw" "--dtc-plan=devices=2 plan=pp=2 all" --dtc-partition %s 2>&1 | FileCheck %s --check-prefix=NO-STAGES
// RUN: dtc-opt --dtc-train="optimizer=adamw" "--dtc-plan=devices=2 plan=dp=2,zero=1,offload=optimizer" --dtc-pipeline=partition %s | FileCheck %s --check-prefix=HOST
// RUN: not dtc-opt --dtc-train="optimizer=adamw" "--dtc-plan=devices=1 plan=recompute=full all" --dtc-partition %s 2>&1 | FileCheck %s --check-prefix=NO-RECOMPUTATION

// All that a plan says is written into the module, and refused by the phase that can't do it, or
// comes too early.

// STAGES: dist.mesh @mesh {{.*}}dist.devices = [array<i64: 0>, array<i64: 1>]
// STAGES-LABEL: func.func @loss_and_grads(
// STAGES: dtc.contract {{.*}}dist.stage = 0 : i64
// STAGES: dist.stage = 1 : i64
// The backward pass begins where the forward pass ended.
// STAGES: dist.stage = 1 : i64{{.*}}dtc.backward
// STAGES: dist.stage = 0 : i64{{.*}}dtc.backward
// NO-STAGES: error: the step must be cut into stages before, this belongs to: 0

// STORAGE-LABEL: func.func @loss_and_grads(
// STORAGE-SAME: dist.storage = #dist.axes<{"dp"}>, dtc.role = #dtc.role<parameter, "w0">
// STORAGE-SAME: dist.storage = #dist.axes<{"dp"}>, dtc.role = #dtc.role<gradient, "w0">
// STORAGE-LABEL: func.func @update(
// STORAGE-SAME: dist.storage = #dist.axes<{"dp"}>, dtc.role = #dtc.role<state, "w0", exp_avg>

// Partitioning keeps what lies on the host there, divided or not.
// HOST-LABEL: func.func @update(
// HOST-NOT: tensor<64x64xf32> {{[^%]*}}dist.on_host{{[^%]*}}<parameter
// HOST: tensor<2048xf32> {dist.flat = {{[^%]*}}dist.on_host, dist.sharding = {{[^%]*}}#dtc.role<state, "w0", exp_avg>

// RECOMPUTE-LABEL: func.func @loss_and_grads(
// RECOMPUTE: dtc.activation {{.*}}dist.recompute = #dist.recompute<full, 0>
// RECOMPUTE: dist.recompute = #dist.recompute<full, 1>
// RECOMPUTE-NOT: dist.recompute{{.*}}dtc.backward
// RECOMPUTE-LABEL: func.func @prologue
// NO-RECOMPUTATION: error: what is computed again must be cloned before: #dist.recompute<full, 0>
module {
  dtc.parameter trainable @w0 : tensor<64x64xf32> file tensor<64x64xf32>
  dtc.parameter trainable @w1 : tensor<64x64xf32> file tensor<64x64xf32>
  dtc.parameter trainable @w2 : tensor<64x64xf32> file tensor<64x64xf32>
  dtc.parameter trainable @w3 : tensor<64x64xf32> file tensor<64x64xf32>
  func.func @forward(
      %w0: tensor<64x64xf32> {dtc.role = #dtc.role<parameter, "w0">},
      %w1: tensor<64x64xf32> {dtc.role = #dtc.role<parameter, "w1">},
      %w2: tensor<64x64xf32> {dtc.role = #dtc.role<parameter, "w2">},
      %w3: tensor<64x64xf32> {dtc.role = #dtc.role<parameter, "w3">},
      %x: tensor<16x64xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<16x64xf32> {dtc.role = #dtc.role<output, "logits">}) {
    %0 = dtc.contract %x [0, 2], %w0 [2, 1] -> [0, 1] : tensor<16x64xf32>, tensor<64x64xf32> -> tensor<16x64xf32>
    %1 = dtc.activation gelu %0 : tensor<16x64xf32>
    %2 = dtc.contract %1 [0, 2], %w1 [2, 1] -> [0, 1] : tensor<16x64xf32>, tensor<64x64xf32> -> tensor<16x64xf32>
    %3 = dtc.activation gelu %2 : tensor<16x64xf32>
    %4 = dtc.contract %3 [0, 2], %w2 [2, 1] -> [0, 1] : tensor<16x64xf32>, tensor<64x64xf32> -> tensor<16x64xf32>
    %5 = dtc.activation gelu %4 : tensor<16x64xf32>
    %6 = dtc.contract %5 [0, 2], %w3 [2, 1] -> [0, 1] : tensor<16x64xf32>, tensor<64x64xf32> -> tensor<16x64xf32>
    %7 = dtc.activation gelu %6 : tensor<16x64xf32>
    return %7 : tensor<16x64xf32>
  }
}
