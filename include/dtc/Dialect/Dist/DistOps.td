#ifndef DTC_DIALECT_DIST_DISTOPS_TD
#define DTC_DIALECT_DIST_DISTOPS_TD

include "dtc/Dialect/Dist/DistBase.td"

def Dist_MeshOp : Dist_Op<"mesh", [Symbol]> {
  let summary = "declares a mesh: dtc::sharding::Mesh";
  let description = [{
    `dist.mesh @mesh ["dp" = 2, "tp.0" = 2 of "tp", "tp.1" = 2 of "tp"]`,
    outermost axis first; `of` names the degree where it is not the axis' name.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$names, DenseI64ArrayAttr:$sizes,
                       StrArrayAttr:$degrees);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

// Collectives act among the ranks that differ only in `axes`; the group is
// ordered row-major over them.
class Dist_GroupOp<string mnemonic, dag operands, dag attrs, dag outs, list<Trait> traits = []>
    : Dist_Op<mnemonic, !listconcat([Pure,
        DeclareOpInterfaceMethods<SymbolUserOpInterface>], traits)> {
  let arguments = !con(operands, (ins FlatSymbolRefAttr:$mesh, Dist_AxesAttr:$axes), attrs);
  let results = outs;
}
class Dist_Collective<string mnemonic, dag attrs>
    : Dist_GroupOp<mnemonic, (ins AnyStaticShapeTensor:$input), attrs,
                   (outs AnyStaticShapeTensor:$result)> {
}

def Dist_AllReduceOp : Dist_GroupOp<"all_reduce",
    (ins Variadic<AnyStaticShapeTensor>:$inputs), (ins Graph_ReduceKindAttr:$kind),
    (outs Variadic<AnyStaticShapeTensor>:$outputs), [AllTypesMatch<["inputs", "outputs"]>]> {
  let summary = "every rank gets the reduction of all operands";
  let description = [{
    One call may reduce several tensors of one element type (a bucket): output
    `i` is the reduction of input `i`.
  }];
  // rank 0: A            A+B
  // rank 1: B     ->     A+B
  let assemblyFormat =
      "$kind $inputs `on` $mesh custom<Axes>($axes) attr-dict `:` type($inputs)";
}
// Several tensors of one element type may be exchanged by one call (a bucket). Output `i` is made
// of input `i`, all along the same dimension.
class Dist_BucketOp<string mnemonic, dag attrs>
    : Dist_GroupOp<mnemonic, (ins Variadic<AnyStaticShapeTensor>:$inputs), attrs,
                   (outs Variadic<AnyStaticShapeTensor>:$outputs)> {
}

def Dist_AllGatherOp : Dist_BucketOp<"all_gather", (ins I64Attr:$dim)> {
  let summary = "every rank gets all operands joined along a dimension";
  // rank 0: A            A B
  // rank 1: B     ->     A B
  let assemblyFormat = "$inputs `dim` $dim `on` $mesh custom<Axes>($axes) attr-dict `:` type($inputs) `->` type($outputs)";
}
def Dist_ReduceScatterOp
    : Dist_BucketOp<"reduce_scatter", (ins Graph_ReduceKindAttr:$kind, I64Attr:$dim)> {
  let summary = "the reduction, of which every rank keeps its part along a dimension";
  // rank 0: A0 A1        A0+B0
  // rank 1: B0 B1   ->   A1+B1
  let assemblyFormat = "$kind $inputs `dim` $dim `on` $mesh custom<Axes>($axes) attr-dict `:` type($inputs) `->` type($outputs)";
}
def Dist_AllToAllOp
    : Dist_Collective<"all_to_all", (ins I64Attr:$splitDim, I64Attr:$concatDim)> {
  let summary = "splits along one dimension, exchanges, joins along another";
  // rank 0: A0 A1        A0 B0   (A0, B0 joined along concatDim)
  // rank 1: B0 B1   ->   A1 B1
  let assemblyFormat = "$input `split` $splitDim `concat` $concatDim `on` $mesh custom<Axes>($axes) attr-dict `:` type($input) `->` type($result)";
}
def Dist_PermuteOp : Dist_Collective<"permute", (ins DenseI64ArrayAttr:$sources)> {
  let summary = "each rank of the group receives from one other";
  let description = [{Position `i` of the group gets the operand of position `sources[i]`.}];
  let assemblyFormat = "$input `from` $sources `on` $mesh custom<Axes>($axes) attr-dict `:` type($input) `->` type($result)";
}
def Dist_SliceOp : Dist_Collective<"slice", (ins I64Attr:$dim)> {
  let summary = "each rank keeps its part along a dimension; no communication";
  let hasCanonicalizer = 1; // a part of a broadcast is a smaller broadcast
  let assemblyFormat = "$input `dim` $dim `on` $mesh custom<Axes>($axes) attr-dict `:` type($input) `->` type($result)";
}

def Dist_AxisIndexOp : Dist_GroupOp<"axis_index", (ins), (ins),
                                    (outs 0DTensorOf<[I64]>:$result)> {
  let summary = "the rank's position within the axes, as a scalar";
  let assemblyFormat = "$mesh custom<Axes>($axes) attr-dict `:` type($result)";
}

#endif // DTC_DIALECT_DIST_DISTOPS_TD
