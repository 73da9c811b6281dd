#ifndef DTC_PLANBRIDGE_PASSES_TD
#define DTC_PLANBRIDGE_PASSES_TD

include "mlir/Pass/PassBase.td"

def PlanModule : Pass<"dtc-plan", "::mlir::ModuleOp"> {
  let summary = "plan a module and write the plan into it";
  let description = [{
    Extracts the problem, searches a plan, verifies it and writes it: a dist.mesh,
    dist.sharding on arguments and results, dist.op on ops. The batch stays as the module
    has it. `dtc plan` does the same, and also cuts the batch into microbatches.

        func.func @loss_and_grads(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>)
          %0 = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] : ...
      becomes for devices=2 plan=dp=2
        dist.mesh @mesh ["dp" = 2, "tp" = 1, ...]
        func.func @loss_and_grads(%x: tensor<8x4xf32> {dist.sharding = ... [{"dp"}, {} ]}, ...)
          %0 = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] {dist.op = [{"dp"}, {}, {} ]} : ...
  }];
  let dependentDialects = ["::dtc::dist::DistDialect"];
  let options = [
    Option<"devices", "devices", "int64_t", "1", "number of devices">,
    Option<"spec", "plan", "std::string", "\"auto\"", "what is pinned: dp=2,tp=2">,
    Option<"cluster", "cluster", "std::string", "\"cpu\"", "name or file of the cluster">,
    Option<"all", "all", "bool", "false", "also plans that can't be compiled yet">];
}

def PrintProblem : Pass<"dtc-print-problem", "::mlir::ModuleOp"> {
  let summary = "print what is to be planned as JSON";
  let description = [{
    Writes the problem that planning sees (dtc/Plan/Plan/Problem.h) to stdout, and leaves
    the module as it is. An op becomes an entry like

        {"name": "dtc.contract", "flops": 3072, "operands": [0, 1], "results": [2], ...}
  }];
  let options = [Option<"batch", "batch", "int64_t", "0",
                        "samples of a call; 0: as in the module">];
}

#endif // DTC_PLANBRIDGE_PASSES_TD
