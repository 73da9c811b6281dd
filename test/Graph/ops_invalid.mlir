// RUN: dtc-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{an optimizer state belongs to the role state and no other: state}}
func.func private @f(tensor<f32> {dtc.role = #dtc.role<state, "w">})

// -----

// expected-error @+1 {{not a detail of the role parameter: exp_avg}}
func.func private @f(tensor<f32> {dtc.role = #dtc.role<parameter, "w", exp_avg>})

// -----

// expected-error @+1 {{not a detail of the role scalar: exp_avg}}
func.func private @f(tensor<f32> {dtc.role = #dtc.role<scalar, "", exp_avg>})

// -----

// expected-error @+1 {{the file has 32 elements, its view must have as many, or be longer: 24}}
dtc.parameter trainable @w : tensor<8x3xf32> file tensor<8x4xf32>

// -----

// expected-error @+1 {{the file has 32 elements, its view must have as many, or be longer: 48}}
dtc.parameter trainable @w : tensor<2x3x8xf32> file tensor<8x4xf32> {dtc.filled = array<i64: 2, 2, 4>}

// -----

// expected-error @+1 {{dtc.filled must be a shape: 3 : i64}}
dtc.parameter trainable @w : tensor<8x4xf32> file tensor<8x4xf32> {dtc.filled = 3 : i64}

// -----

// expected-error @+1 {{a parameter may not be called as a chunk's gradient is: w of chunk 1}}
dtc.parameter trainable @"w of chunk 1" : tensor<8xf32> file tensor<8xf32>

// -----

// expected-error @+1 {{a buffer is not trainable: w}}
dtc.parameter trainable buffer @w : tensor<8xf32> file tensor<8xf32>

// -----

// expected-error @+1 {{only floats are trainable: 'i64'}}
dtc.parameter trainable @w : tensor<8xi64> file tensor<8xi64>

// -----

// expected-error @+1 {{dtc.adapter must be a #dtc.adapter: 3 : i64}}
dtc.parameter trainable @w : tensor<8xf32> file tensor<8xf32> {dtc.adapter = 3 : i64}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{dimension outside a tensor of rank 2: 2}}
  %0 = dtc.iota 2 : tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{result must hold floats or integers wider than i1: 'i1'}}
  %0 = dtc.iota 0 : tensor<2x3xi1>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{dims must have 2 entries: 1}}
  %0 = dtc.broadcast %x [0] : tensor<2x3xf32> -> tensor<2x3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{dims must ascend: 0}}
  %0 = dtc.broadcast %x [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{operand dimension 1 must keep its size 3: 4}}
  %0 = dtc.broadcast %x [0, 2] : tensor<2x3xf32> -> tensor<2x3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{result dimension outside a tensor of rank 3: 3}}
  %0 = dtc.broadcast %x [0, 3] : tensor<2x3xf32> -> tensor<2x3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{result must have the element type 'f32': 'f64'}}
  %0 = dtc.broadcast %x [0, 1] : tensor<2x3xf32> -> tensor<2x3xf64>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{result must have 6 elements: 7}}
  %0 = dtc.reshape %x : tensor<2x3xf32> -> tensor<7xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{perm must not repeat a dimension: 0}}
  %0 = dtc.transpose %x [0, 0] : tensor<2x3xf32> -> tensor<2x2xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{result must have the shape [3, 2]: [2, 3]}}
  %0 = dtc.transpose %x [1, 0] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{reads beyond the end of dimension 1 of size 3: 3 elements from 1}}
  %0 = dtc.slice %x offsets [0, 1] strides [1, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{reads beyond the end of dimension 1 of size 3: 3 elements from 0}}
  %0 = dtc.slice %x offsets [0, 0] strides [1, 9223372036854775807] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{offsets must be at least 0: -1}}
  %0 = dtc.slice %x offsets [0, -1] strides [1, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{strides must be at least 1: 0}}
  %0 = dtc.slice %x offsets [0, 0] strides [1, 0] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{writes beyond the end of dimension 1 of size 4: 3 elements from 2}}
  %0 = dtc.pad %x low [0, 2] interior [0, 0] value 0.0 : tensor<2x3xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{writes beyond the end of dimension 1 of size 4: 3 elements from 0}}
  %0 = dtc.pad %x low [0, 0] interior [0, 9223372036854775807] value 0.0 : tensor<2x3xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{result must have the shape [2, 6]: [2, 5]}}
  %0 = dtc.concat 1 (%x, %x) : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x5xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %y: tensor<3x3xf32>) {
  // expected-error @+1 {{operand must have the shape [2, 3]: [3, 3]}}
  %0 = dtc.concat 1 (%x, %y) : tensor<2x3xf32>, tensor<3x3xf32> -> tensor<2x6xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{dims must not repeat a dimension: 1}}
  %0 = dtc.reduce sum %x [1, 1] : tensor<2x3xf32> -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{dimension outside a tensor of rank 2: 2}}
  %0 = dtc.reduce sum %x [2] : tensor<2x3xf32> -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{result must have the shape [2]: [3]}}
  %0 = dtc.reduce sum %x [1] : tensor<2x3xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{dimension outside a tensor of rank 2: -1}}
  %0 = dtc.cumsum %x -1 : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>) {
  // expected-error @+1 {{indices must be numbered from 0 without gaps: 3}}
  %0 = dtc.contract %x [0, 1], %w [1, 3] -> [0, 3] : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>) {
  // expected-error @+1 {{index 0 of the right operand must have the size it has elsewhere, 2: 4}}
  %0 = dtc.contract %x [0, 1], %w [2, 0] -> [1, 2] : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<3x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>) {
  // expected-error @+1 {{an index of one operand alone must be in the result: 0}}
  %0 = dtc.contract %x [0, 1], %w [1, 2] -> [2] : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %w: tensor<3x3xf32>) {
  // expected-error @+1 {{right operand must not repeat an index: 1}}
  %0 = dtc.contract %x [0, 1], %w [1, 1] -> [0] : tensor<2x3xf32>, tensor<3x3xf32> -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>) {
  // expected-error @+1 {{result must have the element type 'f32' or a wider float: 'bf16'}}
  %0 = dtc.contract %x [0, 1], %w [1, 2] -> [0, 2] : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xbf16>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %i: tensor<4xi16>) {
  // expected-error @+1 {{indices must have the element type i32 or i64: 'i16'}}
  %0 = dtc.gather %x, %i axis 0 : tensor<2x3xf32>, tensor<4xi16> -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %i: tensor<4xi64>) {
  // expected-error @+1 {{padding row is outside the table's 2 rows: 2}}
  %0 = dtc.gather %x, %i axis 0 {paddingRow = 2 : i64} : tensor<2x3xf32>, tensor<4xi64> -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %i: tensor<4xi64>) {
  // expected-error @+1 {{result must have the shape [4, 3]: [2, 4]}}
  %0 = dtc.gather %x, %i axis 0 : tensor<2x3xf32>, tensor<4xi64> -> tensor<2x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>, %i: tensor<5xi64>) {
  // expected-error @+1 {{updates must have the shape [5, 3]: [4, 3]}}
  %0 = dtc.scatter_add %i, %x axis 0 : tensor<5xi64>, tensor<4x3xf32> -> tensor<9x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>, %i: tensor<3xi64>) {
  // expected-error @+1 {{indices must have the shape [4]: [3]}}
  %0 = dtc.pick %x, %i : tensor<4x3xf32>, tensor<3xi64> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{must choose between 1 and 3 elements of a row: 4}}
  %0 = dtc.top_k %x : tensor<4x3xf32> -> tensor<4x4xi64>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{must choose between 1 and 3 elements of a row: 0}}
  %0 = dtc.top_k %x : tensor<4x3xf32> -> tensor<4x0xi64>
  return
}

// -----

func.func @f(%x: tensor<f32>) {
  // expected-error @+1 {{input must have a dimension to choose from: rank 0}}
  %0 = dtc.top_k %x : tensor<f32> -> tensor<i64>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{result must have the shape [4, 2]: [3, 2]}}
  %0 = dtc.top_k %x : tensor<4x3xf32> -> tensor<3x2xi64>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{result must have the element type 'i64': 'i32'}}
  %0 = dtc.top_k %x : tensor<4x3xf32> -> tensor<4x2xi32>
  return
}

// -----

func.func @f(%x: tensor<4x3xi64>) {
  // expected-error @+1 {{input must have a float element type: 'i64'}}
  %0 = dtc.top_k %x : tensor<4x3xi64> -> tensor<4x2xi64>
  return
}

// -----

func.func @f(%k: tensor<4xi32>) {
  // expected-error @+1 {{result must have the element type 'i64': 'i32'}}
  %0 = dtc.philox %k, %k 0 : tensor<4xi32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{ratio must be between 0 and 1: 1.5}}
  %0 = dtc.dropout %x ratio 1.5 : tensor<4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xi64>) {
  // expected-error @+1 {{input must have a float element type: 'i64'}}
  %0 = dtc.dropout %x ratio 0.5 : tensor<4x3xi64>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>, %k: tensor<3xi64>) {
  // expected-error @+1 {{keys must have the shape [4]: [3]}}
  %0 = dtc.dropout %x keys %k : tensor<3xi64> ratio 0.5 : tensor<4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>, %k: tensor<4xi32>) {
  // expected-error @+1 {{keys must have the element type 'i64': 'i32'}}
  %0 = dtc.dropout %x keys %k : tensor<4xi32> ratio 0.5 : tensor<4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>, %k: tensor<4xi64>) {
  // expected-error @+1 {{batch outside a tensor of rank 2: 2}}
  %0 = dtc.dropout %x keys %k : tensor<4xi64> ratio 0.5 {batch = 2} : tensor<4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>, %k: tensor<4xi64>) {
  // expected-error @+1 {{number must be an unsigned integer of 32 bits: -1}}
  %0 = dtc.dropout %x keys %k : tensor<4xi64> ratio 0.5 {number = -1} : tensor<4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<1x4x5x5xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error @+1 {{dimension 2 must have 3 windows: 5}}
  %0 = dtc.conv %x, %w strides [1, 1] pad [0, 0], [0, 0] dilations [1, 1] groups 1 : tensor<1x4x5x5xf32>, tensor<6x4x3x3xf32> -> tensor<1x6x5x5xf32>
  return
}

// -----

func.func @f(%x: tensor<1x4x5x5xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error @+1 {{groups must divide 4 input and 6 output channels: 3}}
  %0 = dtc.conv %x, %w strides [1, 1] pad [0, 0], [0, 0] dilations [1, 1] groups 3 : tensor<1x4x5x5xf32>, tensor<6x4x3x3xf32> -> tensor<1x6x3x3xf32>
  return
}

// -----

func.func @f(%x: tensor<1x4x5x5xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error @+1 {{weight must have 2 input channels: 4}}
  %0 = dtc.conv %x, %w strides [1, 1] pad [0, 0], [0, 0] dilations [1, 1] groups 2 : tensor<1x4x5x5xf32>, tensor<6x4x3x3xf32> -> tensor<1x6x3x3xf32>
  return
}

// -----

func.func @f(%x: tensor<1x4x5x5xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error @+1 {{strides must be at least 1: 0}}
  %0 = dtc.conv %x, %w strides [1, 0] pad [0, 0], [0, 0] dilations [1, 1] groups 1 : tensor<1x4x5x5xf32>, tensor<6x4x3x3xf32> -> tensor<1x6x3x3xf32>
  return
}

// -----

func.func @f(%x: tensor<1x4x5x5xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error @+1 {{strides must have 2 entries: 1}}
  %0 = dtc.conv %x, %w strides [1] pad [0, 0], [0, 0] dilations [1, 1] groups 1 : tensor<1x4x5x5xf32>, tensor<6x4x3x3xf32> -> tensor<1x6x3x3xf32>
  return
}

// -----

func.func @f(%x: tensor<1x4x5x5xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error @+1 {{windows must have sizes up to 1073741824: 4611686018427387904}}
  %0 = dtc.conv %x, %w strides [1, 1] pad [0, 0], [0, 0] dilations [4611686018427387904, 1] groups 1 : tensor<1x4x5x5xf32>, tensor<6x4x3x3xf32> -> tensor<1x6x3x3xf32>
  return
}

// -----

func.func @f(%x: tensor<1x4x5x5xf32>) {
  // expected-error @+1 {{kernel must be at least 1: 0}}
  %0 = dtc.max_pool %x kernel [0, 2] strides [1, 1] pad [0, 0], [0, 0] dilations [1, 1] : tensor<1x4x5x5xf32> -> tensor<1x4x6x4xf32>
  return
}

// -----

// expected-error @below {{passes belong to what runs for each microbatch, and to nothing else: step, forward}}
func.func @f() attributes {dtc.runs = #dtc.runs<step, forward>} { return }

// -----

// expected-error @below {{passes belong to what runs for each microbatch, and to nothing else: microbatch, none}}
func.func @f() attributes {dtc.runs = #dtc.runs<microbatch>} { return }

// -----

// expected-error @below {{no chunk of a stage runs like this: -1}}
func.func @f() attributes {dtc.runs = #dtc.runs<microbatch, forward, chunk -1>} { return }
