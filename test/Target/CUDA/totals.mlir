// Totals of tensors of all sizes, in parts that blocks share: a thread reads whole accesses, several
// before it adds them up, and reads nothing behind the end of a tensor.
// RUN: dtc-opt --target=cuda %s --dtc-batch-totals --dtc-decompose-layers --dtc-form-kernels --test-emit-ptx -o /dev/null | FileCheck %s
// REQUIRES: gpu
// RUN: dtc-opt --target=cuda %s --dtc-batch-totals --dtc-decompose-layers --dtc-form-kernels --test-run-cuda-kernels -o /dev/null

// CHECK: .visible .entry rows_0(
// CHECK: .reqntid 256
// CHECK-COUNT-4: ld.global.nc.v4.{{[fb]}}32
// CHECK-NOT: .local
// CHECK: bar.sync
// CHECK: ret;
func.func @norms(%a: tensor<3000xf32>, %b: tensor<96x64xf32>, %c: tensor<8xf32>, %d: tensor<4099xf32>,
                 %e: tensor<7xf32>, %f: tensor<8x1024xbf16>, %g: tensor<200xbf16>,
                 %s: tensor<f32>)
    -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) {
  %inf = arith.constant dense<0x7F800000> : tensor<3000xf32>
  %infb = arith.constant dense<0x7F800000> : tensor<96x64xf32>
  %infc = arith.constant dense<0x7F800000> : tensor<8xf32>
  %0 = arith.mulf %a, %a : tensor<3000xf32>
  %1 = dtc.reduce sum %0 [0] : tensor<3000xf32> -> tensor<f32>
  %2 = arith.mulf %b, %b : tensor<96x64xf32>
  %3 = dtc.reduce sum %2 [0, 1] : tensor<96x64xf32> -> tensor<f32>
  %4 = arith.mulf %c, %c : tensor<8xf32>
  %5 = dtc.reduce sum %4 [0] : tensor<8xf32> -> tensor<f32>
  %6 = math.absf %a : tensor<3000xf32>
  %7 = arith.cmpf uge, %6, %inf : tensor<3000xf32>
  %8 = arith.uitofp %7 : tensor<3000xi1> to tensor<3000xf32>
  %9 = dtc.reduce sum %8 [0] : tensor<3000xf32> -> tensor<f32>
  %10 = math.absf %b : tensor<96x64xf32>
  %11 = arith.cmpf uge, %10, %infb : tensor<96x64xf32>
  %12 = arith.uitofp %11 : tensor<96x64xi1> to tensor<96x64xf32>
  %13 = dtc.reduce sum %12 [0, 1] : tensor<96x64xf32> -> tensor<f32>
  %14 = math.absf %c : tensor<8xf32>
  %15 = arith.cmpf uge, %14, %infc : tensor<8xf32>
  %16 = arith.uitofp %15 : tensor<8xi1> to tensor<8xf32>
  %17 = dtc.reduce sum %16 [0] : tensor<8xf32> -> tensor<f32>
  %18 = dtc.sum %1, %3, %5 : tensor<f32>
  %19 = dtc.sum %9, %13, %17 : tensor<f32>
  %20 = math.absf %d : tensor<4099xf32>
  %21 = dtc.reduce sum %20 [0] : tensor<4099xf32> -> tensor<f32>
  %22 = math.absf %e : tensor<7xf32>
  %23 = dtc.reduce sum %22 [0] : tensor<7xf32> -> tensor<f32>
  %24 = arith.extf %f : tensor<8x1024xbf16> to tensor<8x1024xf32>
  %25 = dtc.broadcast %s [] : tensor<f32> -> tensor<8x1024xf32>
  %26 = arith.mulf %24, %25 : tensor<8x1024xf32>
  %27 = dtc.reduce sum %26 [0, 1] : tensor<8x1024xf32> -> tensor<f32>
  %28 = arith.extf %g : tensor<200xbf16> to tensor<200xf32>
  %29 = dtc.broadcast %s [] : tensor<f32> -> tensor<200xf32>
  %30 = arith.mulf %28, %29 : tensor<200xf32>
  %31 = dtc.reduce sum %30 [0] : tensor<200xf32> -> tensor<f32>
  %32 = dtc.sum %21, %23, %27, %31 : tensor<f32>
  return %18, %19, %32, %s : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}

// Parts of 16,384 elements, of which a thread reads 64 in a loop.
exec.kernel @looped extent 5000 scratch 0 flat geometry <blocks = 3, threads = 256> pieces 2 {
^bb0(%x: tensor<20000xf32>, %y: tensor<104xf32>):
  %0 = math.absf %x : tensor<20000xf32>
  %1 = dtc.pad %0 low [0] interior [0] value 0.0 : tensor<20000xf32> -> tensor<32768xf32>
  %2 = dtc.reshape %1 : tensor<32768xf32> -> tensor<2x16384xf32>
  %3 = dtc.reduce sum %2 [1] : tensor<2x16384xf32> -> tensor<2xf32>
  %4 = math.absf %y : tensor<104xf32>
  %5 = dtc.pad %4 low [0] interior [0] value 0.0 : tensor<104xf32> -> tensor<16384xf32>
  %6 = dtc.reshape %5 : tensor<16384xf32> -> tensor<1x16384xf32>
  %7 = dtc.reduce sum %6 [1] : tensor<1x16384xf32> -> tensor<1xf32>
  %8 = dtc.concat 0(%3, %7) : tensor<2xf32>, tensor<1xf32> -> tensor<3xf32>
  exec.yield %8 : tensor<3xf32>
}
