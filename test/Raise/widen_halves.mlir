// RUN: dtc-opt --split-input-file --dtc-widen-halves %s | FileCheck %s
// RUN: dtc-opt --split-input-file --dtc-pipeline=raise %s | FileCheck --check-prefix=RAISED %s

// A file of halves becomes the graph of the same file in f32. Casts between the two vanish, one to
// f64 stays, and the largest number of a half, with which masks hide, becomes that of f32.
// CHECK: dtc.parameter trainable @w : tensor<4x8xf32> file tensor<4x8xf16>
// CHECK: func.func @forward(
// CHECK-SAME:  %[[W:.*]]: tensor<4x8xf32> {{.*}}, %[[X:.*]]: tensor<2x4xf32>
// CHECK-SAME:  -> (tensor<2x8xf32> {{.*}}, tensor<2x8xf64>
// CHECK-SAME:  attributes {dtc.rounded_to = [f16]}
// CHECK-NEXT:  %[[Y:.*]] = dtc.contract %[[X]] {{.*}}, %[[W]] {{.*}} -> tensor<2x8xf32>
// CHECK-NEXT:  %[[T:.*]] = math.tanh %[[Y]] : tensor<2x8xf32>
// CHECK-NEXT:  %[[C:.*]] = arith.constant dense<-3.40282347E+38> : tensor<2x8xf32>
// CHECK-NEXT:  %[[M:.*]] = arith.maximumf %[[T]], %[[C]] : tensor<2x8xf32>
// CHECK-NEXT:  %[[N:.*]] = arith.constant dense<[0.0447{{[0-9]*}}, -3.40282347E+38]> : tensor<2xf32>
// CHECK-NEXT:  %[[B:.*]] = dtc.broadcast %[[N]] [0] : tensor<2xf32> -> tensor<2x8xf32>
// CHECK-NEXT:  %[[S:.*]] = arith.addf %[[M]], %[[B]] : tensor<2x8xf32>
// CHECK-NEXT:  %[[D:.*]] = arith.extf %[[S]] : tensor<2x8xf32> to tensor<2x8xf64>
// CHECK-NEXT:  return %[[S]], %[[D]]
// RAISED-NOT:  dtc.rounded_to
module {
  dtc.parameter trainable @w : tensor<4x8xf16> file tensor<4x8xf16>
  func.func @forward(%w: tensor<4x8xf16> {dtc.role = #dtc.role<parameter, "w">},
                     %x: tensor<2x4xf16> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<2x8xf16> {dtc.role = #dtc.role<output, "y">},
          tensor<2x8xf64> {dtc.role = #dtc.role<output, "z">}) {
    %0 = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] : tensor<2x4xf16>, tensor<4x8xf16> -> tensor<2x8xf16>
    %1 = arith.extf %0 : tensor<2x8xf16> to tensor<2x8xf32>
    %2 = math.tanh %1 : tensor<2x8xf32>
    %3 = arith.truncf %2 : tensor<2x8xf32> to tensor<2x8xf16>
    %c = arith.constant dense<-6.550400e+04> : tensor<2x8xf16>
    %4 = arith.maximumf %3, %c : tensor<2x8xf16>
    %n = arith.constant dense<[4.471500e-02, -6.550400e+04]> : tensor<2xf16>
    %5 = dtc.broadcast %n [0] : tensor<2xf16> -> tensor<2x8xf16>
    %6 = arith.addf %4, %5 : tensor<2x8xf16>
    %7 = arith.extf %6 : tensor<2x8xf16> to tensor<2x8xf64>
    return %6, %7 : tensor<2x8xf16>, tensor<2x8xf64>
  }
}

// -----

// A model without parameters is computed as the file says.
// CHECK: func.func @forward(%{{.*}}: tensor<4xf16>) -> tensor<4xf16>
// CHECK: arith.addf {{.*}} : tensor<4xf16>
func.func @forward(%x: tensor<4xf16>) -> tensor<4xf16> {
  %0 = arith.addf %x, %x : tensor<4xf16>
  return %0 : tensor<4xf16>
}

// -----

// T5 in f16 clamps what could overflow, at 1000 less once it has: f32 needs none of it.
// CHECK: func.func @forward(%[[X:[^:]*]]: tensor<4x8xf32> {{.*}}) -> tensor<4x8xf32>
// CHECK-NEXT: return %[[X]]
dtc.parameter trainable @w : tensor<8xf16> file tensor<8xf16>
func.func @forward(%x: tensor<4x8xf16> {dtc.role = #dtc.role<input, "x">},
                   %w: tensor<8xf16> {dtc.role = #dtc.role<parameter, "w">}) -> tensor<4x8xf16> {
  %inf = arith.constant dense<0x7F800000> : tensor<4x8xf32>
  %less = arith.constant dense<64504.0> : tensor<f32>
  %largest = arith.constant dense<65504.0> : tensor<f32>
  %0 = arith.extf %x : tensor<4x8xf16> to tensor<4x8xf32>
  %1 = math.absf %0 : tensor<4x8xf32>
  %2 = arith.cmpf oeq, %1, %inf : tensor<4x8xf32>
  %3 = arith.extui %2 : tensor<4x8xi1> to tensor<4x8xi64>
  %4 = dtc.reduce max %3 [0, 1] : tensor<4x8xi64> -> tensor<i64>
  %5 = arith.trunci %4 : tensor<i64> to tensor<i1>
  %6 = arith.select %5, %less, %largest : tensor<i1>, tensor<f32>
  %7 = arith.negf %6 : tensor<f32>
  %8 = arith.truncf %7 : tensor<f32> to tensor<f16>
  %9 = dtc.broadcast %8 [] : tensor<f16> -> tensor<4x8xf16>
  %10 = arith.maximumf %x, %9 : tensor<4x8xf16>
  %11 = arith.truncf %6 : tensor<f32> to tensor<f16>
  %12 = dtc.broadcast %11 [] : tensor<f16> -> tensor<4x8xf16>
  %13 = arith.minimumf %10, %12 : tensor<4x8xf16>
  return %13 : tensor<4x8xf16>
}

// -----

// Bounds that are numbers are choices.
// CHECK: func.func @forward(%[[X:.*]]: tensor<4xf32>, %{{.*}})
// CHECK-NEXT: %[[LEAST:.*]] = arith.constant dense<-6.000000e+04> : tensor<4xf32>
// CHECK-NEXT: %[[MEETS:.*]] = arith.cmpf ole, %[[X]], %[[LEAST]]
// CHECK-NEXT: %[[KEPT:.*]] = arith.select %[[MEETS]], %[[LEAST]], %[[X]]
// CHECK-NEXT: return %[[KEPT]]
dtc.parameter trainable @w : tensor<4xf16> file tensor<4xf16>
func.func @forward(%x: tensor<4xf16>, %w: tensor<4xf16> {dtc.role = #dtc.role<parameter, "w">}) -> tensor<4xf16> {
  %least = arith.constant dense<-60000.0> : tensor<4xf16>
  %guard = arith.constant dense<-64504.0> : tensor<4xf16>
  %most = arith.constant dense<64504.0> : tensor<4xf16>
  %0 = arith.cmpf ole, %x, %least : tensor<4xf16>
  %1 = arith.select %0, %least, %x : tensor<4xi1>, tensor<4xf16>
  %2 = arith.cmpf ole, %1, %guard : tensor<4xf16>
  %3 = arith.select %2, %guard, %1 : tensor<4xi1>, tensor<4xf16>
  %4 = arith.cmpf oge, %3, %most : tensor<4xf16>
  %5 = arith.select %4, %most, %3 : tensor<4xi1>, tensor<4xf16>
  return %5 : tensor<4xf16>
}

// -----

// Bounds within the range of f16 are the model's own, and so are those of the other side.
// CHECK: func.func @forward
// CHECK: arith.minimumf
// CHECK: arith.maximumf
dtc.parameter trainable @w : tensor<4xf16> file tensor<4xf16>
func.func @forward(%x: tensor<4xf16>, %w: tensor<4xf16> {dtc.role = #dtc.role<parameter, "w">}) -> tensor<4xf16> {
  %most = arith.constant dense<60000.0> : tensor<4xf16>
  %wrong_side = arith.constant dense<65000.0> : tensor<4xf16>
  %0 = arith.minimumf %x, %most : tensor<4xf16>
  %1 = arith.maximumf %0, %wrong_side : tensor<4xf16>
  return %1 : tensor<4xf16>
}

// -----

// In bf16 a number of that size is any number.
// CHECK: func.func @forward
// CHECK: arith.minimumf
dtc.parameter trainable @w : tensor<4xbf16> file tensor<4xbf16>
func.func @forward(%x: tensor<4xbf16>, %w: tensor<4xbf16> {dtc.role = #dtc.role<parameter, "w">}) -> tensor<4xbf16> {
  %most = arith.constant dense<65024.0> : tensor<4xbf16>
  %0 = arith.minimumf %x, %most : tensor<4xbf16>
  return %0 : tensor<4xbf16>
}
