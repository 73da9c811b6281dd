// Halves are rounded by one instruction, two at a time where they are stored. Beside them exponentials, and
// divisions by a sum with one, take few instructions. In fp32 they are exact.
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels --test-emit-ptx -o /dev/null | FileCheck %s
// RUN: %if gpu %{ dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels --test-run-cuda-kernels="scale=20" -o /dev/null %}

// CHECK: .entry pointwise_1(
// CHECK-NOT: approx
// CHECK: ret;
// CHECK: .entry pointwise_0(
// CHECK: ex2.approx.ftz.f32
// CHECK: rcp.approx.ftz.f32
// CHECK-NOT: div
// CHECK: cvt.rn.bf16x2.f32
// CHECK-NOT: 32767
// CHECK: ret;
func.func @gated(%x: tensor<64x64xbf16>, %y: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
  %0 = dtc.activation silu %x : tensor<64x64xbf16>
  %1 = arith.mulf %0, %y : tensor<64x64xbf16>
  return %1 : tensor<64x64xbf16>
}

func.func @single(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = dtc.activation silu %x : tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}
