// RUN: dtc-opt --dtc-train="optimizer=adamw microbatches=2" --dtc-print-problem -o /dev/null %s | FileCheck %s

// What the step is made of: a microbatch of four samples, two of them, two f32
// tensors of state for each parameter.
// CHECK: "arguments": 7
// CHECK: "batch": 4
// CHECK: "num_microbatches": 2
// CHECK: "optimizer":
// CHECK: "gradientBytes": 4
// CHECK: "stateBytes": 4
// CHECK: "states": 2
// CHECK: "kind": "gradient"
// CHECK-NEXT: "name": "w"
// CHECK: "values": [
// CHECK-NEXT: {"kind":"parameter","name":"w","shape":[8,16],"trainable":true,"type":"f32"}
// CHECK-NEXT: {"kind":"buffer","name":"scale","shape":[16],"type":"f32"}
// CHECK-NEXT: {"kind":"input","name":"x","shape":[4,8],"type":"f32"}
// CHECK-NEXT: {"kind":"target","name":"target","shape":[4],"type":"i64"}
// CHECK: "kind":"accumulator"
// The forward product, its location and its work.
// CHECK: "ops": [
// CHECK-NEXT: {"flops":1024.0,"forward":0,"kind":"contraction","location":"product","name":"dtc.contract"
// CHECK: "name":"dtc.softmax"{{.*}}"rounds":[
// The weight's gradient belongs to it.
// CHECK: {"backward":"weight_grad","flops":1024.0,"forward":0,"kind":"contraction"
// CHECK: "kind":"gradient_sum"
module {
  dtc.parameter trainable @w : tensor<8x16xf32> file tensor<8x16xf32>
  dtc.parameter buffer @scale : tensor<16xf32> file tensor<16xf32>
  func.func @forward(%w: tensor<8x16xf32> {dtc.role = #dtc.role<parameter, "w">},
                     %scale: tensor<16xf32> {dtc.role = #dtc.role<buffer, "scale">},
                     %x: tensor<4x8xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4x16xf32> {dtc.role = #dtc.role<output, "y">}) {
    %0 = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32> loc("product")
    %1 = dtc.softmax %0 1 : tensor<4x16xf32>
    %2 = dtc.broadcast %scale [1] : tensor<16xf32> -> tensor<4x16xf32>
    %3 = arith.mulf %1, %2 : tensor<4x16xf32>
    return %3 : tensor<4x16xf32>
  }
}
