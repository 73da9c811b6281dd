// RUN: dtc-opt %s -split-input-file --dtc-decompose-layers --dtc-form-kernels | FileCheck %s

// A bias is added and the activation computed in one pass, over the matrix product's buffer.
// CHECK: exec.kernel @pointwise_0 extent 32
// CHECK-LABEL: func @bias_gelu
// CHECK-NEXT: dtc.contract
// CHECK-NEXT: exec.launch @pointwise_0(%{{.*}}, %{{.*}}) extent 32 in_place [1]
// CHECK-NEXT: return
func.func @bias_gelu(%x: tensor<32x16xf32>, %w: tensor<16x64xf32>, %b: tensor<64xf32>) -> tensor<32x64xf32> {
  %y = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] : tensor<32x16xf32>, tensor<16x64xf32> -> tensor<32x64xf32>
  %0 = dtc.broadcast %b [1] : tensor<64xf32> -> tensor<32x64xf32>
  %1 = arith.addf %y, %0 : tensor<32x64xf32>
  %2 = dtc.activation gelu %1 : tensor<32x64xf32>
  return %2 : tensor<32x64xf32>
}

// -----

// A sum is stored as it is rounded, also where parts of it are read.
// CHECK-LABEL: func @rounded
// CHECK: %[[S:.*]] = exec.launch @rows_{{[0-9]+}}(%arg0) {{.*}} -> tensor<64x128xbf16>
// CHECK: exec.launch {{.*}}(%[[S]])
func.func @rounded(%x: tensor<64x128x32xf32>) -> tensor<64x64xbf16> {
  %0 = dtc.reduce sum %x [2] : tensor<64x128x32xf32> -> tensor<64x128xf32>
  %1 = arith.truncf %0 : tensor<64x128xf32> to tensor<64x128xbf16>
  %2 = dtc.slice %1 offsets [0, 0] strides [1, 1] : tensor<64x128xbf16> -> tensor<64x64xbf16>
  %3 = dtc.slice %1 offsets [0, 64] strides [1, 1] : tensor<64x128xbf16> -> tensor<64x64xbf16>
  %4 = arith.mulf %2, %3 : tensor<64x64xbf16>
  return %4 : tensor<64x64xbf16>
}

// -----

// So is one whose only reader could round it.
// CHECK-LABEL: func @rounded_columns
// CHECK-NEXT: %[[S:.*]] = exec.launch @columns_{{[0-9]+}}(%arg0) {{.*}} -> tensor<64x128xbf16>
// CHECK-NEXT: exec.launch @rows_{{[0-9]+}}(%[[S]])
// CHECK-NEXT: return
func.func @rounded_columns(%x: tensor<64x32x128xf32>) -> tensor<64xf32> {
  %0 = dtc.reduce sum %x [1] : tensor<64x32x128xf32> -> tensor<64x128xf32>
  %1 = arith.truncf %0 : tensor<64x128xf32> to tensor<64x128xbf16>
  %2 = arith.extf %1 : tensor<64x128xbf16> to tensor<64x128xf32>
  %3 = dtc.reduce sum %2 [1] : tensor<64x128xf32> -> tensor<64xf32>
  return %3 : tensor<64xf32>
}

// -----

// A product that two kernels read rounded is stored rounded.
// CHECK-LABEL: func @rounded_product
// CHECK-NEXT: exec.launch @rows_{{.*}} -> (tensor<64x128xbf16>, tensor<64xf32>)
// CHECK-NEXT: exec.launch @columns_{{.*}} : (tensor<64x128xbf16>) -> tensor<128xf32>
// CHECK-NEXT: return
func.func @rounded_product(%a: tensor<64x128xf32>, %b: tensor<64x128xf32>) -> (tensor<64xf32>, tensor<128xf32>) {
  %0 = arith.mulf %a, %b : tensor<64x128xf32>
  %1 = arith.truncf %0 : tensor<64x128xf32> to tensor<64x128xbf16>
  %2 = arith.extf %1 : tensor<64x128xbf16> to tensor<64x128xf32>
  %3 = dtc.reduce sum %2 [1] : tensor<64x128xf32> -> tensor<64xf32>
  %4 = dtc.reduce sum %2 [0] : tensor<64x128xf32> -> tensor<128xf32>
  return %3, %4 : tensor<64xf32>, tensor<128xf32>
}

// -----

// Too dear to be computed by both kernels that read it, a value of f32 isn't stored where it follows
// from one in half precision.
// CHECK-LABEL: func @narrow
// CHECK-NEXT: exec.launch @rows_{{.*}} -> (tensor<64x128xbf16>, tensor<64xf32>)
// CHECK-NEXT: exec.launch @columns_{{.*}} : (tensor<64x128xbf16>) -> tensor<128xf32>
// CHECK-NEXT: return
func.func @narrow(%a: tensor<64x128xbf16>) -> (tensor<64xf32>, tensor<128xf32>) {
  %0 = math.exp %a : tensor<64x128xbf16>
  %1 = arith.extf %0 : tensor<64x128xbf16> to tensor<64x128xf32>
  %2 = math.exp %1 : tensor<64x128xf32>
  %3 = math.exp %2 : tensor<64x128xf32>
  %4 = dtc.reduce sum %3 [1] : tensor<64x128xf32> -> tensor<64xf32>
  %5 = dtc.reduce sum %3 [0] : tensor<64x128xf32> -> tensor<128xf32>
  return %4, %5 : tensor<64xf32>, tensor<128xf32>
}

// -----

// A kernel that gives a whole tensor to others isn't made one with a kernel that reads numbers of its
// rows alone. The tensor would be in memory beside what that one makes.
// CHECK-LABEL: func @no_waiting
// CHECK-NEXT: %[[R:.*]]:2 = exec.launch @rows_{{[0-9]+}}(%arg0)
// CHECK-NEXT: exec.launch @pointwise_{{[0-9]+}}(%{{.*}}, %{{.*}})
// CHECK-NEXT: return
func.func @no_waiting(%s: tensor<64x128xf32>, %d: tensor<64x128xf32>) -> (tensor<64x128xf32>, tensor<64x128xf32>) {
  %0 = dtc.reduce max %s [1] : tensor<64x128xf32> -> tensor<64xf32>
  %1 = dtc.broadcast %0 [0] : tensor<64xf32> -> tensor<64x128xf32>
  %2 = arith.subf %s, %1 : tensor<64x128xf32>
  %3 = math.exp %2 : tensor<64x128xf32>
  %4 = arith.mulf %d, %1 : tensor<64x128xf32>
  return %3, %4 : tensor<64x128xf32>, tensor<64x128xf32>
}

// -----

// Residual addition, normalization and both statistics are one kernel.
// CHECK: exec.kernel @rows_0 extent 128
// CHECK-LABEL: func @residual_norm
// CHECK-NEXT: exec.launch @rows_0
// CHECK-NEXT: return
func.func @residual_norm(%x: tensor<8x16x48xf32>, %r: tensor<8x16x48xf32>, %g: tensor<48xf32>)
    -> (tensor<8x16x48xf32>, tensor<8x16x48xf32>, tensor<8x16xf32>, tensor<8x16xf32>) {
  %s = arith.addf %x, %r : tensor<8x16x48xf32>
  %0, %1, %2 = dtc.layer_norm %s scale %g : tensor<48xf32> eps 1.0e-5 : tensor<8x16x48xf32> -> tensor<8x16x48xf32>, tensor<8x16xf32>, tensor<8x16xf32>
  return %s, %0, %1, %2 : tensor<8x16x48xf32>, tensor<8x16x48xf32>, tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// The exponentials of a softmax wait in scratch memory for their sum.
// CHECK: exec.kernel @rows_0 extent 28 scratch 192
// CHECK-LABEL: func @softmax
// CHECK-NEXT: exec.launch @rows_0(%{{.*}}) extent 28 in_place [0]
func.func @softmax(%x: tensor<4x7x33xf32>) -> tensor<4x7x33xf32> {
  %0 = dtc.softmax %x 2 : tensor<4x7x33xf32>
  return %0 : tensor<4x7x33xf32>
}

// -----

// The gradient of a loss takes the place of the logits: the target's are picked before.
// CHECK-LABEL: func @loss
// CHECK: exec.launch @pointwise_{{[0-9]}}(%{{.*}}, %{{.*}}) extent 64
// CHECK-NEXT: exec.launch @rows_{{[0-9]}}({{.*}}) extent 64 in_place [2, 0]
func.func @loss(%x: tensor<4x16x96xf32>, %t: tensor<4x16xi64>, %g: tensor<4x16xf32>)
    -> (tensor<f32>, tensor<4x16x96xf32>) {
  %loss, %lse = dtc.cross_entropy %x, %t ignore -100 : tensor<4x16x96xf32>, tensor<4x16xi64> -> tensor<4x16xf32>, tensor<4x16xf32>
  %sum = dtc.reduce sum %loss [0, 1] : tensor<4x16xf32> -> tensor<f32>
  %grad = dtc.cross_entropy_grad %x, %t, %lse, %g ignore -100 : tensor<4x16x96xf32>, tensor<4x16xi64>, tensor<4x16xf32>, tensor<4x16xf32> -> tensor<4x16x96xf32>
  return %sum, %grad : tensor<f32>, tensor<4x16x96xf32>
}

// -----

// Parameters of all shapes share the update's kernel, which overwrites parameter and state.
// CHECK: exec.kernel @pointwise_0 extent 6 scratch 0 flat
// CHECK-NOT: exec.kernel
// CHECK-LABEL: func @update
// CHECK-NEXT: exec.launch @pointwise_0({{.*}}) extent 6 in_place
// CHECK-NEXT: exec.launch @pointwise_0({{.*}}) extent 35 in_place
// CHECK-NEXT: return
func.func @update(%p: tensor<2x3xf32>, %g: tensor<2x3xf32>, %q: tensor<5x7xf32>, %h: tensor<5x7xf32>, %lr: tensor<f64>, %s: tensor<f32>)
    -> (tensor<2x3xf32>, tensor<5x7xf32>) {
  %0 = "dtc.sgd_update"(%p, %g, %lr, %s) {momentum = 0.0, weightDecay = 0.1} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f64>, tensor<f32>) -> tensor<2x3xf32>
  %1 = "dtc.sgd_update"(%q, %h, %lr, %s) {momentum = 0.0, weightDecay = 0.1} : (tensor<5x7xf32>, tensor<5x7xf32>, tensor<f64>, tensor<f32>) -> tensor<5x7xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<5x7xf32>
}

// -----

// Both gradients of a normalization's parameters come from one pass over the rows.
// CHECK: exec.kernel @columns_0 extent 1
// CHECK-LABEL: func @scale_and_bias
// CHECK-NEXT: exec.launch @columns_0
// CHECK-NEXT: return
func.func @scale_and_bias(%x: tensor<32x48xf32>, %m: tensor<32xf32>, %r: tensor<32xf32>, %dy: tensor<32x48xf32>)
    -> (tensor<48xf32>, tensor<48xf32>) {
  %0, %1, %2 = dtc.layer_norm_grad %x, %m, %r, %dy : tensor<32x48xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32x48xf32> -> tensor<32x48xf32>, tensor<48xf32>, tensor<48xf32>
  return %1, %2 : tensor<48xf32>, tensor<48xf32>
}

// -----

// Reductions of the same rows read them once. So a gradient gives its squares and its faults.
// CHECK: exec.kernel @rows_0 extent 96
// CHECK-NOT: exec.kernel
// CHECK-LABEL: func @rows_in_common
// CHECK-NEXT: exec.launch @rows_0(%{{.*}}) extent 96
// CHECK-NEXT: return
func.func @rows_in_common(%g: tensor<96x128xf32>) -> (tensor<96xf32>, tensor<96xf32>) {
  %s = arith.mulf %g, %g : tensor<96x128xf32>
  %0 = dtc.reduce sum %s [1] : tensor<96x128xf32> -> tensor<96xf32>
  %a = math.absf %g : tensor<96x128xf32>
  %1 = dtc.reduce max %a [1] : tensor<96x128xf32> -> tensor<96xf32>
  return %0, %1 : tensor<96xf32>, tensor<96xf32>
}

// -----

// Where a kernel of rows gives whole tensors, its sibling stays apart, and frees its own earlier.
// CHECK-DAG: exec.kernel @rows_0
// CHECK-DAG: exec.kernel @rows_1
// CHECK-LABEL: func @tensors_of_rows
// CHECK-COUNT-2: exec.launch
// CHECK-NEXT: return
func.func @tensors_of_rows(%g: tensor<96x128xf32>) -> (tensor<96xf32>, tensor<96x128xf32>) {
  %s = arith.mulf %g, %g : tensor<96x128xf32>
  %0 = dtc.reduce sum %s [1] : tensor<96x128xf32> -> tensor<96xf32>
  %m = dtc.reduce max %g [1] : tensor<96x128xf32> -> tensor<96xf32>
  %b = dtc.broadcast %m [0] : tensor<96xf32> -> tensor<96x128xf32>
  %1 = arith.subf %g, %b : tensor<96x128xf32>
  return %0, %1 : tensor<96xf32>, tensor<96x128xf32>
}

// -----

// A reshape of what is stored stays a view; nothing runs.
// CHECK-NOT: exec.kernel
// CHECK-LABEL: func @view
// CHECK-NEXT: dtc.reshape
// CHECK-NEXT: return
func.func @view(%x: tensor<4x6xf32>) -> tensor<24xf32> {
  %0 = dtc.reshape %x : tensor<4x6xf32> -> tensor<24xf32>
  return %0 : tensor<24xf32>
}

// -----

// A transpose between contractions becomes their index lists.
// CHECK-NOT: exec.kernel
// CHECK-LABEL: func @transposed
// CHECK-NEXT: dtc.contract %{{.*}} [1, 0], %{{.*}} [1, 2] -> [2, 0]
// CHECK-NEXT: return
func.func @transposed(%x: tensor<4x6xf32>, %y: tensor<4x5xf32>) -> tensor<5x6xf32> {
  %t = dtc.transpose %x [1, 0] : tensor<4x6xf32> -> tensor<6x4xf32>
  %0 = dtc.contract %t [0, 1], %y [1, 2] -> [0, 2] : tensor<6x4xf32>, tensor<4x5xf32> -> tensor<6x5xf32>
  %1 = dtc.transpose %0 [1, 0] : tensor<6x5xf32> -> tensor<5x6xf32>
  return %1 : tensor<5x6xf32>
}

// -----

// Of each row one element is picked: what makes rows and indices is computed for those alone, however dear it is.
// CHECK-LABEL: func @picked
// CHECK-NEXT: exec.launch {{.*}}(%arg{{[0-3]}}, %arg{{[0-3]}}, %arg{{[0-3]}}, %arg{{[0-3]}}) {{.*}} -> tensor<64xf32>
// CHECK-NEXT: return
func.func @picked(%x: tensor<64x128xf32>, %y: tensor<64x128xf32>, %i: tensor<64xi64>, %j: tensor<64xi64>) -> tensor<64xf32> {
  %0 = math.powf %x, %y : tensor<64x128xf32>
  %1 = arith.addi %i, %j : tensor<64xi64>
  %2 = dtc.pick %0, %1 : tensor<64x128xf32>, tensor<64xi64> -> tensor<64xf32>
  return %2 : tensor<64xf32>
}

// -----

// So a dear value that a sum and a pick read isn't stored.
// CHECK-LABEL: func @summed_and_picked
// CHECK-DAG: exec.launch {{.*}}(%arg0) {{.*}} -> tensor<64xf32>
// CHECK-DAG: exec.launch {{.*}}(%arg{{[01]}}, %arg{{[01]}}) {{.*}} -> tensor<64xf32>
// CHECK-NEXT: return
func.func @summed_and_picked(%x: tensor<64x128xf32>, %i: tensor<64xi64>) -> (tensor<64xf32>, tensor<64xf32>) {
  %0 = math.exp %x : tensor<64x128xf32>
  %1 = dtc.reduce sum %0 [1] : tensor<64x128xf32> -> tensor<64xf32>
  %2 = dtc.pick %0, %i : tensor<64x128xf32>, tensor<64xi64> -> tensor<64xf32>
  return %1, %2 : tensor<64xf32>, tensor<64xf32>
}

// -----

// Several kernels read a value rounded, and none as it was. It is stored as they read it.
// CHECK-LABEL: func @read_rounded
// CHECK: exec.launch {{.*}} -> (tensor<64x128xbf16>, tensor<64xf32>)
// CHECK-NEXT: exec.launch {{.*}} : (tensor<64x128xbf16>) -> tensor<128xf32>
// CHECK-NEXT: return
func.func @read_rounded(%x: tensor<64x128xf32>, %y: tensor<64x128xf32>) -> (tensor<64xf32>, tensor<128xf32>) {
  %0 = arith.mulf %x, %y : tensor<64x128xf32>
  %1 = arith.truncf %0 : tensor<64x128xf32> to tensor<64x128xbf16>
  %2 = arith.extf %1 : tensor<64x128xbf16> to tensor<64x128xf32>
  %3 = dtc.reduce sum %2 [1] : tensor<64x128xf32> -> tensor<64xf32>
  %4 = dtc.reduce sum %2 [0] : tensor<64x128xf32> -> tensor<128xf32>
  return %3, %4 : tensor<64xf32>, tensor<128xf32>
}

// -----

// Zeros may be put behind a tensor in its place, where that has the room. Elsewhere they may not.
// CHECK-LABEL: func @zeros_behind
// CHECK: exec.launch @{{.*}} extent {{.*}} in_place [0] : {{.*}} -> tensor<16xf32>
// CHECK: exec.launch @{{.*}}(%arg1) extent {{.*}} in_place [-1] : {{.*}} -> tensor<18xf32>
// CHECK: return
func.func @zeros_behind(%g: tensor<3x5xf32>, %x: tensor<15xf32>) -> (tensor<16xf32>, tensor<18xf32>) {
  %flat = dtc.reshape %g : tensor<3x5xf32> -> tensor<15xf32>
  %0 = dtc.pad %flat low [0] interior [0] value 0.0 : tensor<15xf32> -> tensor<16xf32>
  %1 = dtc.pad %x low [3] interior [0] value 0.0 : tensor<15xf32> -> tensor<18xf32>
  return %0, %1 : tensor<16xf32>, tensor<18xf32>
}

// -----

// Two products find the weights of each row's expert in the table, however few rows there are. What is
// looked up for anything else is stored.
// CHECK-LABEL: func @weights_of_rows
// CHECK-NEXT: %[[BIAS:.*]] = exec.launch @pointwise_{{[0-9]+}}(%arg3, %arg4) {{.*}} -> tensor<8x16xf32>
// CHECK-NEXT: exec.launch @{{[a-z]+_[0-9]+}}(%arg0, %arg2, %arg4) {{.*}} -> tensor<8x32xf32>
// CHECK-NEXT: exec.launch @{{[a-z]+_[0-9]+}}(%arg1, %arg2, %arg4, %[[BIAS]]) {{.*}} -> tensor<8x16xf32>
// CHECK-NEXT: exec.launch @{{[a-z]+_[0-9]+}}(%[[BIAS]]) {{.*}} -> tensor<16xf32>
// CHECK-NEXT: return
func.func @weights_of_rows(%x: tensor<8x16xf32>, %dy: tensor<8x32xf32>, %w: tensor<4x32x16xf32>, %b: tensor<4x16xf32>, %e: tensor<8xi64>)
    -> (tensor<8x32xf32>, tensor<8x16xf32>, tensor<16xf32>) {
  %rows = dtc.gather %w, %e axis 0 : tensor<4x32x16xf32>, tensor<8xi64> -> tensor<8x32x16xf32>
  %bias = dtc.gather %b, %e axis 0 : tensor<4x16xf32>, tensor<8xi64> -> tensor<8x16xf32>
  %0 = dtc.broadcast %x [0, 2] : tensor<8x16xf32> -> tensor<8x32x16xf32>
  %1 = arith.mulf %0, %rows : tensor<8x32x16xf32>
  %y = dtc.reduce sum %1 [2] : tensor<8x32x16xf32> -> tensor<8x32xf32>
  %2 = dtc.broadcast %dy [0, 1] : tensor<8x32xf32> -> tensor<8x32x16xf32>
  %3 = arith.mulf %2, %rows : tensor<8x32x16xf32>
  %4 = dtc.reduce sum %3 [1] : tensor<8x32x16xf32> -> tensor<8x16xf32>
  %dx = arith.addf %4, %bias : tensor<8x16xf32>
  %db = dtc.reduce sum %bias [0] : tensor<8x16xf32> -> tensor<16xf32>
  return %y, %dx, %db : tensor<8x32xf32>, tensor<8x16xf32>, tensor<16xf32>
}
