// Approximations of elementary functions stay within a few units in the last
// place over small, usual and large arguments.
// RUN: dtc-opt %s --dtc-decompose-layers --dtc-form-kernels --test-run-kernels="scale=0.01 tolerance=3e-7" -o /dev/null
// RUN: dtc-opt %s --dtc-decompose-layers --dtc-form-kernels --test-run-kernels="scale=1 tolerance=3e-7" -o /dev/null
// RUN: dtc-opt %s --dtc-decompose-layers --dtc-form-kernels --test-run-kernels="scale=10 tolerance=3e-7" -o /dev/null
// RUN: dtc-opt %s --dtc-decompose-layers --dtc-form-kernels --test-run-kernels="scale=150 tolerance=3e-7" -o /dev/null
// RUN: dtc-opt %s --dtc-decompose-layers --dtc-form-kernels --test-run-kernels="scale=1 tolerance=3e-7 cpu=x86-64" -o /dev/null

func.func @exp(%x: tensor<10007xf32>) -> tensor<10007xf32> {
  %0 = math.exp %x : tensor<10007xf32>
  return %0 : tensor<10007xf32>
}
func.func @log(%x: tensor<10007xf32>) -> tensor<10007xf32> {
  %0 = math.log %x : tensor<10007xf32>
  return %0 : tensor<10007xf32>
}
func.func @log1p(%x: tensor<10007xf32>) -> tensor<10007xf32> {
  %0 = math.log1p %x : tensor<10007xf32>
  return %0 : tensor<10007xf32>
}
func.func @tanh(%x: tensor<10007xf32>) -> tensor<10007xf32> {
  %0 = math.tanh %x : tensor<10007xf32>
  return %0 : tensor<10007xf32>
}
func.func @erf(%x: tensor<10007xf32>) -> tensor<10007xf32> {
  %0 = math.erf %x : tensor<10007xf32>
  return %0 : tensor<10007xf32>
}
// Also where the exponential is 1 to a few digits.
func.func @expm1(%x: tensor<10007xf32>) -> (tensor<10007xf32>, tensor<10007xf32>) {
  %0 = math.expm1 %x : tensor<10007xf32>
  %tiny = arith.constant dense<1.0e-5> : tensor<10007xf32>
  %1 = arith.mulf %x, %tiny : tensor<10007xf32>
  %2 = math.expm1 %1 : tensor<10007xf32>
  %3 = arith.divf %2, %tiny : tensor<10007xf32>
  return %0, %3 : tensor<10007xf32>, tensor<10007xf32>
}
func.func @others(%x: tensor<1001xf32>) -> (tensor<1001xf32>, tensor<1001xf32>, tensor<1001xf32>) {
  %0 = math.sin %x : tensor<1001xf32>
  %1 = math.cos %x : tensor<1001xf32>
  %2 = math.rsqrt %x : tensor<1001xf32>
  return %0, %1, %2 : tensor<1001xf32>, tensor<1001xf32>, tensor<1001xf32>
}
func.func @special() -> tensor<6xf32> {
  %x = arith.constant dense<[0.0, -0.0, 0x7F800000, 0xFF800000, 0x7FC00000, 1.0e-40]> : tensor<6xf32>
  %0 = math.exp %x : tensor<6xf32>
  return %0 : tensor<6xf32>
}
// Remainders have no error, also where the quotient rounds up to an integer, and where it is large.
func.func @remainder(%x: tensor<1001xf32>, %y: tensor<1001xf32>) -> (tensor<1001xf32>, tensor<1001xf32>, tensor<6xf32>) {
  %tenth = arith.constant dense<0.1> : tensor<1001xf32>
  %large = arith.constant dense<1.0e30> : tensor<1001xf32>
  %part = arith.mulf %x, %tenth : tensor<1001xf32>
  %0 = arith.remf %x, %part : tensor<1001xf32>
  %far = arith.mulf %y, %large : tensor<1001xf32>
  %1 = arith.remf %far, %x : tensor<1001xf32>
  %a = arith.constant dense<[1.0, -1.0, 0x7F800000, 5.0, -6.0, 3.0e38]> : tensor<6xf32>
  %b = arith.constant dense<[0.1, 0.1, 2.0, 0xFF800000, 3.0, 1.0e-40]> : tensor<6xf32>
  %2 = arith.remf %a, %b : tensor<6xf32>
  return %0, %1, %2 : tensor<1001xf32>, tensor<1001xf32>, tensor<6xf32>
}
