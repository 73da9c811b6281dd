// The sharding rules of all ops: as text, and proved on four ranks.
// RUN: dtc-opt %s -test-sharding-rule -o /dev/null 2>&1 | FileCheck %s --check-prefix=RULE
// RUN: dtc-opt %s -test-sharding-rule-numerics | FileCheck %s
// RUN: dtc-opt %s --verify-roundtrip -o /dev/null

// CHECK-LABEL: @shape({{.*}}test.shardings = 81 :
func.func @shape(%x: tensor<4x8x1xf32>, %p: tensor<8x12xf32>) {
  // RULE{LITERAL}: ()->([a,b]) {a=4,b=8}
  %0 = dtc.iota 1 : tensor<4x8xf32>
  // RULE{LITERAL}: ()->([a,b]) {a=4,b=8}
  %1 = dtc.iota 0 : tensor<4x8xi32>
  // RULE{LITERAL}: ([b,c,1])->([a,b,c,1]) {a=4,b=4,c=8} linear{{0}}
  %2 = dtc.broadcast %x [1, 2, 3] : tensor<4x8x1xf32> -> tensor<4x4x8x1xf32>
  // RULE{LITERAL}: ([a,b,1])->([(a b)]) {a=4,b=8} linear{{0}}
  %3 = dtc.reshape %x : tensor<4x8x1xf32> -> tensor<32xf32>
  // RULE{LITERAL}: ([(a b),c])->([a,b,c]) {a=2,b=4,c=12} linear{{0}}
  %4 = dtc.reshape %p : tensor<8x12xf32> -> tensor<2x4x12xf32>
  // RULE{LITERAL}: ([a,b])->([c,d]) {a=8,b=12,c=6,d=16} whole{a,b,c,d} linear{{0}}
  %5 = dtc.reshape %p : tensor<8x12xf32> -> tensor<6x16xf32>
  // RULE{LITERAL}: ([a,b,1])->([1,a,b]) {a=4,b=8} linear{{0}}
  %6 = dtc.transpose %x [2, 0, 1] : tensor<4x8x1xf32> -> tensor<1x4x8xf32>
  // RULE{LITERAL}: ([a,c])->([b,c]) {a=8,b=3,c=12} whole{a,b} linear{{0}}
  %7 = dtc.slice %p offsets [1, 0] strides [2, 1] : tensor<8x12xf32> -> tensor<3x12xf32>
  // RULE{LITERAL}: ([a,c])->([b,c]) {a=8,b=17,c=12} whole{a,b} linear{{0}}
  %8 = dtc.pad %p low [1, 0] interior [1, 0] value 0.0 : tensor<8x12xf32> -> tensor<17x12xf32>
  // RULE{LITERAL}: ([a,b])->([a,c]) {a=8,b=12,c=16} whole{b,c}
  %9 = dtc.pad %p low [0, 0] interior [0, 0] value 2.0 : tensor<8x12xf32> -> tensor<8x16xf32>
  // RULE{LITERAL}: ([a,c],[a,d])->([a,b]) {a=8,b=24,c=12,d=12} whole{b,c,d} linear{{0,1}}
  %10 = dtc.concat 1 (%p, %p) : tensor<8x12xf32>, tensor<8x12xf32> -> tensor<8x24xf32>
  return
}

// CHECK-LABEL: @reduce({{.*}}test.shardings = 125 :
func.func @reduce(%x: tensor<4x8x2xf32>, %i: tensor<4x8xi64>, %w: tensor<8x4xf32>) {
  // RULE{LITERAL}: ([a,b,c])->([a,c]) {a=4,b=8,c=2} reduce{b} linear{{0}}
  %0 = dtc.reduce sum %x [1] : tensor<4x8x2xf32> -> tensor<4x2xf32>
  // RULE{LITERAL}: ([a,b,c])->([c]) {a=4,b=8,c=2} max{a,b}
  %1 = dtc.reduce max %x [0, 1] : tensor<4x8x2xf32> -> tensor<2xf32>
  // RULE{LITERAL}: ([a,b])->([b]) {a=4,b=8} min{a}
  %2 = dtc.reduce min %i [0] : tensor<4x8xi64> -> tensor<8xi64>
  // RULE{LITERAL}: ([a,b,c])->([a,b]) {a=4,b=8,c=2} whole{c}
  %3 = dtc.reduce prod %x [2] : tensor<4x8x2xf32> -> tensor<4x8xf32>
  // RULE{LITERAL}: ([a,b,c])->([a,b,c]) {a=4,b=8,c=2} whole{b} linear{{0}}
  %4 = dtc.cumsum %x 1 exclusive reverse : tensor<4x8x2xf32> -> tensor<4x8x2xf32>
  // RULE{LITERAL}: ([a,b,c],[a,b,c],[a,b,c])->([a,b,c]) {a=4,b=8,c=2} linear{{0,1,2}}
  %5 = dtc.sum %x, %x, %x : tensor<4x8x2xf32>
  // RULE{LITERAL}: ([a,b,c],[b,d])->([a,d,c]) {a=4,b=8,c=2,d=4} reduce{b} linear{{0},{1}}
  %6 = dtc.contract %x [0, 1, 2], %w [1, 3] -> [0, 3, 2] : tensor<4x8x2xf32>, tensor<8x4xf32> -> tensor<4x4x2xf32>
  // RULE{LITERAL}: ([c,a,b],[a,c])->([a,c,b]) {a=8,b=2,c=4} linear{{0},{1}}
  %7 = dtc.contract %x [2, 0, 1], %w [0, 2] -> [0, 2, 1] : tensor<4x8x2xf32>, tensor<8x4xf32> -> tensor<8x4x2xf32>
  return
}

// Some indices are outside the tables.
// CHECK-LABEL: @index({{.*}}test.shardings = 104 :
func.func @index(%t: tensor<8x4xf32>, %i: tensor<4x2xi32>, %j: tensor<4x4xi64>, %x: tensor<4x4x8xf32>) {
  // RULE{LITERAL}: ([a,b],[c,d])->([c,d,b]) {a=8,b=4,c=4,d=2} reduce{a} linear{{0}}
  %0 = dtc.gather %t, %i axis 0 : tensor<8x4xf32>, tensor<4x2xi32> -> tensor<4x2x4xf32>
  // RULE{LITERAL}: ([a,b],[c,d])->([a,c,d]) {a=8,b=4,c=4,d=4} reduce{b} linear{{0}}
  %1 = dtc.gather %t, %j axis 1 : tensor<8x4xf32>, tensor<4x4xi64> -> tensor<8x4x4xf32>
  // RULE{LITERAL}: ([c,d],[c,d,b])->([a,b]) {a=8,b=8,c=4,d=4} reduce{c,d} linear{{1}}
  %2 = dtc.scatter_add %j, %x axis 0 : tensor<4x4xi64>, tensor<4x4x8xf32> -> tensor<8x8xf32>
  // RULE{LITERAL}: ([a,b])->([c,d]) {a=4,b=4,c=2,d=11} whole{a,b,c,d}
  %buckets = dtc.bucket_indices %j rows 8 of 4 : tensor<4x4xi64> -> tensor<2x11xi32>
  // RULE{LITERAL}: ([a,b,c],[a,b])->([a,b]) {a=4,b=4,c=8} reduce{c} linear{{0}}
  %3 = dtc.pick %x, %j : tensor<4x4x8xf32>, tensor<4x4xi64> -> tensor<4x4xf32>
  return
}

// 3 experts and 8 rows of a sample can't be shared out alike: rows and what is in them can be split. Some choose none.
// CHECK-LABEL: @experts({{.*}}test.shardings = 114 :
func.func @experts(%x: tensor<4x8x2xf32>, %i: tensor<4x8xi64>, %w: tensor<3x4x2xf32>, %y: tensor<4x8x4xf32>) {
  // RULE{LITERAL}: ([a,b,e],[c,d,e],[a,b])->([a,b,d]) {a=4,b=8,c=3,d=4,e=2} reduce{e} whole{c} linear{{0},{1}}
  %0 = dtc.grouped_contract %x [0, 1, 4], %w [2, 3, 4] -> [0, 1, 3] by %i [0, 1] of 2 : tensor<4x8x2xf32>, tensor<3x4x2xf32>, tensor<4x8xi64> -> tensor<4x8x4xf32>
  // RULE{LITERAL}: ([c,d,e],[a,b,d],[a,b])->([a,b,e]) {a=4,b=8,c=3,d=4,e=2} reduce{d} whole{c} linear{{0},{1}}
  %1 = dtc.grouped_contract %w [2, 3, 4], %y [0, 1, 3] -> [0, 1, 4] by %i [0, 1] of 2 : tensor<3x4x2xf32>, tensor<4x8x4xf32>, tensor<4x8xi64> -> tensor<4x8x2xf32>
  // RULE{LITERAL}: ([a,b,d],[a,b,e],[a,b])->([e,c,d]) {a=4,b=8,c=3,d=4,e=2} reduce{a,b} whole{c} linear{{0},{1}}
  %2 = dtc.grouped_contract %y [0, 1, 3], %x [0, 1, 4] -> [4, 2, 3] by %i [0, 1] of 2 : tensor<4x8x4xf32>, tensor<4x8x2xf32>, tensor<4x8xi64> -> tensor<2x3x4xf32>
  // RULE{LITERAL}: ([a,b,d],[a,b])->([a,c,d]) {a=4,b=8,c=8,d=2} whole{b,c} linear{{0}}
  %3 = dtc.dispatch %x, %i experts 3 : tensor<4x8x2xf32>, tensor<4x8xi64>
  // RULE{LITERAL}: ([a,c,d],[a,b])->([a,b,d]) {a=4,b=8,c=8,d=2} whole{b,c} linear{{0}}
  %4 = dtc.combine %x, %i experts 3 : tensor<4x8x2xf32>, tensor<4x8xi64>
  return
}

// Rows are seen whole.
// CHECK-LABEL: @choose({{.*}}test.shardings = 12 :
func.func @choose(%x: tensor<4x2x8xf32>) {
  // RULE{LITERAL}: ([a,b,c])->([a,b,d]) {a=4,b=2,c=8,d=3} whole{c,d}
  %0 = dtc.top_k %x : tensor<4x2x8xf32> -> tensor<4x2x3xi64>
  // RULE{LITERAL}: ([a,b,c])->([a,b,1]) {a=4,b=2,c=8} whole{c}
  %1 = dtc.top_k %x smallest : tensor<4x2x8xf32> -> tensor<4x2x1xi64>
  return
}

// CHECK-LABEL: @rows({{.*}}test.shardings = 75 :
func.func @rows(%x: tensor<2x4x8xf32>, %row: tensor<2x4xf32>, %h: tensor<8xf32>) {
  // RULE{LITERAL}: ([a,b,c])->([a,b,c]) {a=2,b=4,c=8}
  %0 = dtc.activation gelu %x : tensor<2x4x8xf32>
  // RULE{LITERAL}: ([a,b,c],[a,b,c])->([a,b,c]) {a=2,b=4,c=8} linear{{1}}
  %1 = dtc.activation_grad silu %x, %x : tensor<2x4x8xf32>
  // RULE{LITERAL}: ([a,b,c])->([a,b,c]) {a=2,b=4,c=8} rounds{b}
  %2 = dtc.softmax %x 1 : tensor<2x4x8xf32>
  // RULE{LITERAL}: ([a,b,c],[a,b,c])->([a,b,c]) {a=2,b=4,c=8} rounds{c} linear{{1}}
  %3 = dtc.softmax_grad %x, %x 2 : tensor<2x4x8xf32>
  // RULE{LITERAL}: ([a,b,c],[c],[c])->([a,b,c],[a,b],[a,b]) {a=2,b=4,c=8} rounds{c}
  %4:3 = dtc.layer_norm %x scale %h : tensor<8xf32> bias %h : tensor<8xf32> eps 1.0e-5 : tensor<2x4x8xf32> -> tensor<2x4x8xf32>, tensor<2x4xf32>, tensor<2x4xf32>
  // RULE{LITERAL}: ([a,b,c],[a,b],[a,b],[a,b,c],[c])->([a,b,c],[c],[c]) {a=2,b=4,c=8} rounds{c} linear{{3}}
  %5:3 = dtc.layer_norm_grad %x, %row, %row, %x scale %h : tensor<8xf32> : tensor<2x4x8xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4x8xf32> -> tensor<2x4x8xf32>, tensor<8xf32>, tensor<8xf32>
  // RULE{LITERAL}: ([a,b,c])->([a,b,c],[a,b]) {a=2,b=4,c=8} rounds{c}
  %6:2 = dtc.rms_norm %x eps 1.0e-5 : tensor<2x4x8xf32> -> tensor<2x4x8xf32>, tensor<2x4xf32>
  // RULE{LITERAL}: ([a,b,c],[a,b],[a,b,c],[c])->([a,b,c],[c]) {a=2,b=4,c=8} rounds{c} linear{{2}}
  %7:2 = dtc.rms_norm_grad %x, %row, %x scale %h : tensor<8xf32> : tensor<2x4x8xf32>, tensor<2x4xf32>, tensor<2x4x8xf32> -> tensor<2x4x8xf32>, tensor<8xf32>
  return
}

// CHECK-LABEL: @channels({{.*}}test.shardings = 5 :
func.func @channels(%x: tensor<4x2x4xf32>, %c: tensor<2xf32>, %e: tensor<f32>) {
  // RULE{LITERAL}: ([a,b,c],[b],[b])->([a,b,c],[b],[b],[b]) {a=4,b=2,c=4} rounds{a,c}
  %0:4 = dtc.batch_norm %x scale %c : tensor<2xf32> bias %c : tensor<2xf32> eps 1.0e-5 : tensor<4x2x4xf32> -> tensor<4x2x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  // RULE{LITERAL}: ([a,b,c],[b],[b],[])->([a,b,c],[b],[b],[b]) {a=4,b=2,c=4} rounds{a,c}
  %2:4 = dtc.batch_norm %x running %c : tensor<2xf32>, %c : tensor<2xf32> if %e : tensor<f32> eps 1.0e-5 : tensor<4x2x4xf32> -> tensor<4x2x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  // RULE{LITERAL}: ([a,b,c],[b],[b],[a,b,c],[b])->([a,b,c],[b],[b]) {a=4,b=2,c=4} rounds{a,c} linear{{3}}
  %1:3 = dtc.batch_norm_grad %x, %c, %c, %x scale %c : tensor<2xf32> : tensor<4x2x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<4x2x4xf32> -> tensor<4x2x4xf32>, tensor<2xf32>, tensor<2xf32>
  return
}

// CHECK-LABEL: @attention({{.*}}test.shardings = 72 :
func.func @attention(%q: tensor<4x4x8x2xf32>, %k: tensor<4x4x2x2xf32>, %b: tensor<4x8x4x4xf32>, %lse: tensor<4x8x4xf32>) {
  // RULE{LITERAL}: ([a,d,(b c),f],[a,e,b,f],[a,e,b,g])->([a,d,(b c),g],[a,(b c),d]) {a=4,b=2,c=4,d=4,e=4,f=2,g=2} rounds{d,e} whole{f,g}
  %0:2 = dtc.attention %q, %k, %k scale 0.5 causal : tensor<4x4x8x2xf32>, tensor<4x4x2x2xf32>, tensor<4x4x2x2xf32> -> tensor<4x4x8x2xf32>, tensor<4x8x4xf32>
  // RULE{LITERAL}: ([a,d,(b c),f],[a,e,b,f],[a,e,b,g],[a,(b c),d,e])->([a,d,(b c),g],[a,(b c),d]) {a=4,b=2,c=4,d=4,e=4,f=2,g=2} rounds{e} whole{f,g}
  %1:2 = dtc.attention %q, %k, %k bias %b : tensor<4x8x4x4xf32> scale 0.5 : tensor<4x4x8x2xf32>, tensor<4x4x2x2xf32>, tensor<4x4x2x2xf32> -> tensor<4x4x8x2xf32>, tensor<4x8x4xf32>
  // RULE{LITERAL}: ([a,d,(b c),f],[a,e,b,f],[a,e,b,g],[a,d,(b c),g],[a,(b c),d],[a,d,(b c),g],[a,(b c),d,e])->([a,d,(b c),f],[a,e,b,f],[a,e,b,g]) {a=4,b=2,c=4,d=4,e=4,f=2,g=2} rounds{e} whole{f,g} linear{{5}}
  %2:3 = dtc.attention_grad %q, %k, %k, %q, %lse, %q bias %b : tensor<4x8x4x4xf32> scale 0.5 : tensor<4x4x8x2xf32>, tensor<4x4x2x2xf32>, tensor<4x4x2x2xf32>, tensor<4x4x8x2xf32>, tensor<4x8x4xf32>, tensor<4x4x8x2xf32> -> tensor<4x4x8x2xf32>, tensor<4x4x2x2xf32>, tensor<4x4x2x2xf32>
  // RULE{LITERAL}: ([a,d,(b c),f],[a,e,b,f],[a,e,b,g],[a,d,(b c),g],[a,(b c),d],[a,d,(b c),g])->([a,d,(b c),f],[a,e,b,f],[a,e,b,g]) {a=4,b=2,c=4,d=4,e=4,f=2,g=2} rounds{d,e} whole{f,g} linear{{5}}
  %3:3 = dtc.attention_grad %q, %k, %k, %q, %lse, %q scale 0.5 causal : tensor<4x4x8x2xf32>, tensor<4x4x2x2xf32>, tensor<4x4x2x2xf32>, tensor<4x4x8x2xf32>, tensor<4x8x4xf32>, tensor<4x4x8x2xf32> -> tensor<4x4x8x2xf32>, tensor<4x4x2x2xf32>, tensor<4x4x2x2xf32>
  // RULE{LITERAL}: ([a,d,(b c),f],[a,e,b,f],[a,e,b,g],[a,d,(b c),g],[a,(b c),d],[a,d,(b c),g])->([a,d,(b c),f],[a,e,b,f],[a,e,b,g]) {a=4,b=2,c=4,d=4,e=4,f=2,g=2} rounds{e} whole{f,g} linear{{5}}
  %4:3 = dtc.attention_part_grad %q, %k, %k, %q, %lse, %q scale 0.5 : tensor<4x4x8x2xf32>, tensor<4x4x2x2xf32>, tensor<4x4x2x2xf32>, tensor<4x4x8x2xf32>, tensor<4x8x4xf32>, tensor<4x4x8x2xf32> -> tensor<4x4x8x2xf32>, tensor<4x4x2x2xf32>, tensor<4x4x2x2xf32>
  return
}

// A window of the last keys: shards count positions as under a causal mask.
// CHECK-LABEL: @window({{.*}}test.shardings = 19 :
func.func @window(%q: tensor<4x4x8x2xf32>, %k: tensor<4x8x2x2xf32>, %lse: tensor<4x8x4xf32>) {
  // RULE{LITERAL}: ([a,d,(b c),f],[a,e,b,f],[a,e,b,g])->([a,d,(b c),g],[a,(b c),d]) {a=4,b=2,c=4,d=4,e=8,f=2,g=2} rounds{d,e} whole{f,g}
  %0:2 = dtc.attention %q, %k, %k scale 0.5 causal window 3 : tensor<4x4x8x2xf32>, tensor<4x8x2x2xf32>, tensor<4x8x2x2xf32> -> tensor<4x4x8x2xf32>, tensor<4x8x4xf32>
  // RULE{LITERAL}: ([a,d,(b c),f],[a,e,b,f],[a,e,b,g],[a,d,(b c),g],[a,(b c),d],[a,d,(b c),g])->([a,d,(b c),f],[a,e,b,f],[a,e,b,g]) {a=4,b=2,c=4,d=4,e=8,f=2,g=2} rounds{d,e} whole{f,g} linear{{5}}
  %1:3 = dtc.attention_grad %q, %k, %k, %q, %lse, %q scale 0.5 causal window 3 : tensor<4x4x8x2xf32>, tensor<4x8x2x2xf32>, tensor<4x8x2x2xf32>, tensor<4x4x8x2xf32>, tensor<4x8x4xf32>, tensor<4x4x8x2xf32> -> tensor<4x4x8x2xf32>, tensor<4x8x2x2xf32>, tensor<4x8x2x2xf32>
  return
}

// Rows with the target 3 are ignored: shifted targets must not be mistaken.
// CHECK-LABEL: @cross_entropy({{.*}}test.shardings = 46 :
func.func @cross_entropy(%x: tensor<4x4x8xf32>, %t: tensor<4x4xi64>, %u: tensor<4x4xi32>, %row: tensor<4x4xf32>) {
  // RULE{LITERAL}: ([a,b,c],[a,b])->([a,b],[a,b]) {a=4,b=4,c=8} rounds{c}
  %0:2 = dtc.cross_entropy %x, %t ignore 3 : tensor<4x4x8xf32>, tensor<4x4xi64> -> tensor<4x4xf32>, tensor<4x4xf32>
  // RULE{LITERAL}: ([a,b,c],[a,b],[a,b],[a,b])->([a,b,c]) {a=4,b=4,c=8} linear{{3}}
  %1 = dtc.cross_entropy_grad %x, %t, %row, %row ignore 3 : tensor<4x4x8xf32>, tensor<4x4xi64>, tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4x8xf32>
  // RULE{LITERAL}: ([a,b,c],[a,b],[a,b],[a,b])->([a,b,c]) {a=4,b=4,c=8} linear{{3}}
  %2 = dtc.cross_entropy_grad %x, %u, %row, %row ignore 3 : tensor<4x4x8xf32>, tensor<4x4xi32>, tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4x8xf32>
  return
}

// A shard draws what the whole does there.
// CHECK-LABEL: @dropout({{.*}}test.shardings = 37 :
func.func @dropout(%x: tensor<4x8x2xf32>, %k: tensor<4xi64>, %l: tensor<8xi64>) {
  // RULE{LITERAL}: ([a,b,c],[a])->([a,b,c]) {a=4,b=8,c=2} linear{{0}}
  %0 = dtc.dropout %x keys %k : tensor<4xi64> ratio 0.5 : tensor<4x8x2xf32>
  // RULE{LITERAL}: ([a,b,c],[b])->([a,b,c]) {a=4,b=8,c=2} linear{{0}}
  %1 = dtc.dropout %x keys %l : tensor<8xi64> ratio 0.25 {batch = 1, number = 9} : tensor<4x8x2xf32>
  // RULE{LITERAL}: ([a],[a])->([a]) {a=8}
  %2 = dtc.philox %l, %l 9 : tensor<8xi64>
  return
}

// CHECK-LABEL: @vision({{.*}}test.shardings = 150 :
func.func @vision(%x: tensor<4x8x5x5xf32>, %w: tensor<12x8x3x3xf32>, %y: tensor<4x12x3x3xf32>, %v: tensor<8x4x3x3xf32>, %d: tensor<8x1x3x3xf32>, %z: tensor<4x8x3x3xf32>) {
  // RULE{LITERAL}: ([a,b,d,e],[c,b,f,g])->([a,c,h,i]) {a=4,b=8,c=12,d=5,e=5,f=3,g=3,h=3,i=3} reduce{b} whole{d,e,f,g,h,i} linear{{0},{1}}
  %0 = dtc.conv %x, %w strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] groups 1 : tensor<4x8x5x5xf32>, tensor<12x8x3x3xf32> -> tensor<4x12x3x3xf32>
  // RULE{LITERAL}: ([a,c,h,i],[c,b,f,g])->([a,b,d,e]) {a=4,b=8,c=12,d=5,e=5,f=3,g=3,h=3,i=3} reduce{c} whole{d,e,f,g,h,i} linear{{0},{1}}
  %1 = dtc.conv_input_grad %y, %w strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] groups 1 : tensor<4x12x3x3xf32>, tensor<12x8x3x3xf32> -> tensor<4x8x5x5xf32>
  // RULE{LITERAL}: ([a,b,d,e],[a,c,h,i])->([c,b,f,g]) {a=4,b=8,c=12,d=5,e=5,f=3,g=3,h=3,i=3} reduce{a} whole{d,e,f,g,h,i} linear{{0},{1}}
  %2 = dtc.conv_weight_grad %x, %y strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] groups 1 : tensor<4x8x5x5xf32>, tensor<4x12x3x3xf32> -> tensor<12x8x3x3xf32>
  // RULE{LITERAL}: ([a,(b c),e,f],[(b d),c,g,h])->([a,(b d),i,j]) {a=4,b=2,c=4,d=4,e=5,f=5,g=3,h=3,i=3,j=3} reduce{c} whole{e,f,g,h,i,j} linear{{0},{1}}
  %3 = dtc.conv %x, %v strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] groups 2 : tensor<4x8x5x5xf32>, tensor<8x4x3x3xf32> -> tensor<4x8x3x3xf32>
  // RULE{LITERAL}: ([a,b,c,d],[b,1,e,f])->([a,b,g,h]) {a=4,b=8,c=5,d=5,e=3,f=3,g=3,h=3} whole{c,d,e,f,g,h} linear{{0},{1}}
  %4 = dtc.conv %x, %d strides [1, 1] pad [0, 0], [0, 0] dilations [1, 1] groups 8 : tensor<4x8x5x5xf32>, tensor<8x1x3x3xf32> -> tensor<4x8x3x3xf32>
  // RULE{LITERAL}: ([a,(b d),i,j],[(b d),c,g,h])->([a,(b c),e,f]) {a=4,b=2,c=4,d=4,e=5,f=5,g=3,h=3,i=3,j=3} reduce{d} whole{e,f,g,h,i,j} linear{{0},{1}}
  %5 = dtc.conv_input_grad %z, %v strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] groups 2 : tensor<4x8x3x3xf32>, tensor<8x4x3x3xf32> -> tensor<4x8x5x5xf32>
  // RULE{LITERAL}: ([a,(b c),e,f],[a,(b d),i,j])->([(b d),c,g,h]) {a=4,b=2,c=4,d=4,e=5,f=5,g=3,h=3,i=3,j=3} reduce{a} whole{e,f,g,h,i,j} linear{{0},{1}}
  %6 = dtc.conv_weight_grad %x, %z strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] groups 2 : tensor<4x8x5x5xf32>, tensor<4x8x3x3xf32> -> tensor<8x4x3x3xf32>
  // RULE{LITERAL}: ([a,b,c,d])->([a,b,e,f]) {a=4,b=8,c=5,d=5,e=3,f=3} whole{c,d,e,f}
  %7 = dtc.max_pool %x kernel [3, 3] strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] : tensor<4x8x5x5xf32> -> tensor<4x8x3x3xf32>
  // RULE{LITERAL}: ([a,b,c,d],[a,b,e,f])->([a,b,c,d]) {a=4,b=8,c=5,d=5,e=3,f=3} whole{c,d,e,f} linear{{1}}
  %8 = dtc.max_pool_grad %x, %z kernel [3, 3] strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] : tensor<4x8x5x5xf32>, tensor<4x8x3x3xf32> -> tensor<4x8x5x5xf32>
  return
}

// CHECK-LABEL: @optimizer({{.*}}test.shardings = 30 :
func.func @optimizer(%p: tensor<4x8xf32>, %v: tensor<4x8xf32>, %lr: tensor<f64>, %s: tensor<f32>) {
  // RULE{LITERAL}: ([a,b],[a,b],[a,b],[],[])->([a,b],[a,b]) {a=4,b=8}
  %0:2 = dtc.sgd_update %p, %p, %p, %lr, %s {momentum = 0.9 : f64, weightDecay = 0.1 : f64} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<f64>, tensor<f32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  // RULE{LITERAL}: ([a,b],[a,b])->([a,b]) {a=4,b=8} linear{{0},{1}}
  %square = arith.mulf %v, %v : tensor<4x8xf32>
  // RULE{LITERAL}: ([a,b],[a,b],[a,b],[a,b],[],[],[],[])->([a,b],[a,b],[a,b]) {a=4,b=8}
  %1:3 = dtc.adam_update %p, %p, %p, %square, %lr, %s, %s, %s {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, weightDecay = 0.1 : f64, decoupled} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<f64>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
  return
}

// CHECK-LABEL: @elementwise({{.*}}test.shardings = 145 :
func.func @elementwise(%x: tensor<4x8xf32>, %i: tensor<4x8xi64>, %b: tensor<4x8xi1>) {
  // RULE{LITERAL}: ()->([a,b]) {a=4,b=8}
  %0 = arith.constant dense<2.0> : tensor<4x8xf32>
  // RULE{LITERAL}: ()->([a]) {a=4} whole{a}
  %1 = arith.constant dense<[1, 2, 3, 4]> : tensor<4xi64>
  // RULE{LITERAL}: ([a,b],[a,b])->([a,b]) {a=4,b=8} linear{{0,1}}
  %2 = arith.addf %x, %x : tensor<4x8xf32>
  // RULE{LITERAL}: ([a,b],[a,b])->([a,b]) {a=4,b=8} linear{{0,1}}
  %3 = arith.subf %x, %x : tensor<4x8xf32>
  // RULE{LITERAL}: ([a,b],[a,b])->([a,b]) {a=4,b=8} linear{{0},{1}}
  %4 = arith.mulf %x, %x : tensor<4x8xf32>
  // RULE{LITERAL}: ([a,b],[a,b])->([a,b]) {a=4,b=8} linear{{0}}
  %5 = arith.divf %x, %x : tensor<4x8xf32>
  // RULE{LITERAL}: ([a,b])->([a,b]) {a=4,b=8} linear{{0}}
  %6 = arith.negf %x : tensor<4x8xf32>
  // RULE{LITERAL}: ([a,b])->([a,b]) {a=4,b=8} linear{{0}}
  %7 = arith.extf %x : tensor<4x8xf32> to tensor<4x8xf64>
  // RULE{LITERAL}: ([a,b],[a,b])->([a,b]) {a=4,b=8} linear{{0},{1}}
  %8 = arith.muli %i, %i : tensor<4x8xi64>
  // RULE{LITERAL}: ([a,b],[a,b])->([a,b]) {a=4,b=8} linear{{0,1}}
  %9 = arith.subi %i, %i : tensor<4x8xi64>
  // RULE{LITERAL}: ([a,b],[a,b],[a,b])->([a,b]) {a=4,b=8} linear{{1,2}}
  %10 = arith.select %b, %x, %x : tensor<4x8xi1>, tensor<4x8xf32>
  // RULE{LITERAL}: ([a,b],[a,b])->([a,b]) {a=4,b=8}
  %11 = arith.cmpi slt, %i, %i : tensor<4x8xi64>
  // RULE{LITERAL}: ([a,b])->([a,b]) {a=4,b=8}
  %12 = arith.sitofp %i : tensor<4x8xi64> to tensor<4x8xf32>
  // RULE{LITERAL}: ([a,b])->([a,b]) {a=4,b=8}
  %13 = math.exp %x : tensor<4x8xf32>
  // RULE{LITERAL}: ([a,b],[a,b])->([a,b]) {a=4,b=8}
  %14 = arith.maximumf %x, %x : tensor<4x8xf32>
  return
}

// CHECK-LABEL: @barrier({{.*}}test.shardings = {{[1-9]}}
func.func @barrier(%x: tensor<4x8xf32>) {
  // RULE{LITERAL}: ([a,b])->([a,b]) {a=4,b=8} linear{{0}}
  %0 = dtc.barrier %x : tensor<4x8xf32>
  return
}
