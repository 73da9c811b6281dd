// RUN: dtc-opt %s --dtc-form-kernels --dtc-build-schedule --dtc-plan-memory --dtc-verify-schedule | FileCheck %s

// Kernels are not fused across a barrier, and the barrier itself costs nothing: its result lies
// where its operand does.

dist.mesh @mesh ["dp" = 1]

// CHECK-LABEL: func.func @forward
func.func @forward(%x: tensor<64xf32> {dtc.role = #dtc.role<input, "x">})
    -> (tensor<64xf32> {dtc.role = #dtc.role<output, "y">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
  // CHECK: exec.launch {{.*}} {exec.offsets = array<i64: [[AT:[0-9]+]]>}
  // CHECK-NEXT: dtc.barrier {{.*}} {exec.offsets = array<i64: [[AT]]>}
  // CHECK-NEXT: exec.launch
  // CHECK-NEXT: return
  %a = math.exp %x : tensor<64xf32>
  %b = dtc.barrier %a : tensor<64xf32>
  %c = math.exp %b : tensor<64xf32>
  return %c : tensor<64xf32>
}
