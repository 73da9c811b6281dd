// RUN: dtc-opt %s --dtc-layers-to-kernels | FileCheck %s

// Ranks with other parameters launch the same kernels: one for the totals of each shape, whatever
// is added up, and one for the updates. Each rank has copies of those that it launches.
// CHECK-LABEL: module @rank0
// CHECK-DAG: exec.kernel @[[SMALL:pointwise_[0-9]+]] extent 1 {{.*}}{{[[:space:]].*}}tensor<4xf32>
// CHECK-DAG: exec.kernel @[[LARGE:rows_[0-9]+]] extent 1 {{.*}}{{[[:space:]].*}}tensor<32xf32>
// CHECK-DAG: exec.kernel @[[SUM:pointwise_[0-9]+]] extent 1
// CHECK-DAG: exec.kernel @[[UPDATE:pointwise_[0-9]+]] extent 4 {{.*}} flat
// CHECK: func.func @update
// CHECK-NEXT: %[[A:.*]] = exec.launch @[[SMALL]](%arg0)
// CHECK-NEXT: %[[B:.*]] = exec.launch @[[LARGE]](%arg1)
// CHECK-NEXT: exec.launch @[[SUM]](%[[A]], %[[B]])
// CHECK-NEXT: exec.launch @[[UPDATE]](
// CHECK-NEXT: return
module @rank0 {
  func.func @update(%p: tensor<4xf32>, %q: tensor<32xf32>, %g: tensor<4xf32>, %lr: tensor<f64>,
                    %scale: tensor<f32>) -> (tensor<f32>, tensor<4xf32>) {
    %0 = dtc.reduce sum %p [0] : tensor<4xf32> -> tensor<f32>
    %1 = dtc.reduce sum %q [0] : tensor<32xf32> -> tensor<f32>
    %2 = dtc.sum %0, %1 : tensor<f32>
    %3 = "dtc.sgd_update"(%p, %g, %lr, %scale) {momentum = 0.0, weightDecay = 0.1} : (tensor<4xf32>, tensor<4xf32>, tensor<f64>, tensor<f32>) -> tensor<4xf32>
    return %2, %3 : tensor<f32>, tensor<4xf32>
  }
}

// CHECK-LABEL: module @rank1
// CHECK-DAG: exec.kernel @[[SMALL]] extent 1
// CHECK-DAG: exec.kernel @[[UPDATE]] extent 4
// CHECK: func.func @update
// CHECK-NEXT: %[[A:.*]] = exec.launch @[[SMALL]](%arg0)
// CHECK-NEXT: %[[B:.*]] = exec.launch @[[SMALL]](%arg1)
// CHECK-NEXT: exec.launch @[[SUM]](%[[A]], %[[B]])
// CHECK-NEXT: exec.launch @[[UPDATE]](
// CHECK-NEXT: return
module @rank1 {
  func.func @update(%p: tensor<4xf32>, %q: tensor<4xf32>, %g: tensor<4xf32>, %lr: tensor<f64>,
                    %scale: tensor<f32>) -> (tensor<f32>, tensor<4xf32>) {
    %0 = dtc.reduce sum %p [0] : tensor<4xf32> -> tensor<f32>
    %1 = dtc.reduce sum %q [0] : tensor<4xf32> -> tensor<f32>
    %2 = dtc.sum %0, %1 : tensor<f32>
    %3 = "dtc.sgd_update"(%p, %g, %lr, %scale) {momentum = 0.0, weightDecay = 0.1} : (tensor<4xf32>, tensor<4xf32>, tensor<f64>, tensor<f32>) -> tensor<4xf32>
    return %2, %3 : tensor<f32>, tensor<4xf32>
  }
}

// A total that is added to what was there before is in one kernel with that.
// CHECK-LABEL: module @loss
// CHECK: func.func @pass
// CHECK-NEXT: exec.launch @rows_
// CHECK-NEXT: return
module @loss {
  func.func @pass(%before: tensor<f32>, %losses: tensor<32xf32>) -> tensor<f32> {
    %0 = dtc.reduce sum %losses [0] : tensor<32xf32> -> tensor<f32>
    %1 = dtc.sum %before, %0 : tensor<f32>
    return %1 : tensor<f32>
  }
}
