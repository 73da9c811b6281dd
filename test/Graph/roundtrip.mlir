// RUN: dtc-opt %s | dtc-opt | FileCheck %s
// RUN: dtc-opt %s -mlir-print-op-generic | dtc-opt | FileCheck %s

// CHECK: dtc.parameter trainable @"h.0/w" : tensor<8x3x2x4xf32> file tensor<8x24xf32> aliases ["tied.weight"]
dtc.parameter trainable @"h.0/w" : tensor<8x3x2x4xf32> file tensor<8x24xf32> aliases ["tied.weight"]
// CHECK: dtc.parameter buffer @running_mean : tensor<8xf32> file tensor<8xf32>{{$}}
dtc.parameter buffer @running_mean : tensor<8xf32> file tensor<8xf32>

// CHECK-LABEL: func.func @roles
// CHECK-SAME: {dtc.role = #dtc.role<parameter, "h.0.w">}
// CHECK-SAME: {dtc.role = #dtc.role<state, "h.0.w", exp_avg_sq>}
// CHECK-SAME: {dtc.role = #dtc.role<scalar, "", lr>}
// CHECK-SAME: {dtc.role = #dtc.role<input, "a \22quoted\22 name">}
// CHECK-SAME: -> (tensor<f32> {dtc.role = #dtc.role<loss, "">})
func.func @roles(%0: tensor<8xf32> {dtc.role = #dtc.role<parameter, "h.0.w">},
                 %1: tensor<8xf32> {dtc.role = #dtc.role<state, "h.0.w", exp_avg_sq>},
                 %2: tensor<f64> {dtc.role = #dtc.role<scalar, "", lr>},
                 %3: tensor<f32> {dtc.role = #dtc.role<input, "a \"quoted\" name">})
    -> (tensor<f32> {dtc.role = #dtc.role<loss, "">}) {
  // CHECK: dtc.sum %{{.*}}, %{{.*}} {dtc.backward = #dtc.backward<7, weight_grad>} : tensor<f32>
  %4 = dtc.sum %3, %3 {dtc.backward = #dtc.backward<7, weight_grad>} : tensor<f32>
  return %4 : tensor<f32>
}

// CHECK-LABEL: func.func @primitives
func.func @primitives(%x: tensor<2x3x4xf32>, %w: tensor<4x5xbf16>, %y: tensor<2x4xbf16>,
                      %i: tensor<2x3xi64>, %img: tensor<1x2x4x4xf32>, %k: tensor<2x2x3x3xf32>) {
  // CHECK: dtc.iota 1 : tensor<2x3xi32>
  %0 = dtc.iota 1 : tensor<2x3xi32>
  // CHECK: dtc.broadcast %{{.*}} [0, 2, 3] : tensor<2x3x4xf32> -> tensor<2x5x3x4xf32>
  %1 = dtc.broadcast %x [0, 2, 3] : tensor<2x3x4xf32> -> tensor<2x5x3x4xf32>
  // CHECK: dtc.reshape %{{.*}} : tensor<2x3x4xf32> -> tensor<6x4xf32>
  %2 = dtc.reshape %x : tensor<2x3x4xf32> -> tensor<6x4xf32>
  // CHECK: dtc.transpose %{{.*}} [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  %3 = dtc.transpose %x [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  // CHECK: dtc.slice %{{.*}} offsets [0, 1, 0] strides [1, 1, 2] : tensor<2x3x4xf32> -> tensor<2x2x2xf32>
  %4 = dtc.slice %x offsets [0, 1, 0] strides [1, 1, 2] : tensor<2x3x4xf32> -> tensor<2x2x2xf32>
  // CHECK: dtc.pad %{{.*}} low [0, 1, 0] interior [0, 0, 1] value 1.000000e+00 : tensor<2x3x4xf32> -> tensor<2x5x7xf32>
  %5 = dtc.pad %x low [0, 1, 0] interior [0, 0, 1] value 1.0 : tensor<2x3x4xf32> -> tensor<2x5x7xf32>
  // CHECK: dtc.concat 0(%{{.*}}, %{{.*}}) : tensor<2x3x4xf32>, tensor<2x3x4xf32> -> tensor<4x3x4xf32>
  %6 = dtc.concat 0 (%x, %x) : tensor<2x3x4xf32>, tensor<2x3x4xf32> -> tensor<4x3x4xf32>
  // CHECK: dtc.reduce max %{{.*}} [0, 2] : tensor<2x3x4xf32> -> tensor<3xf32>
  %7 = dtc.reduce max %x [0, 2] : tensor<2x3x4xf32> -> tensor<3xf32>
  // CHECK: dtc.cumsum %{{.*}} 1 exclusive : tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  %8 = dtc.cumsum %x 1 exclusive : tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  // CHECK: dtc.contract %{{.*}} [0, 1], %{{.*}} [1, 2] -> [2, 0] : tensor<2x4xbf16>, tensor<4x5xbf16> -> tensor<5x2xf32>
  %9 = dtc.contract %y [0, 1], %w [1, 2] -> [2, 0] : tensor<2x4xbf16>, tensor<4x5xbf16> -> tensor<5x2xf32>
  // CHECK: dtc.gather %{{.*}}, %{{.*}} axis 1 : tensor<4x5xbf16>, tensor<2x3xi64> -> tensor<4x2x3xbf16>
  %10 = dtc.gather %w, %i axis 1 : tensor<4x5xbf16>, tensor<2x3xi64> -> tensor<4x2x3xbf16>
  // CHECK: dtc.scatter_add %{{.*}}, %{{.*}} axis 0 : tensor<2x3xi64>, tensor<2x3x4xf32> -> tensor<9x4xf32>
  %11 = dtc.scatter_add %i, %x axis 0 : tensor<2x3xi64>, tensor<2x3x4xf32> -> tensor<9x4xf32>
  // CHECK: %[[B:.*]] = dtc.bucket_indices %{{.*}} rows 9 of 4 : tensor<2x3xi64> -> tensor<2x8xi32>
  %buckets = dtc.bucket_indices %i rows 9 of 4 : tensor<2x3xi64> -> tensor<2x8xi32>
  // CHECK: dtc.scatter_add %{{.*}}, %{{.*}} axis 0 buckets %[[B]] of 4 : tensor<2x3xi64>, tensor<2x3x4xf32>, tensor<2x8xi32> -> tensor<9x4xf32>
  %sorted = dtc.scatter_add %i, %x axis 0 buckets %buckets of 4 : tensor<2x3xi64>, tensor<2x3x4xf32>, tensor<2x8xi32> -> tensor<9x4xf32>
  // CHECK: dtc.pick %{{.*}}, %{{.*}} : tensor<2x3x4xf32>, tensor<2x3xi64> -> tensor<2x3xf32>
  %12 = dtc.pick %x, %i : tensor<2x3x4xf32>, tensor<2x3xi64> -> tensor<2x3xf32>
  // CHECK: dtc.top_k %{{.*}} : tensor<2x3x4xf32> -> tensor<2x3x2xi64>
  %topk = dtc.top_k %x : tensor<2x3x4xf32> -> tensor<2x3x2xi64>
  // CHECK: dtc.top_k %{{.*}} smallest : tensor<4x5xbf16> -> tensor<4x5xi64>
  %lowest = dtc.top_k %w smallest : tensor<4x5xbf16> -> tensor<4x5xi64>
  // CHECK: dtc.conv %{{.*}}, %{{.*}} strides [2, 2] pad [1, 0], [1, 1] dilations [1, 1] groups 1 : tensor<1x2x4x4xf32>, tensor<2x2x3x3xf32> -> tensor<1x2x2x2xf32>
  %13 = dtc.conv %img, %k strides [2, 2] pad [1, 0], [1, 1] dilations [1, 1] groups 1 : tensor<1x2x4x4xf32>, tensor<2x2x3x3xf32> -> tensor<1x2x2x2xf32>
  // CHECK: dtc.max_pool %{{.*}} kernel [2, 2] strides [2, 2] pad [0, 0], [0, 0] dilations [1, 1] : tensor<1x2x4x4xf32> -> tensor<1x2x2x2xf32>
  %14 = dtc.max_pool %img kernel [2, 2] strides [2, 2] pad [0, 0], [0, 0] dilations [1, 1] : tensor<1x2x4x4xf32> -> tensor<1x2x2x2xf32>
  return
}

// CHECK-LABEL: func.func @layers
func.func @layers(%x: tensor<2x4x8xbf16>, %h: tensor<8xf32>, %q: tensor<2x3x4x2xf32>,
                  %k: tensor<2x5x2x2xf32>, %bias: tensor<2x4x3x5xf32>, %t: tensor<2x4xi64>, %row: tensor<2x2x5xf32>) {
  // CHECK: dtc.activation gelu_tanh %{{.*}} : tensor<2x4x8xbf16>
  %0 = dtc.activation gelu_tanh %x : tensor<2x4x8xbf16>
  // CHECK: dtc.activation_grad silu %{{.*}}, %{{.*}} : tensor<2x4x8xbf16>
  %1 = dtc.activation_grad silu %x, %x : tensor<2x4x8xbf16>
  // CHECK: dtc.softmax %{{.*}} 1 : tensor<2x4x8xbf16>
  %2 = dtc.softmax %x 1 : tensor<2x4x8xbf16>
  // CHECK: dtc.layer_norm %{{.*}} bias %{{.*}} : tensor<8xf32> eps 1.000000e-05 : tensor<2x4x8xbf16> -> tensor<2x4x8xbf16>, tensor<2x4xf32>, tensor<2x4xf32>
  %3:3 = dtc.layer_norm %x bias %h : tensor<8xf32> eps 1.0e-5 : tensor<2x4x8xbf16> -> tensor<2x4x8xbf16>, tensor<2x4xf32>, tensor<2x4xf32>
  // CHECK: dtc.rms_norm %{{.*}} scale %{{.*}} : tensor<8xf32> eps 1.000000e-05 : tensor<2x4x8xbf16> -> tensor<2x4x8xbf16>, tensor<2x4xf32>
  %4:2 = dtc.rms_norm %x scale %h : tensor<8xf32> eps 1.0e-5 : tensor<2x4x8xbf16> -> tensor<2x4x8xbf16>, tensor<2x4xf32>
  // CHECK: dtc.batch_norm %{{.*}} bias %{{.*}} : tensor<4xf32> eps 1.000000e-05 : tensor<2x4x8xbf16> -> tensor<2x4x8xbf16>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  %channels = arith.constant dense<1.0> : tensor<4xf32>
  %10:4 = dtc.batch_norm %x bias %channels : tensor<4xf32> eps 1.0e-5 : tensor<2x4x8xbf16> -> tensor<2x4x8xbf16>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  // CHECK: dtc.batch_norm %{{.*}} running %{{.*}} : tensor<4xf32>, %{{.*}} : tensor<4xf32> if %{{.*}} : tensor<f32> eps 1.000000e-05 :
  %evaluation = arith.constant dense<1.0> : tensor<f32>
  %12:4 = dtc.batch_norm %x running %channels : tensor<4xf32>, %channels : tensor<4xf32> if %evaluation : tensor<f32> eps 1.0e-5 : tensor<2x4x8xbf16> -> tensor<2x4x8xbf16>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  // CHECK: dtc.batch_norm_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} scale %{{.*}} : tensor<4xf32> : tensor<2x4x8xbf16>, tensor<4xf32>, tensor<4xf32>, tensor<2x4x8xbf16> -> tensor<2x4x8xbf16>, tensor<4xf32>, tensor<4xf32>
  %11:3 = dtc.batch_norm_grad %x, %10#1, %10#2, %x scale %channels : tensor<4xf32> : tensor<2x4x8xbf16>, tensor<4xf32>, tensor<4xf32>, tensor<2x4x8xbf16> -> tensor<2x4x8xbf16>, tensor<4xf32>, tensor<4xf32>
  // CHECK: dtc.attention %{{.*}}, %{{.*}}, %{{.*}} bias %{{.*}} : tensor<2x4x3x5xf32> scale 5.000000e-01 causal : tensor<2x3x4x2xf32>, tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32> -> tensor<2x3x4x2xf32>, tensor<2x4x3xf32>
  %5:2 = dtc.attention %q, %k, %k bias %bias : tensor<2x4x3x5xf32> scale 0.5 causal : tensor<2x3x4x2xf32>, tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32> -> tensor<2x3x4x2xf32>, tensor<2x4x3xf32>
  // CHECK: dtc.attention %{{.*}}, %{{.*}}, %{{.*}} scale 5.000000e-01 causal window 2 : tensor<2x3x4x2xf32>
  %window:2 = dtc.attention %q, %k, %k scale 0.5 causal window 2 : tensor<2x3x4x2xf32>, tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32> -> tensor<2x3x4x2xf32>, tensor<2x4x3xf32>
  // CHECK: dtc.attention_grad %{{.*}} bias %{{.*}} : tensor<2x4x3x5xf32> scale 5.000000e-01 causal window 2 : tensor<2x3x4x2xf32>
  %grads:3 = dtc.attention_grad %q, %k, %k, %window#0, %window#1, %q bias %bias : tensor<2x4x3x5xf32> scale 0.5 causal window 2 : tensor<2x3x4x2xf32>, tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32>, tensor<2x3x4x2xf32>, tensor<2x4x3xf32>, tensor<2x3x4x2xf32> -> tensor<2x3x4x2xf32>, tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32>
  // CHECK: dtc.attention_part_grad %{{.*}} scale 5.000000e-01 causal window 1 : tensor<2x5x2x2xf32>
  %square:3 = dtc.attention_part_grad %k, %k, %k, %k, %row, %k scale 0.5 causal window 1 : tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32>, tensor<2x2x5xf32>, tensor<2x5x2x2xf32> -> tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32>
  // CHECK: dtc.attention_part_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} scale 5.000000e-01 : tensor<2x3x4x2xf32>, tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32>, tensor<2x3x4x2xf32>, tensor<2x4x3xf32>, tensor<2x3x4x2xf32> -> tensor<2x3x4x2xf32>, tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32>
  %part:3 = dtc.attention_part_grad %q, %k, %k, %5#0, %5#1, %q scale 0.5 : tensor<2x3x4x2xf32>, tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32>, tensor<2x3x4x2xf32>, tensor<2x4x3xf32>, tensor<2x3x4x2xf32> -> tensor<2x3x4x2xf32>, tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32>
  // CHECK: dtc.cross_entropy %{{.*}}, %{{.*}} ignore -100 : tensor<2x4x8xbf16>, tensor<2x4xi64> -> tensor<2x4xf32>, tensor<2x4xf32>
  %6:2 = dtc.cross_entropy %x, %t ignore -100 : tensor<2x4x8xbf16>, tensor<2x4xi64> -> tensor<2x4xf32>, tensor<2x4xf32>
  // CHECK: dtc.dropout %{{.*}} ratio 1.000000e-01 : tensor<2x4x8xbf16>
  %7 = dtc.dropout %x ratio 1.0e-1 : tensor<2x4x8xbf16>
  // CHECK: dtc.dropout %{{.*}} keys %{{.*}} : tensor<8xi64> ratio 1.000000e-01 {batch = 2 : i64, number = 7 : i64} : tensor<2x4x8xbf16>
  %keys = arith.constant dense<5> : tensor<8xi64>
  %8 = dtc.dropout %x keys %keys : tensor<8xi64> ratio 1.0e-1 {batch = 2, number = 7} : tensor<2x4x8xbf16>
  // CHECK: dtc.philox %{{.*}}, %{{.*}} 7 : tensor<8xi64>
  %9 = dtc.philox %keys, %keys 7 : tensor<8xi64>
  return
}

// CHECK-LABEL: func.func @how_often
// CHECK-SAME: dtc.runs = #dtc.runs<microbatch, forward|backward>
func.func @how_often() attributes {dtc.runs = #dtc.runs<microbatch, forward|backward>} { return }
// CHECK-LABEL: func.func @of_a_chunk
// CHECK-SAME: dtc.runs = #dtc.runs<microbatch, input_grad, chunk 2>
func.func @of_a_chunk() attributes {dtc.runs = #dtc.runs<microbatch, input_grad, chunk 2>} { return }
// CHECK-LABEL: func.func @once
// CHECK-SAME: dtc.runs = #dtc.runs<step>
func.func @once() attributes {dtc.runs = #dtc.runs<step>} { return }
