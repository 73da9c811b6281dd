#ifndef DTC_DIALECT_EXEC_EXECBASE_TD
#define DTC_DIALECT_EXEC_EXECBASE_TD

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::dtc::exec";
  let summary = "what a rank executes: kernel launches, library calls, collectives";
  let description = [{
    A step function (loss_and_grads, update...) in exec form is a func.func
    whose ops are exec.launch, library ops and dist collectives on local
    tensors. Memory is planned on it: `exec.offsets` on an op gives the
    arena offset of each result, in bytes, as it does on arguments (one
    number); `exec.scratch` gives offset and bytes of what an op needs beside.
    Kernels are outlined once and shared by all launches that compute the same
    thing.

    Ops are carried out in their order but for those with `exec.queue`: a collective, copy,
    send or receive that has it is only started there, on another queue than the one that
    computes. Its results are in flight until exec.wait, and its operands' and results' buffers
    are taken until then. A function ends when all but its messages are done.

        %s = dist.all_reduce sum %g on @mesh {"dp"} {exec.queue = #exec.queue<collective>} : tensor<64xf32>
        %y = exec.launch @more(%x) ...          // meanwhile
        %t = exec.wait %s : tensor<64xf32>      // %s can be read as %t from here on

    Collectives along the same axes share a queue. Ops of the same queue may use each other's results
    in flight, as collectives may those of others. Messages go through arguments
    and results of the roles inbox and outbox, whose buffers outlive a call: a function that
    takes an inbox waits for it; one that makes an outbox waits by itself until what was sent
    from there before has left.

    Programs of several roles are modules in one module, each with `exec.ranks`.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let dependentDialects = ["::dtc::graph::GraphDialect"];
  let extraClassDeclaration = [{
    static constexpr llvm::StringLiteral kOffsets = "exec.offsets";
    static constexpr llvm::StringLiteral kScratch = "exec.scratch";
    /// On the module, once memory is planned.
    static constexpr llvm::StringLiteral kArenaBytes = "exec.arena_bytes";
    static constexpr llvm::StringLiteral kThreads = "exec.threads";
    /// On the module of a role: its world ranks, by their positions on the mesh.
    static constexpr llvm::StringLiteral kRanks = "exec.ranks";
    /// On an op: a QueueKindAttr.
    static constexpr llvm::StringLiteral kQueue = "exec.queue";
    /// On an argument or result: a SpaceAttr; none: on the device.
    static constexpr llvm::StringLiteral kSpace = "exec.space";
    /// On the module, once memory is planned, where there is any: bytes on the host.
    static constexpr llvm::StringLiteral kHostBytes = "exec.host_bytes";
    void registerAttributes();
  }];
}

class Exec_Op<string mnemonic, list<Trait> traits = []> : Op<Exec_Dialect, mnemonic, traits>;

#endif // DTC_DIALECT_EXEC_EXECBASE_TD
