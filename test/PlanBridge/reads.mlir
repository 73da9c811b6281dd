// What strides say of an op is a fact of the problem: where each dimension of a result begins in its operand, and
// with which step. The step of a single element is 1.
// RUN: dtc-opt --dtc-print-problem -o /dev/null %s | FileCheck %s

// CHECK: "name":"dtc.transpose",{{.*}}"reads":{{\[\[}}1,0,1],[0,0,1]]
// CHECK: "name":"dtc.slice",{{.*}}"reads":{{\[\[}}0,1,2],[1,3,1]]
// CHECK: "name":"dtc.broadcast",{{.*}}"reads":{{\[\[}}-1,0,0],[0,0,1],[1,0,1]]
// CHECK: "name":"dtc.reshape",
// CHECK-NOT: "reads"
func.func @forward(%x: tensor<8x6xf32> {dtc.role = #dtc.role<input, "x">})
    -> (tensor<12xf32> {dtc.role = #dtc.role<output, "y">}) {
  %0 = dtc.transpose %x [1, 0] : tensor<8x6xf32> -> tensor<6x8xf32>
  %1 = dtc.slice %0 offsets [1, 3] strides [2, 5] : tensor<6x8xf32> -> tensor<3x1xf32>
  %2 = dtc.broadcast %1 [1, 2] : tensor<3x1xf32> -> tensor<4x3x1xf32>
  %3 = dtc.reshape %2 : tensor<4x3x1xf32> -> tensor<12xf32>
  return %3 : tensor<12xf32>
}
