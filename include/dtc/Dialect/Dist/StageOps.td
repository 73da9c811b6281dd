// What the ranks of a pipeline do together, beside messages.
#ifndef DTC_DIALECT_DIST_STAGEOPS_TD
#define DTC_DIALECT_DIST_STAGEOPS_TD

include "dtc/Dialect/Dist/DistBase.td"

def Dist_StageSumOp : Dist_Op<"stage_sum", [MemoryEffects<[MemWrite]>, AllTypesMatch<["inputs", "outputs"]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>, ShardingRule]> {
  let summary = "every pipeline rank of a list gets the sum of what each has";
  let description = [{
    Ranks of a pipeline have programs of their own. Each that holds one of the `stages`, of which
    no two lie on the same rank, makes this call; output `i` is the sum of their inputs `i`, in the
    order of the list. Devices at the same position of their stages' meshes add up; with `over`,
    in a partitioned function, also those that differ along its axes. Where stages have meshes of
    their own, the op is `apart`: all devices of the stages add up. A partitioned function then
    gives what several of a stage have alike on the first of these, and zero on the others.
    A rank that doesn't read the sum makes the call all the same: others wait for what it gives.

        %g = dist.stage_sum %mine on @mesh stages [0, 3] : tensor<512x64xf32>
        %n = dist.stage_sum %mine on @mesh stages [0, 3] over <{"dp"}> : tensor<f32>
  }];
  let arguments = (ins Variadic<AnyStaticShapeTensor>:$inputs, FlatSymbolRefAttr:$mesh,
                       DenseI64ArrayAttr:$stages, OptionalAttr<Dist_AxesAttr>:$axes,
                       UnitAttr:$apart);
  let results = (outs Variadic<AnyStaticShapeTensor>:$outputs);
  let assemblyFormat = "$inputs `on` $mesh `stages` $stages (`over` $axes^)? (`apart` $apart^)? attr-dict `:` type($inputs)";
}

#endif // DTC_DIALECT_DIST_STAGEOPS_TD
