#ifndef DTC_DIALECT_EXEC_EXECOPS_TD
#define DTC_DIALECT_EXEC_EXECOPS_TD

include "dtc/Dialect/Dist/DistBase.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::dtc::exec";
  let summary = "what a rank executes: kernel launches, library calls, collectives";
  let description = [{
    A step function (loss_and_grads, update...) in exec form is a func.func
    whose ops are exec.launch, library ops and dist collectives on local
    tensors. Memory is planned on it: `exec.offsets` on an op gives the
    arena offset of each result, in bytes. Kernels are outlined once and
    shared by all launches that compute the same thing.
  }];
  let dependentDialects = ["::dtc::graph::GraphDialect"];
  let extraClassDeclaration = [{
    static constexpr llvm::StringLiteral kOffsets = "exec.offsets";
  }];
}

class Exec_Op<string mnemonic, list<Trait> traits = []> : Op<Exec_Dialect, mnemonic, traits>;

def Exec_KernelOp : Exec_Op<"kernel",
    [IsolatedFromAbove, Symbol, SingleBlock, HasParent<"::mlir::ModuleOp">]> {
  let summary = "a fused kernel: what one launch computes";
  let description = [{
    The body is a block of elementwise arithmetic and primitive `dtc` ops on
    tensors (no layer op, no contraction), ended by exec.yield of the results.
    Code generation turns it into

        void NAME(char *const *args, int64_t begin, int64_t end, char *scratch)

    with `args` the operands and then the results, all row-major and
    contiguous. Work is `extent` independent iterations, of which a call does
    [begin, end); threads share them. `scratchBytes` per thread. With
    `flat`, the kernel is the same for any extent: shapes in the body are
    those of the launch it was first made for.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$extent, I64Attr:$scratchBytes,
                       UnitAttr:$flat);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `extent` $extent `scratch` $scratchBytes (`flat` $flat^)? attr-dict-with-keyword $body";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::dtc::exec::YieldOp getYield();
  }];
}

def Exec_YieldOp : Exec_Op<"yield", [Pure, Terminator, ReturnLike, HasParent<"KernelOp">]> {
  let summary = "the results of a kernel";
  let arguments = (ins Variadic<AnyStaticShapeTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Exec_LaunchOp : Exec_Op<"launch",
    [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a kernel";
  let description = [{
    `extent` iterations of the kernel (its own unless it is flat).
    `inPlace[i]`: the operand whose buffer result i may overwrite when that
    operand dies here, or -1.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<AnyStaticShapeTensor>:$inputs,
                       I64Attr:$extent, DenseI64ArrayAttr:$inPlace);
  let results = (outs Variadic<AnyStaticShapeTensor>:$results);
  let assemblyFormat = [{
    $kernel `(` $inputs `)` `extent` $extent `in_place` $inPlace attr-dict `:`
    functional-type($inputs, $results)
  }];
}

#endif // DTC_DIALECT_EXEC_EXECOPS_TD
