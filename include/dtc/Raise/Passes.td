#ifndef DTC_RAISE_PASSES_TD
#define DTC_RAISE_PASSES_TD

include "mlir/Pass/PassBase.td"

def WidenHalves : Pass<"dtc-widen-halves", "::mlir::ModuleOp"> {
  let summary = "make f32 of the file's halves";
  let description = [{
    A model is the same whether it was exported in f32, bf16 or f16: which floats
    it is trained in is said elsewhere. So halves become f32 in @forward, and
    casts between them and f32 vanish; dtc.parameter keeps the file's type. The
    largest number of a half becomes that of f32: masks hide with it. Clamps that
    keep f16 from overflowing are left out. A model without parameters keeps its
    types.

        dtc.parameter trainable @w : tensor<4x8xbf16> file tensor<4x8xbf16>
        %0 = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] : ... -> tensor<2x8xbf16>
        %1 = arith.extf %0 : tensor<2x8xbf16> to tensor<2x8xf32>
      becomes
        dtc.parameter trainable @w : tensor<4x8xf32> file tensor<4x8xbf16>
        %0 = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] : ... -> tensor<2x8xf32>
  }];
  let dependentDialects = ["::dtc::graph::GraphDialect"];
}

def Rebatch : Pass<"dtc-rebatch", "::mlir::ModuleOp"> {
  let summary = "give @forward another batch size";
  let description = [{
    From dimension 0 of every input the batch is followed through the ops by
    their sharding rules, until every dimension that contains it is known. Then
    types change. What can't follow is refused by name: a constant that varies
    along the batch, an op that mixes samples, a parameter of the batch's shape.

        func.func @forward(%x: tensor<8x4xf32>, %w: tensor<4x5xf32>)
        %0 = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] : ... -> tensor<8x5xf32>
      becomes for batch=3
        func.func @forward(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>)
        %0 = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] : ... -> tensor<3x5xf32>
  }];
  let options = [Option<"batch", "batch", "int64_t", /*default=*/"0", "samples of one call">,
                 Option<"isCut", "cut", "bool", /*default=*/"false",
                        "the call is one of several of a step, so that no value may count samples">,
                 Option<"isOpen", "open", "bool", /*default=*/"false",
                        "the file takes any batch; errors say what to do">,
                 ListOption<"whole", "whole", "std::string", "inputs without samples">];
  let dependentDialects = ["::dtc::graph::GraphDialect"];
}

def KeyDropout : Pass<"dtc-key-dropout", "::mlir::ModuleOp"> {
  let summary = "say by what dropout draws";
  let description = [{
    Each dtc.dropout gets a number, its place among them, and the keys of the samples, an
    argument that dtc-run fills from its seed and the samples' places in the training. The
    batch is followed from the inputs to it; where it can't be, the dropout is refused.

        func.func @forward(%x: tensor<8x4xf32>)
        %0 = dtc.dropout %x ratio 0.1 : tensor<8x4xf32>
      becomes
        func.func @forward(%x: tensor<8x4xf32>, %k: tensor<8xi64> {dtc.role = #dtc.role<input, "dropout_keys">})
        %0 = dtc.dropout %x keys %k : tensor<8xi64> ratio 0.1 : tensor<8x4xf32>
  }];
  let dependentDialects = ["::dtc::graph::GraphDialect"];
}

def Unflatten : Pass<"dtc-unflatten"> {
  let summary = "move reshapes and transposes into contractions and weights";
  let description = [{
    Reshapes that merge batch and sequence around contractions move below them.
    Those that split a contraction's result into heads move above it into the
    weight. Transposes become index lists. A value that is only read in equal
    parts gets a dimension of parts.

        %0 = dtc.reshape %x : tensor<8x32x64xf32> -> tensor<256x64xf32>
        %1 = dtc.contract %0 [0, 2], %w [2, 1] -> [0, 1] : ... -> tensor<256x48xf32>
        %2 = dtc.reshape %1 : tensor<256x48xf32> -> tensor<8x32x48xf32>
      becomes
        %2 = dtc.contract %x [0, 1, 3], %w [3, 2] -> [0, 1, 2] : ... -> tensor<8x32x48xf32>
  }];
  let dependentDialects = ["::dtc::graph::GraphDialect"];
}

def RaiseLayers : Pass<"dtc-raise"> {
  let summary = "recognize attention, normalizations, activations and mixtures of experts";
  let description = [{
    Layers that a file spells out in simple ops become one op each, which stays
    whole until it is lowered. A mask becomes an attribute of attention where it
    is proven to be causal.

        %0 = arith.mulf %x, %x : tensor<4x8x64xf32>
        %1 = dtc.reduce sum %0 [2] : tensor<4x8x64xf32> -> tensor<4x8xf32>
        ...
        %9 = arith.mulf %8, %7 : tensor<4x8x64xf32>
      becomes
        %9, %rstd = dtc.rms_norm %x scale %w : tensor<64xf32> eps 1.0E-6 ...
  }];
  let dependentDialects = ["::dtc::graph::GraphDialect"];
}

def ViewParameters : Pass<"dtc-view-parameters", "::mlir::ModuleOp"> {
  let summary = "make reshapes of parameters the parameters' views";
  let description = [{
    Where every use of a parameter reshapes it to one type, @forward takes it in
    that type, and dtc.parameter says so beside the file's. A fused projection
    can then be split by heads.

        dtc.parameter trainable @w : tensor<64x192xf32> file tensor<64x192xf32>
        %0 = dtc.reshape %w : tensor<64x192xf32> -> tensor<64x3x4x16xf32>
      becomes
        dtc.parameter trainable @w : tensor<64x3x4x16xf32> file tensor<64x192xf32>

    Any other view of a parameter is made for each of its readers, so that
    stages of a pipeline that share the weight have it themselves.
  }];
  let dependentDialects = ["::dtc::graph::GraphDialect"];
}

def ExpertSlots : Pass<"dtc-expert-slots", "::mlir::ModuleOp"> {
  let summary = "give rows that choose their experts slots with them";
  let description = [{
    How many rows choose an expert is known when a program runs. Where experts are shared out
    among `parts` ranks, each part gets as many slots as a sample has rows, which is enough for
    whatever these choose. `sections` ranks with a part each of every sequence give slots to
    their own rows. Slots are dimensions, which are then planned as all others.

        %0 = dtc.dispatch %x, %c experts 4 : tensor<2x8x6xf32>, tensor<2x8xi64>
        %1 = dtc.dispatch %c, %c experts 4 : tensor<2x8xi64>, tensor<2x8xi64>
        %2 = dtc.grouped_contract %0 [0, 1, 4], %w [2, 3, 4] -> [0, 1, 3] by %1 [0, 1] of 2 : ...
        %3 = dtc.combine %2, %c experts 4 : tensor<2x8x5xf32>, tensor<2x8xi64>
      becomes for parts=2
        %s = dtc.expert_slots %c experts 4 sections 1 parts 2 capacity 8 : tensor<2x8xi64>
        %0 = dtc.to_slots %x, %s : tensor<2x8x6xf32>, tensor<2x8xi64> -> tensor<2x2x8x6xf32>
        %1 = dtc.to_slots %c, %s : tensor<2x8xi64>, tensor<2x8xi64> -> tensor<2x2x8xi64>
        %p = ... the first expert of each part ...
        %l = arith.subi %1, %p : tensor<2x2x8xi64>
        %2 = dtc.grouped_contract %0 [0, 5, 1, 4], %v [5, 2, 3, 4] -> [0, 5, 1, 3] by %l [0, 5, 1] of 2 : ...
        %3 = dtc.from_slots %2, %s : tensor<2x2x8x5xf32>, tensor<2x8xi64> -> tensor<2x8x5xf32>

    A mixture whose experts or rows can't be shared out evenly stays as it is.

    With `capacity` each expert has slots of its own in each section: so many times the rows that
    would choose it if all experts were chosen equally often. Parts have one expert each then,
    whatever ranks there are, and products with them are ordinary contractions:

        %s = dtc.expert_slots %c experts 4 sections 1 parts 4 capacity 3 : tensor<2x8xi64>
        %0 = dtc.to_slots %x, %s : tensor<2x8x6xf32>, tensor<2x8xi64> -> tensor<2x4x3x6xf32>
        %2 = dtc.contract %0 [0, 2, 1, 4], %w [2, 3, 4] -> [0, 2, 1, 3] : ...
        %3 = dtc.from_slots %2, %s : tensor<2x4x3x5xf32>, tensor<2x8xi64> -> tensor<2x8x5xf32>

    With `each` experts have slots of their own without a capacity, too: one for each token. So
    libraries compute what would else be looked up row by row, though of more rows.

    With `tiles` rows get slots by their experts, and those of each expert begin a tile. Products
    are of whole tiles:

        %s = dtc.expert_slots %c experts 4 sections 1 parts 1 capacity 32 tile 8 : tensor<2x8xi64>
        %0 = dtc.to_slots %x, %s : tensor<2x8x6xf32>, tensor<2x8xi64> -> tensor<2x1x32x6xf32>
        %1 = ... the choices in the first slots of tiles ... : tensor<2x1x4xi64>
        %t = dtc.reshape %0 : tensor<2x1x32x6xf32> -> tensor<2x1x4x8x6xf32>
        %2 = dtc.grouped_contract %t [0, 5, 1, 6, 4], %w [2, 3, 4] -> [0, 5, 1, 6, 3] by %1 [0, 5, 1] of 2 : ...

    Where some of a section's rows may find no slot, @forward returns which these are, for each
    layer, with a role `count`.
  }];
  let options = [Option<"parts", "parts", "int64_t", /*default=*/"1", "ranks that share experts">,
                 Option<"sections", "sections", "int64_t", /*default=*/"1",
                        "ranks that share a sequence">,
                 Option<"capacity", "capacity", "double", /*default=*/"0",
                        "slots of an expert by the rows of an average one; 0: for the worst case">,
                 Option<"drops", "drops", "bool", /*default=*/"false",
                        "rows without a slot are dropped; else they end a run">,
                 Option<"each", "each", "bool", /*default=*/"false",
                        "without a capacity each expert has slots for its own worst case">,
                 Option<"tiles", "tiles", "bool", /*default=*/"false",
                        "without a capacity experts have whole tiles of a part's slots">];
  let dependentDialects = ["::dtc::graph::GraphDialect"];
}

def PadTokens : Pass<"dtc-pad-tokens", "::mlir::ModuleOp"> {
  let summary = "add tokens behind those of @forward's samples, where that changes none of these";
  let description = [{
    Where ranks of cp can't share the tokens, these become a multiple of twice as many. Where that
    isn't exact nothing changes, and a warning names the op that is the reason (PadTokens.cpp).

        func.func @forward(%ids: tensor<8x33xi64>, %w: tensor<512x64xf32>)
        %0 = dtc.gather %w, %ids axis 0 : ... -> tensor<8x33x64xf32>
      becomes for ranks=2
        %more = dtc.concat 1(%ids, %last) : ... -> tensor<8x36xi64>
        %0 = dtc.gather %w, %more axis 0 : ... -> tensor<8x36x64xf32>
  }];
  let options = [Option<"ranks", "ranks", "int64_t", /*default=*/"1", "that share the tokens">];
  let dependentDialects = ["::dtc::graph::GraphDialect"];
}

def EvenPadding : Pass<"dtc-even-padding"> {
  let summary = "pad before convolutions what they would pad unevenly";
  let description = [{
    Some libraries pad both ends of a dimension alike. What one end has more is padded before, so
    that gradients of inputs are cut, and those of weights read what is padded. Zeros that only the
    convolution reads, as between the elements of a transposed one's input, are made with it.

        %0 = dtc.pad %x low [0, 0, 0] interior [0, 0, 1] value 0.0 : tensor<2x4x3xf32> -> tensor<2x4x5xf32>
        %1 = dtc.conv %0, %w strides [1] pad [1], [2] dilations [1] groups 1 : ...
      becomes
        %0 = dtc.pad %x low [0, 0, 0] interior [0, 0, 1] value 0.0 : tensor<2x4x3xf32> -> tensor<2x4x6xf32>
        %1 = dtc.conv %0, %w strides [1] pad [1], [1] dilations [1] groups 1 : ...
  }];
  let dependentDialects = ["::dtc::graph::GraphDialect"];
}

#endif // DTC_RAISE_PASSES_TD
