// Clusters share a kernel if they compute the same, and only then.
// RUN: dtc-opt %s --dtc-decompose-layers --dtc-form-kernels | FileCheck %s

// CHECK-LABEL: func.func @twice(
// CHECK-NEXT: {{.*}}exec.launch @pointwise_0(
func.func @twice(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %c = arith.constant dense<2.0> : tensor<8x4xf32>
  %0 = arith.mulf %a, %c : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// CHECK-LABEL: func.func @twice_again(
// CHECK-NEXT: {{.*}}exec.launch @pointwise_0(
func.func @twice_again(%b: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %c = arith.constant dense<2.0> : tensor<8x4xf32>
  %0 = arith.mulf %b, %c : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// Another attribute.
// CHECK-LABEL: func.func @thrice(
// CHECK-NEXT: {{.*}}exec.launch @pointwise_1(
func.func @thrice(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %c = arith.constant dense<3.0> : tensor<8x4xf32>
  %0 = arith.mulf %a, %c : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// Other operands.
// CHECK-LABEL: func.func @by_first(
// CHECK-NEXT: {{.*}}exec.launch @pointwise_2(
func.func @by_first(%a: tensor<8x4xf32>, %b: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = arith.subf %a, %b : tensor<8x4xf32>
  %1 = arith.mulf %0, %a : tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// CHECK-LABEL: func.func @by_second(
// CHECK-NEXT: {{.*}}exec.launch @pointwise_3(
func.func @by_second(%a: tensor<8x4xf32>, %b: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = arith.subf %a, %b : tensor<8x4xf32>
  %1 = arith.mulf %0, %b : tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// Other results.
// CHECK-LABEL: func.func @both(
// CHECK-NEXT: %{{.*}}:2 = exec.launch @pointwise_4(
func.func @both(%a: tensor<8x4xf32>, %b: tensor<8x4xf32>)
    -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = arith.subf %a, %b : tensor<8x4xf32>
  %1 = arith.mulf %0, %a : tensor<8x4xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
}

// A result that is the new value of an argument is computed in its place.
// CHECK-LABEL: func.func @plus(
// CHECK-NEXT: {{.*}}exec.launch @pointwise_5(
func.func @plus(%w: tensor<8x4xf32>, %g: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = arith.addf %w, %g : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// CHECK-LABEL: func.func @update(
// CHECK-NEXT: {{.*}}exec.launch @pointwise_6(
func.func @update(%w: tensor<8x4xf32> {dtc.role = #dtc.role<parameter, "w">},
                  %g: tensor<8x4xf32>)
    -> (tensor<8x4xf32> {dtc.role = #dtc.role<parameter, "w">}) {
  %0 = arith.addf %w, %g : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// One of a single element reads the first element alone, so that others don't share it.
// CHECK-LABEL: func.func @one_and_many(
// CHECK: exec.launch @pointwise_7(%{{.*}}) extent 1 {{.*}}tensor<1xf32>
// CHECK: exec.launch @pointwise_8(%{{.*}}) extent 12 {{.*}}tensor<3x4xf32>
// CHECK: exec.launch @pointwise_8(%{{.*}}) extent 10 {{.*}}tensor<10xf32>
func.func @one_and_many(%a: tensor<1xf32>, %b: tensor<3x4xf32>, %c: tensor<10xf32>)
    -> (tensor<1xf32>, tensor<3x4xf32>, tensor<10xf32>) {
  %0 = math.exp %a : tensor<1xf32>
  %1 = math.exp %b : tensor<3x4xf32>
  %2 = math.exp %c : tensor<10xf32>
  return %0, %1, %2 : tensor<1xf32>, tensor<3x4xf32>, tensor<10xf32>
}
