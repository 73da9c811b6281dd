// Mixtures of experts whose rows have slots: what ranks that share experts exchange.
//
// A row that chooses its expert (ExpertOps.td) goes where that expert is, and nobody knows before
// how many others do. So each part of the experts has a number of slots for each sample, its
// capacity. These are dimensions, which ep splits as any other:
//
//   %slots = dtc.expert_slots %choices experts 8 sections 1 parts 2 capacity 64 : tensor<4x64xi64>
//   %in = dtc.to_slots %x, %slots : tensor<4x64x32xf32>, tensor<4x64xi64> -> tensor<4x2x64x32xf32>
//   %to = dtc.to_slots %choices, %slots : tensor<4x64xi64>, tensor<4x64xi64> -> tensor<4x2x64xi64>
//   ... products with the weights of part 0 in slots [:, 0], of part 1 in slots [:, 1]
//   %y = dtc.from_slots %down, %slots : tensor<4x2x64x32xf32>, tensor<4x64xi64> -> tensor<4x64x32xf32>
//
// Two parts with 64 slots each have a place for every row, whatever the 64 rows choose. A row that
// finds its part full has no slot: it is in no product, and zeros come back.
//
// Mostly the rows of a token, two say, have chosen different parts (`apart 2`). Where these have a slot
// for each token, a row's slot is its token's, and nothing is counted.
//
// Or the rows of each expert begin a tile (`tile 16`): their slots are filled up to a multiple of
// 16. Products are then of tiles, each of which belongs to one expert (exec.grouped_matmul).
//
// Under context parallelism each rank gives slots to the rows of its own tokens. These are sections
// of a sample's rows, which are a dimension too: tensor<4x(sections)x(parts)x(capacity)x...>.
#ifndef DTC_DIALECT_GRAPH_SLOTOPS_TD
#define DTC_DIALECT_GRAPH_SLOTOPS_TD

include "dtc/Dialect/Graph/GraphBase.td"

def Graph_ExpertSlotsOp : Graph_TensorOp<"expert_slots",
    [ShardingRuleLocal, NoGradient, Decomposable, ConvertedAround, AllTypesMatch<["choices", "result"]>]> {
  let summary = "the slot that each row has with its expert's part";
  let description = [{
    `choices[b, n]` is the expert of row n of sample b. Experts are numbered part by part, and so
    are the slots of a section: slot s belongs to part s / capacity. Rows get the slots of a part
    in their own order. A row has -1 where its choice is no expert or its part is full.
    With `apart k`, no two of rows `[k * t, k * t + k)` of a section have the same part, and row n
    has slot `n / k` of its part: there is one for each t.
    With `tile t`, capacity is a multiple of t. Rows get the slots of a part by their experts, and
    those of the next expert begin at the next multiple of t.
  }];
  let arguments = (ins AnyStaticShapeTensor:$choices, I64Attr:$experts, I64Attr:$sections,
                       I64Attr:$parts, I64Attr:$capacity, OptionalAttr<I64Attr>:$apart,
                       OptionalAttr<I64Attr>:$tile);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = [{
    $choices `experts` $experts `sections` $sections `parts` $parts `capacity` $capacity
    (`apart` $apart^)? (`tile` $tile^)? attr-dict `:` type($choices)
  }];
  let hasVerifier = 1;
}

class Graph_SlotExchangeOp<string mnemonic>
    : Graph_TensorOp<mnemonic, [ShardingRuleLocal, Differentiable, Decomposable, ConvertedAround]> {
  let arguments = (ins AnyStaticShapeTensor:$input, AnyStaticShapeTensor:$slots,
                       OptionalAttr<I64Attr>:$apart, OptionalAttr<I64Attr>:$tile);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = [{
    $input `,` $slots (`apart` $apart^)? (`tile` $tile^)? attr-dict `:` type($input) `,` type($slots) `->`
    type($result)
  }];
  let hasVerifier = 1;
}

def Graph_ToSlotsOp : Graph_SlotExchangeOp<"to_slots"> {
  let summary = "puts the rows of a sample into their slots";
  let description = [{
    From [sample, row, ...] to [sample, part, slot of the part, ...], or with the sections before
    the parts. No two rows of a section have one slot. A slot without a row has zeros, or -1
    where elements are integers. With `apart k`, slots are those of dtc.expert_slots with it: slot t
    of a part has one of k rows, or none. With `tile t`, they are those of dtc.expert_slots with
    that.
  }];
}

def Graph_FromSlotsOp : Graph_SlotExchangeOp<"from_slots"> {
  let summary = "takes the rows of a sample from their slots";
  let description = [{ The reverse of dtc.to_slots. A row without a slot has zeros. }];
}

#endif // DTC_DIALECT_GRAPH_SLOTOPS_TD
