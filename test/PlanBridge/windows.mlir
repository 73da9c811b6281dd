// RUN: dtc-opt --dtc-print-problem -o /dev/null --split-input-file %s | FileCheck %s

// A query sees the 128 keys up to itself.
// CHECK: "causal":true{{.*}}"name":"dtc.attention"{{.*}}"window":128
module {
  func.func @forward(%q: tensor<2x512x4x16xf32> {dtc.role = #dtc.role<input, "q">})
      -> (tensor<2x512x4x16xf32> {dtc.role = #dtc.role<output, "y">}) {
    %y, %lse = dtc.attention %q, %q, %q scale 0.25 causal window 128 : tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32> -> tensor<2x512x4x16xf32>, tensor<2x4x512xf32>
    return %y : tensor<2x512x4x16xf32>
  }
}

// -----

// CHECK: "causal":true{{.*}}"name":"dtc.attention"
// CHECK-NOT: "window"
module {
  func.func @forward(%q: tensor<2x512x4x16xf32> {dtc.role = #dtc.role<input, "q">})
      -> (tensor<2x512x4x16xf32> {dtc.role = #dtc.role<output, "y">}) {
    %y, %lse = dtc.attention %q, %q, %q scale 0.25 causal : tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32>, tensor<2x512x4x16xf32> -> tensor<2x512x4x16xf32>, tensor<2x4x512xf32>
    return %y : tensor<2x512x4x16xf32>
  }
}
