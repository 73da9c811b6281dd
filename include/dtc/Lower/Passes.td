#ifndef DTC_LOWER_PASSES_TD
#define DTC_LOWER_PASSES_TD

include "mlir/Pass/PassBase.td"

def BuildSchedule : Pass<"dtc-build-schedule", "::mlir::ModuleOp"> {
  let summary = "list the calls of a step";
  let description = [{
    Adds an exec.schedule: the list of calls that a rank of a pipeline makes
    (dtc/Schedule/Schedule.h), which is what is simulated. The functions of the
    module say by dtc.runs which passes they make. One that makes a forward and a
    backward pass is called where the two follow each other; other schedules need
    a function for each. What runs once a step comes after the microbatches if it
    takes what they give (the update), else before. Where microbatches add to
    accumulators, a function @clear that zeroes them is made and called first.

        func.func @loss_and_grads(...) attributes {dtc.runs = #dtc.runs<microbatch, forward|backward>}
        func.func @update(...) attributes {dtc.runs = #dtc.runs<step>}
      becomes for microbatches=2
        exec.schedule microbatches 2 {
          exec.call @clear microbatch 0 slot 0
          exec.call @loss_and_grads microbatch 0 slot 0
          exec.call @loss_and_grads microbatch 1 slot 0
          exec.call @update microbatch 0 slot 0
        }
  }];
  let dependentDialects = ["::dtc::exec::ExecDialect"];
  let options = [Option<"microbatches", "microbatches", "int64_t", "1", "microbatches of a step">,
                 Option<"kind", "kind", "std::string", "\"1f1b\"", "name of the schedule">,
                 Option<"ranks", "ranks", "int64_t", "1", "ranks of the pipeline">,
                 Option<"chunks", "chunks", "int64_t", "1", "stages a rank">,
                 Option<"kept", "kept", "int64_t", "0",
                        "microbatches that a rank keeps at most; 0: as the schedule does">,
                 Option<"rank", "rank", "int64_t", "0", "the rank whose calls are listed">,
                 Option<"trains", "trains", "bool", "true",
                        "otherwise the schedule has forward passes alone">];
}

def SumGradientsEarly : Pass<"dtc-sum-gradients-early", "::mlir::ModuleOp"> {
  let summary = "sum gradients over ranks as the last microbatch makes them";
  let description = [{
    What the update sums over ranks first is summed in the call that adds to it last, in buckets
    (Schedule/GradientBuckets.h), so that sums go on while the rest of the backward pass is computed.
    So is what it scatters, of which the rank's part stays at the beginning of the gradient's place
    (exec.room). Where it is padded before, the place has room for the zeros in all functions.
    With several microbatches that call gets a copy of its function, which says so (exec.last_of).
    The copy launches the same kernels, and there is one, whatever the number of microbatches. Terms
    and their order stay, and so do the bits.

        func.func @loss_and_grads(...) { ... return %g }
        func.func @update(%g) { %s = dist.all_reduce sum %g on @mesh {"dp"} ... }
        exec.schedule microbatches 2 { ... @loss_and_grads microbatch 1 ... }
      becomes
        func.func @loss_and_grads(...) { ... return %g }
        func.func @loss_and_grads_last(...) attributes {exec.last_of = @loss_and_grads} { ... %s = dist.all_reduce sum %g ... return %s }
        func.func @update(%s) { ... }
        exec.schedule microbatches 2 { ... @loss_and_grads_last microbatch 1 ... }
  }];
  let dependentDialects = ["::dtc::exec::ExecDialect"];
}

def CutOffloaded : Pass<"dtc-cut-offloaded", "::mlir::ModuleOp"> {
  let summary = "update large parameters whose states lie on the host in parts";
  let description = [{
    An optimizer op whose states on the host (dist.on_host) are larger than a part that passes
    (Schedule/PassingParts.h) becomes as many ops as there are parts. Each reads slices and makes
    what a concat joins, with exec.part (Dialect/Exec/Part.h). So do the commits and conversions
    of what it makes. All are elementwise, so that the bits stay. Parts but the last are of one
    size, and share a kernel with those of other parameters.

        %p1, %m1 = dtc.sgd_update %p, %g, %m, ... : tensor<100xf32>
      becomes with 256 bytes of states in a part
        %p_0 = dtc.slice %p offsets [0] strides [1] {exec.part} : tensor<100xf32> -> tensor<64xf32>
        ...
        %q_0, %n_0 = dtc.sgd_update %p_0, %g_0, %m_0, ... : tensor<64xf32>
        ...
        %q_1, %n_1 = dtc.sgd_update %p_1, %g_1, %m_1, ... : tensor<36xf32>
        %p1 = dtc.concat 0 (%q_0, %q_1) {exec.part} : ... -> tensor<100xf32>
        %m1 = dtc.concat 0 (%n_0, %n_1) {exec.part} : ... -> tensor<100xf32>
  }];
  let dependentDialects = ["::dtc::exec::ExecDialect"];
  let options = [Option<"partBytes", "part-bytes", "int64_t", "::dtc::schedule::kPassingBytes",
                        "bytes of states of a part">];
}

def BringFromHost : Pass<"dtc-bring-from-host", "::mlir::ModuleOp"> {
  let summary = "let what lies on the host pass through the device";
  let description = [{
    Only exec.copy touches host memory. What an argument has there (dist.on_host) is copied to the
    device before the first op that reads it, and a result that belongs there is copied back once
    it is made. Both are started on a queue of their own: while an op computes, what the next one
    reads arrives, and what the last one made leaves. So the device holds what three such ops
    have, however much lies on the host. Parts (dtc-cut-offloaded) are copied likewise. On the device
    those that such an op reads are copied beside it, and what it makes is copied to its place.

        @update(%m: tensor<64xf32> {dist.on_host}, %n: ... {dist.on_host})
          %m1 = exec.launch @adam(%m, ...)
          %n1 = exec.launch @adam(%n, ...)
      becomes
        @update(%m: tensor<64xf32> {exec.space = #exec.space<host>}, %n: ...)
          %a = exec.copy %m {exec.queue = #exec.queue<copy>}
          %c = exec.wait %a
          %b = exec.copy %n {exec.queue = #exec.queue<copy>}
          %m1 = exec.launch @adam(%c, ...)
          %d = exec.copy %m1 to_host {exec.queue = #exec.queue<copy>}
          %e = exec.wait %b
          %n1 = exec.launch @adam(%e, ...)
          %f = exec.copy %n1 to_host {exec.queue = #exec.queue<copy>}
          ... both waited for, and returned
  }];
  let dependentDialects = ["::dtc::exec::ExecDialect"];
}

def StartCollectives : Pass<"dtc-start-collectives", "::mlir::ModuleOp"> {
  let summary = "let collectives go on while other things are computed";
  let description = [{
    Where anything is computed between a collective of a function and what reads its result, the
    collectives of that function are started, on a queue for each list of axes. Each is waited for
    where its result is read first, unless another collective reads it, which begins behind it. What
    is scattered is waited for before, where it can be, so that the whole takes no memory for long.

        %s = dist.reduce_scatter sum %g dim 0 on @mesh {"dp"} : ...
        %y = exec.matmul %x, %w ...
        %a = exec.launch @add(%sum, %s) ...
      becomes
        %s = dist.reduce_scatter sum %g dim 0 on @mesh {"dp"} {exec.queue = #exec.queue<collective>} : ...
        %y = exec.matmul %x, %w ...
        %t = exec.wait %s : ...
        %a = exec.launch @add(%sum, %t) ...
  }];
  let dependentDialects = ["::dtc::exec::ExecDialect"];
}

def PlanMemory : Pass<"dtc-plan-memory", "::mlir::ModuleOp"> {
  let summary = "give every tensor a place in the arena";
  let description = [{
    The arena begins with what lives through a step: parameters, buffers,
    optimizer state, gradients, loss, scalars, the inputs of all microbatches,
    outputs. An argument or result of a function is bound to one of these
    places by its role. After it comes one area which the functions use in
    turn for what lives within a call; places there are shared by tensors
    that are never needed at once.

    Reshapes share their operand's place; a launch or all-reduce writes over an
    operand that dies there where it may, also over an argument that the next
    call writes anew (a gradient in the update); a result is written into the place of
    its role directly, or by an exec.copy where an argument is still read from
    that place. Scratch memory of library calls is part of the plan.

    Sets exec.offsets on ops, arguments, exec.scratch, and exec.arena_bytes and
    exec.threads on the module; exec.host_bytes where anything lies on the host.

        %0 = exec.launch @count(%t) extent 1 in_place [-1] : ...
      becomes
        %0 = exec.launch @count(%t) extent 1 in_place [-1] {exec.offsets = array<i64: 832>} : ...
  }];
  let dependentDialects = ["::dtc::exec::ExecDialect"];
  let options = [Option<"threads", "threads", "int64_t", "1", "threads of a rank">];
}

def VerifySchedule : Pass<"dtc-verify-schedule", "::mlir::ModuleOp"> {
  let summary = "refuse what cannot be executed";
  let description = [{
    The contract between this phase and the next: step functions consist of
    launches, library calls, collectives, views and copies on planned memory.

        module attributes {exec.arena_bytes = 128 : i64, exec.threads = 1 : i64} {
          ...
          // error: place lies outside the arena: 120
          %0 = exec.launch @exp(%x) ... {exec.offsets = array<i64: 120>} : ... -> tensor<4xf32>
  }];
}

#endif // DTC_LOWER_PASSES_TD
