// Inverse functions stay within a few units in the last place of the host's, near zero, near the
// ends of what they are defined on, and for large arguments.
// REQUIRES: gpu
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels --test-run-cuda-kernels="scale=0.01 tolerance=3e-7" -o /dev/null
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels --test-run-cuda-kernels="scale=1 tolerance=3e-7" -o /dev/null
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels --test-run-cuda-kernels="scale=1e4 tolerance=3e-7" -o /dev/null

func.func @asin(%x: tensor<1001xf32>) -> tensor<1001xf32> {
  %0 = math.asin %x : tensor<1001xf32>
  return %0 : tensor<1001xf32>
}

func.func @acos(%x: tensor<1001xf32>) -> tensor<1001xf32> {
  %0 = math.acos %x : tensor<1001xf32>
  return %0 : tensor<1001xf32>
}

func.func @atan(%x: tensor<1001xf32>) -> tensor<1001xf32> {
  %0 = math.atan %x : tensor<1001xf32>
  return %0 : tensor<1001xf32>
}

func.func @asinh(%x: tensor<1001xf32>) -> tensor<1001xf32> {
  %0 = math.asinh %x : tensor<1001xf32>
  return %0 : tensor<1001xf32>
}

func.func @acosh(%x: tensor<1001xf32>) -> tensor<1001xf32> {
  %0 = math.acosh %x : tensor<1001xf32>
  return %0 : tensor<1001xf32>
}

func.func @atanh(%x: tensor<1001xf32>) -> tensor<1001xf32> {
  %0 = math.atanh %x : tensor<1001xf32>
  return %0 : tensor<1001xf32>
}

func.func @cbrt(%x: tensor<1001xf32>) -> tensor<1001xf32> {
  %0 = math.cbrt %x : tensor<1001xf32>
  return %0 : tensor<1001xf32>
}

func.func @atan2(%x: tensor<1001xf32>, %y: tensor<1001xf32>) -> tensor<1001xf32> {
  %0 = math.atan2 %x, %y : tensor<1001xf32>
  return %0 : tensor<1001xf32>
}
