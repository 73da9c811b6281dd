#ifndef DTC_DIALECT_DIST_DISTBASE_TD
#define DTC_DIALECT_DIST_DISTBASE_TD

include "dtc/Dialect/Dist/DistEnums.td"
include "dtc/Dialect/Graph/GraphBase.td"

def Dist_Dialect : Dialect {
  let name = "dist";
  let cppNamespace = "::dtc::dist";
  let summary = "meshes, shardings and collectives";
  let description = [{
    Before partitioning, functions have global shapes: arguments and results
    carry `dist.sharding`, ops carry `dist.op` (a #dist.op_sharding; an op
    without one follows its operands). After it, functions are marked
    `dist.local`, have the shapes of one rank and explicit collectives; the
    program is the same on every rank of the mesh (SPMD), differing only by
    dist.axis_index. `dist.sharding` then tells which shard a rank holds.

    What else a plan says (stages, storage, recomputation) is written beside it, also what
    partitioning refuses to carry out.
  }];
  let dependentDialects = ["::dtc::graph::GraphDialect"];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    void registerOperations();
    static constexpr llvm::StringLiteral kSharding = "dist.sharding";
    static constexpr llvm::StringLiteral kOp = "dist.op";
    /// On a partitioned function: its types are those of one rank, and
    /// `dist.sharding` says of which shard of the whole tensor.
    static constexpr llvm::StringLiteral kLocal = "dist.local";
    /// What a plan says beside shardings. On an op: the pipeline stage that carries it out, and
    /// a RecomputeAttr where the backward pass computes it again.
    static constexpr llvm::StringLiteral kStage = "dist.stage";
    static constexpr llvm::StringLiteral kRecompute = "dist.recompute";
    /// On an argument or result: the axes over which its elements are divided, flattened (ZeRO);
    /// and, without a value, that it lies on the host.
    static constexpr llvm::StringLiteral kStorage = "dist.storage";
    static constexpr llvm::StringLiteral kOnHost = "dist.on_host";
    /// Stands on an argument or result with dist.storage, and on the collectives that this becomes.
    /// It is the part of the model (as i64) with which it is gathered and scattered.
    static constexpr llvm::StringLiteral kBlock = "dist.block";
    /// On a partitioned argument or result: a FlatAttr. Its type is then the rank's part.
    static constexpr llvm::StringLiteral kFlat = "dist.flat";
    /// On the mesh: the devices of each stage in the order of its ranks, as arrays of i64. Without
    /// it there is one stage, on the devices from 0 on.
    static constexpr llvm::StringLiteral kDevices = "dist.devices";
  }];
}

class Dist_Attr<string name, string mnem> : AttrDef<Dist_Dialect, name> {
  let mnemonic = mnem;
}

def Dist_AxesAttr : Dist_Attr<"Axes", "axes"> {
  let summary = "a list of axis names, outermost first: `{\"dp\", \"tp\"}`";
  let description = [{Ops and the attributes below print the list alone; by itself it is
    `#dist.axes<{"dp", "tp"}>`.}];
  let parameters = (ins OptionalArrayRefParameter<"::mlir::StringAttr">:$names);
  let hasCustomAssemblyFormat = 1;
}

def Dist_ShardingAttr : Dist_Attr<"Sharding", "sharding"> {
  let summary = "dtc::sharding::TensorSharding with axis names";
  let description = [{
    `#dist.sharding<@mesh, [{"dp"}, {} ]>`, partial ones
    `#dist.sharding<@mesh, [{"dp"}, {} ], sum = {"tp"}>` (also `max`, `min`).
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$mesh,
                        OptionalArrayRefParameter<"AxesAttr">:$dims,
                        "AxesAttr":$sum, "AxesAttr":$max, "AxesAttr":$min);
  let hasCustomAssemblyFormat = 1;
}

def Dist_OpShardingAttr : Dist_Attr<"OpSharding", "op_sharding"> {
  let summary = "dtc::sharding::OpSharding with axis names";
  let description = [{
    Axes per factor of the op's rule; `pending` axes pass through linear set i:
    `#dist.op_sharding<@mesh, [{"dp"}, {}, {"tp"} ], pending = [{"tp"}, {} ]>`,
    one list per linear set of the rule (left out when all are empty).
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$mesh,
                        OptionalArrayRefParameter<"AxesAttr">:$factors,
                        OptionalArrayRefParameter<"AxesAttr">:$pending);
  let hasCustomAssemblyFormat = 1;
}

def Dist_RecomputeAttr : Dist_Attr<"Recompute", "recompute"> {
  let summary = "what of a block the backward pass computes again";
  let description = [{
    `#dist.recompute<full, 3>`: all of the model's block 3. `selective` is what its attention keeps
    inside.
  }];
  let parameters = (ins EnumParameter<Dist_Recompute>:$kind, "int64_t":$block);
  let assemblyFormat = "`<` $kind `,` $block `>`";
}

def Dist_FlatAttr : Dist_Attr<"Flat", "flat"> {
  let summary = "how a tensor is stored as flattened parts (ZeRO)";
  let description = [{
    `#dist.flat<6x5 [{"tp"}, {} ] over {"dp"}>`: of a tensor 6x5, sharded over tp and then
    divided over dp. On <dp=2, tp=2> a rank's shard is 3x5, flattened 15 elements, padded 16, of
    which each rank along dp has 8. What has the attribute is a tensor of 8 elements, whose
    dist.sharding is that of the parts one after another, `[{"tp", "dp"} ]`.
  }];
  let parameters = (ins OptionalArrayRefParameter<"int64_t">:$shape,
                        OptionalArrayRefParameter<"AxesAttr">:$dims, "AxesAttr":$axes);
  let hasCustomAssemblyFormat = 1;
}

class Dist_Op<string mnemonic, list<Trait> traits = []> : Op<Dist_Dialect, mnemonic, traits>;

#endif // DTC_DIALECT_DIST_DISTBASE_TD
