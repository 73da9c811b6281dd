// RUN: dtc-opt --dtc-interpret %s | FileCheck %s
// A window is the mask that hides all keys before the last three, and those after the query: 1 where
// results and statistics are equal. With 4 queries of 6 keys, of which the last ones are the queries' own.

// CHECK: result 0: tensor<f32> 1{{$}}
// CHECK: result 1: tensor<f32> 1{{$}}
func.func @main() -> (tensor<f32>, tensor<f32>) {
  %window = func.call @same() : () -> tensor<f32>
  %whole = func.call @all_keys() : () -> tensor<f32>
  return %window, %whole : tensor<f32>, tensor<f32>
}

func.func @same() -> tensor<f32> {
  %q = arith.constant dense<[[[[0.5, -1.0]], [[0.25, 2.0]], [[-0.75, 1.5]], [[1.0, 0.125]]]]> : tensor<1x4x1x2xf64>
  %k = arith.constant dense<[[[[1.5, 0.5]], [[-0.5, 1.0]], [[0.75, -1.25]], [[-1.5, 0.25]], [[0.5, 0.5]], [[2.0, -0.5]]]]> : tensor<1x6x1x2xf64>
  %mask = arith.constant dense<[[0.0, 0.0, 0.0, 0xFFF0000000000000, 0xFFF0000000000000, 0xFFF0000000000000],
                                [0xFFF0000000000000, 0.0, 0.0, 0.0, 0xFFF0000000000000, 0xFFF0000000000000],
                                [0xFFF0000000000000, 0xFFF0000000000000, 0.0, 0.0, 0.0, 0xFFF0000000000000],
                                [0xFFF0000000000000, 0xFFF0000000000000, 0xFFF0000000000000, 0.0, 0.0, 0.0]]> : tensor<4x6xf64>
  %bias = dtc.reshape %mask : tensor<4x6xf64> -> tensor<1x1x4x6xf64>
  %a, %la = dtc.attention %q, %k, %k scale 0.7 causal window 3 : tensor<1x4x1x2xf64>, tensor<1x6x1x2xf64>, tensor<1x6x1x2xf64> -> tensor<1x4x1x2xf64>, tensor<1x1x4xf64>
  %b, %lb = dtc.attention %q, %k, %k bias %bias : tensor<1x1x4x6xf64> scale 0.7 : tensor<1x4x1x2xf64>, tensor<1x6x1x2xf64>, tensor<1x6x1x2xf64> -> tensor<1x4x1x2xf64>, tensor<1x1x4xf64>
  %same = func.call @equal(%a, %b, %la, %lb) : (tensor<1x4x1x2xf64>, tensor<1x4x1x2xf64>, tensor<1x1x4xf64>, tensor<1x1x4xf64>) -> tensor<f32>
  return %same : tensor<f32>
}

// As many as there are, or more, hide nothing.
func.func @all_keys() -> tensor<f32> {
  %q = arith.constant dense<[[[[0.5, -1.0]], [[0.25, 2.0]], [[-0.75, 1.5]], [[1.0, 0.125]]]]> : tensor<1x4x1x2xf64>
  %a, %la = dtc.attention %q, %q, %q scale 0.7 causal window 5000000000 : tensor<1x4x1x2xf64>, tensor<1x4x1x2xf64>, tensor<1x4x1x2xf64> -> tensor<1x4x1x2xf64>, tensor<1x1x4xf64>
  %b, %lb = dtc.attention %q, %q, %q scale 0.7 causal : tensor<1x4x1x2xf64>, tensor<1x4x1x2xf64>, tensor<1x4x1x2xf64> -> tensor<1x4x1x2xf64>, tensor<1x1x4xf64>
  %same = func.call @equal(%a, %b, %la, %lb) : (tensor<1x4x1x2xf64>, tensor<1x4x1x2xf64>, tensor<1x1x4xf64>, tensor<1x1x4xf64>) -> tensor<f32>
  return %same : tensor<f32>
}

func.func @equal(%a: tensor<1x4x1x2xf64>, %b: tensor<1x4x1x2xf64>, %la: tensor<1x1x4xf64>, %lb: tensor<1x1x4xf64>) -> tensor<f32> {
  %c = arith.cmpf oeq, %a, %b : tensor<1x4x1x2xf64>
  %lc = arith.cmpf oeq, %la, %lb : tensor<1x1x4xf64>
  %f = arith.uitofp %c : tensor<1x4x1x2xi1> to tensor<1x4x1x2xf32>
  %lf = arith.uitofp %lc : tensor<1x1x4xi1> to tensor<1x1x4xf32>
  %x = dtc.reduce min %f [0, 1, 2, 3] : tensor<1x4x1x2xf32> -> tensor<f32>
  %y = dtc.reduce min %lf [0, 1, 2] : tensor<1x1x4xf32> -> tensor<f32>
  %both = arith.minimumf %x, %y : tensor<f32>
  return %both : tensor<f32>
}
