// A lane has four neighbouring columns where these are enough for all blocks.
// RUN: dtc-opt --target=cuda %s --dtc-form-kernels | FileCheck %s --check-prefix=KERNEL
// RUN: dtc-opt --target=cuda %s --dtc-form-kernels --test-emit-ptx -o /dev/null | FileCheck %s
// RUN: %if gpu %{ dtc-opt --target=cuda %s --dtc-form-kernels --test-run-cuda-kernels="tolerance=1e-4" -o /dev/null %}

// KERNEL: exec.kernel @columns_0 extent 8448 scratch 0 geometry <blocks = 264, threads = 256>

// CHECK: .entry columns_0(
// CHECK: ld.global{{(\.nc)?}}.v4.b16
// CHECK: ret;
func.func @wide(%g: tensor<300x33792xbf16>) -> tensor<33792xf32> {
  %0 = arith.extf %g : tensor<300x33792xbf16> to tensor<300x33792xf32>
  %1 = dtc.reduce sum %0 [0] : tensor<300x33792xf32> -> tensor<33792xf32>
  return %1 : tensor<33792xf32>
}
