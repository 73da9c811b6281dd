// A lane has four neighbouring columns where these are enough for all blocks.
// RUN: dtc-opt --target=cuda %s --dtc-form-kernels | FileCheck %s --check-prefix=KERNEL
// RUN: dtc-opt --target=cuda %s --dtc-form-kernels --test-emit-ptx -o /dev/null | FileCheck %s
// RUN: %if gpu %{ dtc-opt --target=cuda %s --dtc-form-kernels --test-run-cuda-kernels="tolerance=1e-4" -o /dev/null %}

// KERNEL: exec.kernel @columns_0 extent 8448 scratch 0 geometry <blocks = 264, threads = 256>

// CHECK: .entry columns_0(
// CHECK: ld.global{{(\.nc)?}}.v2.b32
// CHECK: ret;
func.func @wide(%g: tensor<300x33792xbf16>) -> tensor<33792xf32> {
  %0 = arith.extf %g : tensor<300x33792xbf16> to tensor<300x33792xf32>
  %1 = dtc.reduce sum %0 [0] : tensor<300x33792xf32> -> tensor<33792xf32>
  return %1 : tensor<33792xf32>
}

// What is read of all rows of a turn comes before what is computed of any, in whole accesses: eight of two
// operands for four rows, and as many means and deviations.
// RUN: dtc-opt --target=cuda %s --dtc-form-kernels --test-emit-ptx -o /dev/null | sed -n '/entry columns_1(/,/bra/p' | grep -o 'ld.global.nc.v2\|ld.global.nc.b32\|rn.f32' | sed 's/nc.*/nc/' | uniq -c | head -1 | FileCheck %s --check-prefix=ORDER
// RUN: dtc-opt --target=cuda %s --dtc-form-kernels --test-emit-ptx -o /dev/null | sed -n '/entry columns_1(/,/bra/p' | grep -c 'ld.global.nc.v2.b32' | FileCheck %s --check-prefix=WIDE
// ORDER: 16 ld.global.nc
// WIDE: {{^}}8{{$}}
func.func @norm_grad(%g: tensor<300x33792xbf16>, %x: tensor<300x33792xbf16>, %mean: tensor<300xf32>, %rstd: tensor<300xf32>) -> tensor<33792xf32> {
  %0 = arith.extf %g : tensor<300x33792xbf16> to tensor<300x33792xf32>
  %1 = arith.extf %x : tensor<300x33792xbf16> to tensor<300x33792xf32>
  %2 = dtc.broadcast %mean [0] : tensor<300xf32> -> tensor<300x33792xf32>
  %3 = arith.subf %1, %2 : tensor<300x33792xf32>
  %4 = dtc.broadcast %rstd [0] : tensor<300xf32> -> tensor<300x33792xf32>
  %5 = arith.mulf %3, %4 : tensor<300x33792xf32>
  %6 = arith.mulf %0, %5 : tensor<300x33792xf32>
  %7 = dtc.reduce sum %6 [0] : tensor<300x33792xf32> -> tensor<33792xf32>
  return %7 : tensor<33792xf32>
}
