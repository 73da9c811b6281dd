// y = exp(x w1 w2) in two stages. The first has w1 divided by tp and gathers on another queue;
// each of its ranks sends half of the rows to a rank of the second, which divides the batch.
// Ranks of a role need not follow one another, nor be in order.
module {
  module @first attributes {exec.ranks = array<i32: 2, 0>} {
    dist.mesh @mesh ["tp" = 2]
    dtc.parameter trainable @w1 : tensor<6x8xf32> file tensor<6x8xf32>
    func.func @forward(
        %x: tensor<4x6xf32> {dtc.role = #dtc.role<input, "x">},
        %w: tensor<6x4xf32> {dtc.role = #dtc.role<parameter, "w1">, dist.sharding = #dist.sharding<@mesh, [{}, {"tp"}]>})
        -> (tensor<2x8xf32> {dtc.role = #dtc.role<outbox, "h">})
        attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward>} {
      %p = exec.matmul %x, %w batch [] mnk [4, 4, 6] strides [6, 1], [4, 1] -> [4, 1] offsets [0, 0] : tensor<4x6xf32>, tensor<6x4xf32> -> tensor<4x4xf32>
      %g = dist.all_gather %p dim 1 on @mesh {"tp"} {exec.queue = #exec.queue<collective>} : tensor<4x4xf32> -> tensor<4x8xf32>
      %h = exec.wait %g : tensor<4x8xf32>
      %s = dist.slice %h dim 0 on @mesh {"tp"} : tensor<4x8xf32> -> tensor<2x8xf32>
      exec.send %s to [3, 1] channel 0 {exec.queue = #exec.queue<send>} : tensor<2x8xf32>
      return %s : tensor<2x8xf32>
    }
    exec.schedule microbatches 3 {
      exec.call @forward microbatch 0 slot 0
      exec.call @forward microbatch 1 slot 0 outbox 1
      exec.call @forward microbatch 2 slot 0
    }
  }

  module @second attributes {exec.ranks = array<i32: 3, 1>} {
    dist.mesh @mesh ["dp" = 2]
    dtc.parameter trainable @w2 : tensor<8x5xf32> file tensor<8x5xf32>
    exec.kernel @exp extent 10 scratch 0 flat {
    ^bb0(%a: tensor<2x5xf32>):
      %0 = math.exp %a : tensor<2x5xf32>
      exec.yield %0 : tensor<2x5xf32>
    }
    func.func @receive() -> (tensor<2x8xf32> {dtc.role = #dtc.role<inbox, "h">})
        attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward>} {
      %h = exec.receive from [2, 0] channel 0 {exec.queue = #exec.queue<receive>} : tensor<2x8xf32>
      return %h : tensor<2x8xf32>
    }
    func.func @forward(
        %h: tensor<2x8xf32> {dtc.role = #dtc.role<inbox, "h">},
        %w: tensor<8x5xf32> {dtc.role = #dtc.role<parameter, "w2">})
        -> (tensor<2x5xf32> {dtc.role = #dtc.role<output, "y">, dist.sharding = #dist.sharding<@mesh, [{"dp"}, {}]>})
        attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward>} {
      %in = exec.wait %h : tensor<2x8xf32>
      %p = exec.matmul %in, %w batch [] mnk [2, 5, 8] strides [8, 1], [5, 1] -> [5, 1] offsets [0, 0] : tensor<2x8xf32>, tensor<8x5xf32> -> tensor<2x5xf32>
      %y = exec.launch @exp(%p) extent 10 in_place [0] : (tensor<2x5xf32>) -> tensor<2x5xf32>
      return %y : tensor<2x5xf32>
    }
    exec.schedule microbatches 3 {
      exec.call @receive microbatch 0 slot 0
      exec.call @receive microbatch 1 slot 0 inbox 1
      exec.call @forward microbatch 0 slot 0
      exec.call @receive microbatch 2 slot 0
      exec.call @forward microbatch 1 slot 0 inbox 1
      exec.call @forward microbatch 2 slot 0
    }
  }
}
