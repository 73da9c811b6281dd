#ifndef DTC_STAGES_PASSES_TD
#define DTC_STAGES_PASSES_TD

include "mlir/Pass/PassBase.td"

def CutStages : Pass<"dtc-cut-stages", "::mlir::ModuleOp"> {
  let summary = "cut a planned step into the programs of pipeline ranks";
  let description = [{
    Makes a module for each rank of the pipeline from @prologue, @loss_and_grads and @update, or
    from @forward, of global shapes (dtc/Stages/Stages.h has an example). What crosses from stage to stage becomes
    arguments of the role inbox and results of the role outbox. Before:

        %a = math.tanh %h {dist.stage = 0 : i64, ...}
        %y = dtc.contract %a, %w {dist.stage = 1 : i64, ...}

    After:

        module @rank0 { func.func @stage(...) -> (... {dtc.role = #dtc.role<outbox, "1.0">}) }
        module @rank1 { func.func @stage(... {dtc.role = #dtc.role<inbox, "1.0">}) }
  }];
  let dependentDialects = ["::dtc::dist::DistDialect"];
}

def SplitPasses : Pass<"dtc-split-passes", "::mlir::ModuleOp"> {
  let summary = "split partitioned stages into the passes of a schedule";
  let description = [{
    Takes each function that makes a forward and a backward pass apart, in the module and in those
    of pipeline ranks inside. What a later pass reads of an earlier one is returned, and
    taken, with the role kept. Ops that take no operands, and views, are cloned instead. Attention
    is decomposed first, unless the target computes it whole.

        func.func @stage(%x, %w, inbox %dh) -> outbox %a, gradient %dw
      becomes
        func.func @forward(%x, %w) -> outbox %a, kept %a
        func.func @backward(%x, %w, kept %a, inbox %dh) -> gradient %dw
  }];
  let dependentDialects = ["::dtc::exec::ExecDialect"];
  let options = [Option<"splitBackward", "split-backward", "bool", "false",
                        "the backward pass is two calls: gradients of inputs, then of weights">];
}

#endif // DTC_STAGES_PASSES_TD
