// A thread has four neighbouring elements, which memory moves in one access. Operands that no
// result takes over are read past the coherent cache. Shapes of as many elements share a kernel.
// RUN: dtc-opt --target=cuda %s --dtc-form-kernels | FileCheck %s --check-prefix=KERNEL
// RUN: dtc-opt --target=cuda %s --dtc-form-kernels --test-emit-ptx -o /dev/null | FileCheck %s

// KERNEL: exec.kernel @pointwise_0 extent 2048 scratch 0 flat geometry <blocks = 8, threads = 256>
// KERNEL: exec.launch @pointwise_0({{.*}}) extent 2048 in_place [0]
// KERNEL: exec.launch @pointwise_0({{.*}}) extent 2048 in_place [0]

// CHECK: .target sm_80
// CHECK: .visible .entry pointwise_0(
// CHECK: .reqntid 256
// CHECK-DAG: ld.global.v4.{{[fb]}}32
// CHECK-DAG: ld.global.nc.v4.{{[fb]}}32
// CHECK: st.global.v4.{{[fb]}}32
// CHECK-NOT: .local
// CHECK: ret;
// CHECK-NOT: .entry
func.func @f(%x: tensor<8192xf32>, %z: tensor<8192xf32>) -> tensor<8192xf32> {
  %0 = arith.subf %x, %z : tensor<8192xf32>
  return %0 : tensor<8192xf32>
}

func.func @g(%x: tensor<128x64xf32>, %z: tensor<128x64xf32>) -> tensor<128x64xf32> {
  %0 = arith.subf %x, %z : tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}
