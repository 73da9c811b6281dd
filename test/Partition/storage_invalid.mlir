// RUN: dtc-opt %s -split-input-file -verify-diagnostics -dtc-pipeline=partition

dist.mesh @mesh ["dp.0" = 2 of "dp", "dp.1" = 2 of "dp"]

// expected-error@+1 {{functions disagree about the storage of #dtc.role<state, "w", exp_avg>}}
func.func @update(
    %m: tensor<8xf32> {dtc.role = #dtc.role<state, "w", exp_avg>, dist.storage = #dist.axes<{"dp.0"}>})
    -> (tensor<8xf32> {dtc.role = #dtc.role<state, "w", exp_avg>, dist.storage = #dist.axes<{"dp.1"}>})
    attributes {dtc.runs = #dtc.runs<step>} {
  return %m : tensor<8xf32>
}

// -----

// expected-error@+1 {{a parameter is divided, but its gradient isn't: w}}
module {
  dist.mesh @mesh ["dp" = 2]
  func.func @update(
      %w: tensor<8xf32> {dtc.role = #dtc.role<parameter, "w">, dist.storage = #dist.axes<{"dp"}>})
      -> (tensor<8xf32> {dtc.role = #dtc.role<parameter, "w">, dist.storage = #dist.axes<{"dp"}>})
      attributes {dtc.runs = #dtc.runs<step>} {
    return %w : tensor<8xf32>
  }
}

// -----

// expected-error@+1 {{parts of a parameter are stored over different axes: w}}
module {
  dist.mesh @mesh ["dp.0" = 2 of "dp", "dp.1" = 2 of "dp"]
  func.func @update(
      %w: tensor<8xf32> {dtc.role = #dtc.role<parameter, "w">},
      %m: tensor<8xf32> {dtc.role = #dtc.role<state, "w", exp_avg>, dist.storage = #dist.axes<{"dp.0"}>},
      %g: tensor<8xf32> {dtc.role = #dtc.role<gradient, "w">, dist.storage = #dist.axes<{"dp.1"}>})
      -> (tensor<8xf32> {dtc.role = #dtc.role<parameter, "w">})
      attributes {dtc.runs = #dtc.runs<step>} {
    return %w : tensor<8xf32>
  }
}

// -----

dist.mesh @mesh ["dp" = 2]

func.func @update(
    %w: tensor<8xf32> {dtc.role = #dtc.role<parameter, "w">},
    %m: tensor<8xf32> {dtc.role = #dtc.role<state, "w", momentum_buffer>, dist.storage = #dist.axes<{"dp"}>})
    -> (tensor<f32> {dtc.role = #dtc.role<grad_norm, "">})
    attributes {dtc.runs = #dtc.runs<step>} {
  // expected-error@+1 {{can't be divided with its parameter's update}}
  %0 = dtc.reduce max %m [0] : tensor<8xf32> -> tensor<f32>
  return %0 : tensor<f32>
}
