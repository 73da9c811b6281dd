#ifndef DTC_PARTITION_PASSES_TD
#define DTC_PARTITION_PASSES_TD

include "mlir/Pass/PassBase.td"

def PartitionModule : Pass<"dtc-partition", "::mlir::ModuleOp"> {
  let summary = "rewrite functions with shardings to the program of one rank";
  let description = [{
    Every function of a module with one dist.mesh gets local shapes and explicit
    collectives (how: dtc/Partition/Partition.h). Sums stay pending as long as what reads
    them is linear; those of gradients leave the function and are packed into buckets in
    @update.

        %y = dtc.contract %x, %w {dist.op = [{}, {"tp"}, {} ]} : ... -> tensor<8x16xf32>
        %z = math.tanh %y : tensor<8x16xf32>
      becomes on <tp=2>, where the contracted dimension is split
        %y = dtc.contract %x, %w : ... -> tensor<8x16xf32>
        %s = dist.all_reduce sum %y on @mesh {"tp"} : tensor<8x16xf32>
        %z = math.tanh %s : tensor<8x16xf32>
  }];
  let dependentDialects = ["::dtc::dist::DistDialect"];
  let options = [Option<"bucketBytes", "bucket-bytes", "int64_t",
                        "::dtc::partition::PartitionOptions().bucketBytes",
                        "size up to which reductions are packed">,
                 Option<"regather", "regather", "bool", "false",
                        "gather again for the backward pass instead of keeping">];
}

def RecomputeBlocks : Pass<"dtc-recompute", "::mlir::ModuleOp"> {
  let summary = "clone what the backward pass computes again";
  let description = [{
    Of the forward ops with dist.recompute, those whose results the backward pass reads are cloned in
    front of it, behind barriers (how: dtc/Partition/Recompute.h).

        %f = dtc.contract %x, %w {dist.recompute = #dist.recompute<full, 0>, dtc.id = 4 : i64}
        %dw = dtc.contract %f, %dy {dtc.backward = #dtc.backward<5, weight_grad>}
      becomes
        %f = dtc.contract %x, %w {dtc.id = 4 : i64}
        %b = dtc.barrier %x {dtc.backward = #dtc.backward<4, recompute>}
        %r = dtc.contract %b, %w {dtc.backward = #dtc.backward<4, recompute>}
        %dw = dtc.contract %r, %dy {dtc.backward = #dtc.backward<5, weight_grad>}
  }];
  let dependentDialects = ["::dtc::dist::DistDialect"];
}

def VerifyPartition : Pass<"dtc-verify-partition", "::mlir::ModuleOp"> {
  let summary = "refuse what is not the program of one rank";
  let description = [{
    The contract between this phase and the next. It refuses global functions or dist.op
    left over, pending results other than gradients and loss, one role and name in two
    layouts, and results that ranks holding copies would disagree on:

        func.func @f(%x: tensor<4xf32> {dist.sharding = ... [{"dp"} ]}) -> (tensor<4xf32> {...})
          attributes {dist.local} {
          // error: the sum over "dp" is missing
          return %x
        }
  }];
}

#endif // DTC_PARTITION_PASSES_TD
