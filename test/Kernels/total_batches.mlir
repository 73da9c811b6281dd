// Totals that go into the same sums are pieces of one kernel on GPUs; processors reduce each alone.
// RUN: dtc-opt --target=cuda %s -split-input-file --dtc-batch-totals | FileCheck %s
// RUN: dtc-opt %s -split-input-file --dtc-batch-totals | FileCheck %s --check-prefix=CPU

// The largest comes first. What isn't a multiple of eight elements is read element by element, by a
// kernel of its own; one tensor alone keeps its reductions. Each tensor is read once for both sums.
// CHECK: exec.kernel @rows_0 extent 1536 scratch 0 flat geometry <blocks = 3, threads = 256> pieces 2
// CHECK-NEXT: ^bb0(%[[G:.*]]: tensor<6144xf32>, %[[H:.*]]: tensor<64xf32>):
// CHECK: dtc.pad %{{.*}} low [0] interior [0] value 0.000000e+00 : tensor<6144xf32> -> tensor<8192xf32>
// CHECK: dtc.reduce sum %{{.*}} [1] : tensor<2x4096xf32> -> tensor<2xf32>
// CHECK: dtc.concat 0(%{{.*}}, %{{.*}}) : tensor<2xf32>, tensor<1xf32> -> tensor<3xf32>
// CHECK: dtc.concat 0(%{{.*}}, %{{.*}}) : tensor<2xf32>, tensor<1xf32> -> tensor<3xf32>
// CHECK-LABEL: func.func @norms
// CHECK: %[[ODD:.*]] = dtc.reduce sum %{{.*}} [0] : tensor<9xf32> -> tensor<f32>
// CHECK: %[[SUMS:.*]]:2 = exec.launch @rows_0(%arg1, %arg0) extent 1536 in_place [-1, -1]
// CHECK-SAME: (tensor<96x64xf32>, tensor<64xf32>) -> (tensor<3xf32>, tensor<3xf32>)
// CHECK-NEXT: %[[FIRST:.*]] = dtc.reduce sum %[[SUMS]]#0 [0]
// CHECK-NEXT: %[[SECOND:.*]] = dtc.reduce sum %[[SUMS]]#1 [0]
// CHECK-NEXT: %[[NORM:.*]] = dtc.sum %[[FIRST]], %[[ODD]] : tensor<f32>
// CHECK-NEXT: return %[[NORM]], %[[SECOND]]
// CPU-LABEL: func.func @norms
// CPU-NOT: exec.launch
func.func @norms(%g: tensor<64xf32>, %h: tensor<96x64xf32>, %i: tensor<9xf32>) -> (tensor<f32>, tensor<f32>) {
  %0 = arith.mulf %g, %g : tensor<64xf32>
  %1 = dtc.reduce sum %0 [0] : tensor<64xf32> -> tensor<f32>
  %2 = arith.mulf %h, %h : tensor<96x64xf32>
  %3 = dtc.reduce sum %2 [1] : tensor<96x64xf32> -> tensor<96xf32>
  %4 = dtc.reduce sum %3 [0] : tensor<96xf32> -> tensor<f32>
  %5 = arith.mulf %i, %i : tensor<9xf32>
  %6 = dtc.reduce sum %5 [0] : tensor<9xf32> -> tensor<f32>
  %7 = math.absf %g : tensor<64xf32>
  %8 = dtc.reduce sum %7 [0] : tensor<64xf32> -> tensor<f32>
  %9 = math.absf %h : tensor<96x64xf32>
  %10 = dtc.reduce sum %9 [1] : tensor<96x64xf32> -> tensor<96xf32>
  %11 = dtc.reduce sum %10 [0] : tensor<96xf32> -> tensor<f32>
  %12 = dtc.sum %1, %4, %6 : tensor<f32>
  %13 = dtc.sum %8, %11 : tensor<f32>
  return %12, %13 : tensor<f32>, tensor<f32>
}

// -----

// Larger parts keep the partial sums few.
// CHECK: exec.kernel @rows_0 {{.*}} geometry <blocks = 6145, threads = 256> pieces 2
// CHECK-LABEL: func.func @large
func.func @large(%g: tensor<12288x4096xbf16>, %h: tensor<64xbf16>) -> tensor<f32> {
  %0 = arith.extf %g : tensor<12288x4096xbf16> to tensor<12288x4096xf32>
  %1 = arith.mulf %0, %0 : tensor<12288x4096xf32>
  %2 = dtc.reduce sum %1 [0, 1] : tensor<12288x4096xf32> -> tensor<f32>
  %3 = arith.extf %h : tensor<64xbf16> to tensor<64xf32>
  %4 = arith.mulf %3, %3 : tensor<64xf32>
  %5 = dtc.reduce sum %4 [0] : tensor<64xf32> -> tensor<f32>
  %6 = dtc.sum %2, %5 : tensor<f32>
  return %6 : tensor<f32>
}

// -----

// Totals of other functions, of what a kernel makes, on the host, or that are also read otherwise,
// stay apart, as do maxima.
// CHECK-LABEL: func.func @apart
// CHECK-NOT: exec.launch
// CHECK: return
func.func @apart(%g: tensor<64xf32>, %h: tensor<64xf32>, %i: tensor<64xf32> {dist.on_host},
                 %x: tensor<64x8xf32>) -> (tensor<f32>, tensor<f32>) {
  %0 = arith.mulf %g, %g : tensor<64xf32>
  %1 = dtc.reduce sum %0 [0] : tensor<64xf32> -> tensor<f32>
  %2 = math.absf %h : tensor<64xf32>
  %3 = dtc.reduce sum %2 [0] : tensor<64xf32> -> tensor<f32>
  %4 = arith.mulf %i, %i : tensor<64xf32>
  %5 = dtc.reduce sum %4 [0] : tensor<64xf32> -> tensor<f32>
  %6 = arith.mulf %h, %h : tensor<64xf32>
  %7 = dtc.reduce sum %6 [0] : tensor<64xf32> -> tensor<f32>
  %8 = arith.mulf %g, %g : tensor<64xf32>
  %9 = dtc.reduce max %8 [0] : tensor<64xf32> -> tensor<f32>
  %10 = dtc.reduce sum %x [1] : tensor<64x8xf32> -> tensor<64xf32>
  %11 = arith.mulf %10, %10 : tensor<64xf32>
  %12 = dtc.reduce sum %11 [0] : tensor<64xf32> -> tensor<f32>
  %13 = dtc.sum %1, %3, %5, %7, %9, %12 : tensor<f32>
  return %13, %7 : tensor<f32>, tensor<f32>
}
