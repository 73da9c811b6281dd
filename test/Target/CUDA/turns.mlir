// A thread of rotary positions does both halves of some heads, so that it reads each sine, cosine and element
// of a head once, by whole accesses, and knows which half it is at. So does that of the gradient.
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels | FileCheck %s --check-prefix=KERNEL
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels --test-emit-ptx -o /dev/null | FileCheck %s
// RUN: %if gpu %{ dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels --test-run-cuda-kernels -o /dev/null %}

// Of 1,048,576 elements, four turns of eight leave 32,768 threads. Eight turns would be too few threads.
// KERNEL-DAG: exec.kernel @pointwise_0 extent 32768 scratch 0 geometry <blocks = 128, threads = 256>
// KERNEL-DAG: exec.kernel @pointwise_1 extent 32768 scratch 0 geometry <blocks = 128, threads = 256>

// CHECK-LABEL: .entry pointwise_1(
// CHECK-COUNT-12: ld.global.nc.v4.
// CHECK-NOT: ld.global
// CHECK-NOT: selp
// CHECK-COUNT-4: st.global.v4.
// CHECK-NOT: st.global
// CHECK: ret;
func.func @rotated(%x: tensor<2x256x32x64xbf16>, %cos: tensor<256x64xf32>, %sin: tensor<256x64xf32>) -> tensor<2x256x32x64xbf16> {
  %0 = arith.extf %x : tensor<2x256x32x64xbf16> to tensor<2x256x32x64xf32>
  %c = dtc.broadcast %cos [1, 3] : tensor<256x64xf32> -> tensor<2x256x32x64xf32>
  %s = dtc.broadcast %sin [1, 3] : tensor<256x64xf32> -> tensor<2x256x32x64xf32>
  %low = dtc.slice %0 offsets [0, 0, 0, 0] strides [1, 1, 1, 1] : tensor<2x256x32x64xf32> -> tensor<2x256x32x32xf32>
  %high = dtc.slice %0 offsets [0, 0, 0, 32] strides [1, 1, 1, 1] : tensor<2x256x32x64xf32> -> tensor<2x256x32x32xf32>
  %minus = arith.negf %high : tensor<2x256x32x32xf32>
  %turned = dtc.concat 3 (%minus, %low) : tensor<2x256x32x32xf32>, tensor<2x256x32x32xf32> -> tensor<2x256x32x64xf32>
  %1 = arith.mulf %0, %c : tensor<2x256x32x64xf32>
  %2 = arith.mulf %turned, %s : tensor<2x256x32x64xf32>
  %3 = arith.addf %1, %2 : tensor<2x256x32x64xf32>
  %4 = arith.truncf %3 : tensor<2x256x32x64xf32> to tensor<2x256x32x64xbf16>
  return %4 : tensor<2x256x32x64xbf16>
}

// CHECK-LABEL: .entry pointwise_0(
// CHECK-COUNT-12: ld.global.nc.v4.
// CHECK-NOT: ld.global
// CHECK-COUNT-4: st.global.v4.
// CHECK-NOT: st.global
// CHECK: ret;
func.func @gradient(%g: tensor<2x256x32x64xbf16>, %cos: tensor<256x64xf32>, %sin: tensor<256x64xf32>) -> tensor<2x256x32x64xbf16> {
  %0 = arith.extf %g : tensor<2x256x32x64xbf16> to tensor<2x256x32x64xf32>
  %c = dtc.broadcast %cos [1, 3] : tensor<256x64xf32> -> tensor<2x256x32x64xf32>
  %s = dtc.broadcast %sin [1, 3] : tensor<256x64xf32> -> tensor<2x256x32x64xf32>
  %1 = arith.mulf %0, %c : tensor<2x256x32x64xf32>
  %2 = arith.mulf %0, %s : tensor<2x256x32x64xf32>
  %low = dtc.slice %2 offsets [0, 0, 0, 0] strides [1, 1, 1, 1] : tensor<2x256x32x64xf32> -> tensor<2x256x32x32xf32>
  %high = dtc.slice %2 offsets [0, 0, 0, 32] strides [1, 1, 1, 1] : tensor<2x256x32x64xf32> -> tensor<2x256x32x32xf32>
  %minus = arith.negf %low : tensor<2x256x32x32xf32>
  %a = dtc.pad %minus low [0, 0, 0, 32] interior [0, 0, 0, 0] value 0.0 : tensor<2x256x32x32xf32> -> tensor<2x256x32x64xf32>
  %b = dtc.pad %high low [0, 0, 0, 0] interior [0, 0, 0, 0] value 0.0 : tensor<2x256x32x32xf32> -> tensor<2x256x32x64xf32>
  %3 = dtc.sum %a, %b, %1 : tensor<2x256x32x64xf32>
  %4 = arith.truncf %3 : tensor<2x256x32x64xf32> to tensor<2x256x32x64xbf16>
  return %4 : tensor<2x256x32x64xbf16>
}

// Of fewer elements each thread has one unit.
// KERNEL-DAG: exec.kernel @pointwise_2 extent 16384 scratch 0 geometry <blocks = 64, threads = 256>
func.func @small(%x: tensor<4096x32xbf16>, %table: tensor<32xf32>) -> tensor<4096x32xbf16> {
  %0 = arith.extf %x : tensor<4096x32xbf16> to tensor<4096x32xf32>
  %t = dtc.broadcast %table [1] : tensor<32xf32> -> tensor<4096x32xf32>
  %low = dtc.slice %0 offsets [0, 0] strides [1, 1] : tensor<4096x32xf32> -> tensor<4096x16xf32>
  %high = dtc.slice %0 offsets [0, 16] strides [1, 1] : tensor<4096x32xf32> -> tensor<4096x16xf32>
  %turned = dtc.concat 1 (%high, %low) : tensor<4096x16xf32>, tensor<4096x16xf32> -> tensor<4096x32xf32>
  %1 = arith.mulf %turned, %t : tensor<4096x32xf32>
  %2 = arith.truncf %1 : tensor<4096x32xf32> to tensor<4096x32xbf16>
  return %2 : tensor<4096x32xbf16>
}
