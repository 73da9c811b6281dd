// RUN: dtc-opt -split-input-file --dtc-train="loss=none" %s | FileCheck %s
// RUN: dtc-opt -split-input-file --dtc-train="loss=none precision=bf16" %s | FileCheck --check-prefix=BF16 %s
// RUN: dtc-opt -split-input-file --dtc-train="loss=none precision=fp16" %s | FileCheck --check-prefix=FP16 %s

// A file of f64 is trained in f32 or in a half, finite constants beyond them staying finite;
// statistics are f32. Its parameters keep their type in the file alone.
// CHECK: dtc.parameter trainable @g : tensor<8xf32> file tensor<8xf64>
// CHECK: %{{.*}}, %{{.*}}, %{{.*}} = dtc.layer_norm {{.*}} -> tensor<2x8xf32>, tensor<2xf32>, tensor<2xf32>
// CHECK: arith.constant {{.*}}dense<-3.40282347E+38> : tensor<2x8xf32>
// FP16: dtc.parameter trainable @g : tensor<8xf16> file tensor<8xf64>
// FP16: dtc.layer_norm {{.*}} -> tensor<2x8xf16>, tensor<2xf32>, tensor<2xf32>
// FP16: arith.constant {{.*}}dense<-6.550400e+04> : tensor<2x8xf16>
// BF16: dtc.parameter trainable @g : tensor<8xbf16> file tensor<8xf64>
// BF16: dtc.layer_norm {{.*}} -> tensor<2x8xbf16>, tensor<2xf32>, tensor<2xf32>
module {
  dtc.parameter trainable @g : tensor<8xf64> file tensor<8xf64>
  func.func @forward(%g: tensor<8xf64> {dtc.role = #dtc.role<parameter, "g">},
                     %x: tensor<2x8xf64> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<2x8xf64> {dtc.role = #dtc.role<output, "y">}) {
    %0, %1, %2 = dtc.layer_norm %x scale %g : tensor<8xf64> eps 1.0e-5 : tensor<2x8xf64> -> tensor<2x8xf64>, tensor<2xf64>, tensor<2xf64>
    %c = arith.constant dense<-1.7976931348623157e+308> : tensor<2x8xf64>
    %3 = arith.maximumf %0, %c : tensor<2x8xf64>
    return %3 : tensor<2x8xf64>
  }
}
