#ifndef DTC_DIALECT_EXEC_EXECOPS_TD
#define DTC_DIALECT_EXEC_EXECOPS_TD

include "dtc/Dialect/Dist/DistBase.td"
include "dtc/Dialect/Exec/ExecBase.td"
include "dtc/Dialect/Exec/ExecEnums.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Exec_QueueKindAttr : EnumAttr<Exec_Dialect, Exec_QueueKind, "queue"> {
  let assemblyFormat = "`<` $value `>`";
}
def Exec_EpilogueAttr : EnumAttr<Exec_Dialect, Exec_Epilogue, "epilogue"> {
  let assemblyFormat = "`<` $value `>`";
}
def Exec_SpaceAttr : EnumAttr<Exec_Dialect, Exec_Space, "space"> {
  let assemblyFormat = "`<` $value `>`";
}

def Exec_GeometryAttr : AttrDef<Exec_Dialect, "Geometry"> {
  let summary = "how a GPU runs a kernel: blocks of threads, each with dynamic shared memory";
  let mnemonic = "geometry";
  let parameters = (ins "int64_t":$blocks, "int64_t":$threads,
                        DefaultValuedParameter<"int64_t", "0">:$sharedBytes);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Exec_PlaceAttr : AttrDef<Exec_Dialect, "Place"> {
  let summary = "a tensor as a part of another one: where it begins and its strides, in elements";
  let mnemonic = "place";
  let parameters = (ins "int64_t":$offset, ArrayRefParameter<"int64_t">:$shape,
                        ArrayRefParameter<"int64_t">:$strides);
  let assemblyFormat = "`<` $offset `,` `[` $shape `]` `,` `[` $strides `]` `>`";
}

def Exec_KernelOp : Exec_Op<"kernel",
    [IsolatedFromAbove, Symbol, SingleBlock, HasParent<"::mlir::ModuleOp">]> {
  let summary = "a fused kernel: what one launch computes";
  let description = [{
    The body is a block of elementwise arithmetic and primitive `dtc` ops on
    tensors (no layer op, no contraction), ended by exec.yield of the results. Or it is one
    exec.grouped_matmul, which tensor cores of a GPU compute.
    Code generation turns it into

        void NAME(char *const *args, int64_t begin, int64_t end, char *scratch)

    with `args` the operands and then the results, all row-major and
    contiguous. Work is `extent` independent iterations, of which a call does
    [begin, end), at least one; threads share them. `scratchBytes` per thread. With
    `flat`, the kernel is the same for any extent: shapes in the body are
    those of the launch it was first made for. One of extent 1 is for that
    alone, as its code reads the first element. `replaces[i]`, where given, is
    the operand whose place result i should take, or -1. The result is the new value of it (a
    parameter, a state). Or a slot has kept it, and nothing reads it afterwards (SpentSlots.h).

    For a GPU, a kernel has a `geometry`, and the threads of its blocks share the
    iterations: it takes a pointer for each operand and result, in global memory. If
    it is flat, tensors have any shape of as many elements.

    With `pieces` N, the body does the same N times, to tensors of other sizes: the operands and
    results are those of the first piece, of the second..., then the scalars that all of them
    read. So are the ops, as many in each piece. The first piece is the largest.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$extent, I64Attr:$scratchBytes,
                       UnitAttr:$flat, OptionalAttr<DenseI64ArrayAttr>:$replaces,
                       OptionalAttr<Exec_GeometryAttr>:$geometry,
                       DefaultValuedAttr<I64Attr, "1">:$pieces);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `extent` $extent `scratch` $scratchBytes (`flat` $flat^)? (`replaces` $replaces^)? (`geometry` $geometry^)? (`pieces` $pieces^)? attr-dict-with-keyword $body";
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

def Exec_MatmulOp : Exec_Op<"matmul", [Pure]> {
  let summary = "batched matrix product of strided operands: a library call";
  let description = [{
    `result[batch..., m, n] = sum_k lhs[batch..., m, k] * rhs[batch..., k, n]`,
    where each tensor is addressed by strides (in elements) and an offset into
    a contiguous operand, not by its own shape; stride 0 repeats. `mnk` are the
    sizes of the three matrix dimensions. Products accumulate in f32 at least. `extra` without an
    epilogue is added to the product, as one of the result's type that lies as the result does. The
    result may take its place.

        %p = exec.matmul %q, %k batch [2, 4] mnk [32, 32, 16]
            strides [2048, 16, 64, 1], [2048, 16, 1, 64] -> [4096, 1024, 32, 1] offsets [0, 0]
            : tensor<2x32x4x16xf32>, tensor<2x32x4x16xf32> -> tensor<2x4x32x32xf32>

    A product that has an epilogue has no batch, and its result is row-major. With p[i, j] the
    product, the result is, by the epilogue's name,

        bias        p[i, j] + extra[j]
        gelu        gelu(p[i, j]), of which input is p[i, j]; gelu by way of tanh
        bias_gelu   gelu(p[i, j] + extra[j]), of which input is the sum
        gelu_grad   p[i, j] * gelu'(extra[i, j])
        sum_lhs     p[i, j], and sums is sum_k lhs[i, k]
        sum_rhs     p[i, j], and sums is sum_k rhs[k, j]

    With the last two, `extra` is added as without an epilogue.

    `extra` is read, `also` is the second result: the input of gelu, where it is asked for, or sums.

        %y, %x = exec.matmul %a, %w with %b batch [] mnk [256, 256, 64] strides [64, 1], [256, 1]
            -> [256, 1] offsets [0, 0] epilogue <bias_gelu>
            : tensor<8x32x64xf32>, tensor<64x256xf32>, tensor<256xf32>
            -> tensor<8x32x256xf32>, tensor<8x32x256xf32>
  }];
  let arguments = (ins AnyStaticShapeTensor:$lhs, AnyStaticShapeTensor:$rhs,
                       Optional<AnyStaticShapeTensor>:$extra,
                       DenseI64ArrayAttr:$batch, DenseI64ArrayAttr:$mnk,
                       DenseI64ArrayAttr:$lhsStrides, DenseI64ArrayAttr:$rhsStrides,
                       DenseI64ArrayAttr:$resultStrides, DenseI64ArrayAttr:$offsets,
                       OptionalAttr<Exec_EpilogueAttr>:$epilogue);
  let results = (outs AnyStaticShapeTensor:$result, Optional<AnyStaticShapeTensor>:$also);
  let assemblyFormat = [{
    $lhs `,` $rhs (`with` $extra^)? `batch` $batch `mnk` $mnk `strides` $lhsStrides `,` $rhsStrides
    `->` $resultStrides `offsets` $offsets (`epilogue` $epilogue^)? attr-dict `:` type($lhs) `,`
    type($rhs) (`,` type($extra)^)? `->` type($result) (`,` type($also)^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The place of `extra` among the operands.
    static constexpr int64_t kExtra = 2;
    /// Whether a tensor may be added to the product, besides what the epilogue does.
    bool mayAddExtra();
    /// Whether `extra` is added to the product. The result may then take its place.
    bool addsExtra() { return getExtra() && mayAddExtra(); }
  }];
}

def Exec_ConvWeightGradOp : Exec_Op<"conv_weight_grad",
    [Pure, AllTypesMatch<["before", "result"]>]> {
  let summary = "gradient of a convolution's weight, added to one of before: a library call";
  let description = [{
    dtc.conv_weight_grad of `input` and `grad`, added to `before`. The result may take the place of
    `before`.

        %s = exec.conv_weight_grad %x, %dy with %before strides [1, 1] pad [1, 1], [1, 1]
            dilations [1, 1] groups 1
            : tensor<8x3x16x16xf32>, tensor<8x32x16x16xf32> -> tensor<32x3x3x3xf32>
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, AnyStaticShapeTensor:$grad,
                       AnyStaticShapeTensor:$before, I64Attr:$groups, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$padLow, DenseI64ArrayAttr:$padHigh,
                       DenseI64ArrayAttr:$dilations);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = [{
    $input `,` $grad `with` $before `strides` $strides `pad` $padLow `,` $padHigh
    `dilations` $dilations `groups` $groups attr-dict `:` type($input) `,` type($grad) `->`
    type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The place of `before` among the operands.
    static constexpr int64_t kBefore = 2;
  }];
}

def Exec_AttentionOp : Exec_Op<"attention", [Pure]> {
  let summary = "attention or its gradients on parts of tensors: a library call";
  let description = [{
    dtc.attention as a library computes it; with `backward`, dtc.attention_grad or
    dtc.attention_part_grad. Inputs and what is computed are those of these ops, in their order.
    `places` says of each where it lies: of an input in its operand, which is contiguous, and of
    what is computed in the result that `into` names. What lies in one result makes up the whole of
    it. So queries, keys and values may be parts of one product, and their gradients of one tensor.

        %o, %lse = exec.attention (%qkv, %qkv, %qkv) scale 0.25 causal
            places [#exec.place<0, [8, 32, 4, 16], [6144, 192, 16, 1]>,
                    #exec.place<64, [8, 32, 4, 16], [6144, 192, 16, 1]>,
                    #exec.place<128, [8, 32, 4, 16], [6144, 192, 16, 1]>,
                    #exec.place<0, [8, 32, 4, 16], [2048, 64, 16, 1]>,
                    #exec.place<0, [8, 4, 32], [128, 32, 1]>] into [0, 1]
            : (tensor<8x32x3x4x16xbf16>, tensor<8x32x3x4x16xbf16>, tensor<8x32x3x4x16xbf16>)
            -> (tensor<8x32x4x16xbf16>, tensor<8x4x32xf32>)
  }];
  let arguments = (ins Variadic<AnyStaticShapeTensor>:$inputs, UnitAttr:$backward, F64Attr:$scale,
                       UnitAttr:$causal, OptionalAttr<I64Attr>:$window,
                       TypedArrayAttrBase<Exec_PlaceAttr, "places of tensors">:$places,
                       DenseI64ArrayAttr:$into);
  let results = (outs Variadic<AnyStaticShapeTensor>:$results);
  let assemblyFormat = [{
    (`backward` $backward^)? `(` $inputs `)` `scale` $scale (`causal` $causal^)?
    (`window` $window^)? `places` $places `into` $into attr-dict `:`
    functional-type($inputs, $results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Inputs that are gone through before the bias: query, key, value, and what gradients need.
    size_t numInputsBeforeBias() { return getBackward() ? 6 : 3; }
    bool hasBias() { return getInputs().size() > numInputsBeforeBias(); }
    /// Of an input, or of what is computed: numbered behind the inputs.
    PlaceAttr placeOf(size_t tensor) { return ::llvm::cast<PlaceAttr>(getPlaces()[tensor]); }
    /// The operand or the result that it lies in.
    ::mlir::Value valueOf(size_t tensor);
  }];
}

def Exec_CopyOp : Exec_Op<"copy", [Pure, SameOperandsAndResultType]> {
  let summary = "the same tensor in another buffer";
  let description = [{
    With `to_host`, in host memory: in the place of a result that is there. Nothing else writes
    host memory, and nothing else reads it.
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, UnitAttr:$toHost);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input (`to_host` $toHost^)? attr-dict `:` type($result)";
}

def Exec_WaitOp : Exec_Op<"wait", [SameOperandsAndResultType]> {
  let summary = "a value in flight, once it is there";
  let description = [{
    `input` is a result of an op that was started on a queue, or an argument of the role inbox.
    What follows begins only when it is there; the result lies where the operand does.
  }];
  let arguments = (ins AnyStaticShapeTensor:$input);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Exec_SendOp : Exec_Op<"send"> {
  let summary = "sends tensors to another rank, as one message";
  let description = [{
    `peers[p]` is the world rank to which the rank at position p of the role sends; -1: it sends
    nothing. The n-th message that a rank sends to another on a channel is the n-th that
    this receives from it on that channel (exec.receive); both have tensors of the same sizes.

        exec.send %y to [2, 3] channel 0 {exec.queue = #exec.queue<send>} : tensor<8x64xf32>
  }];
  let arguments = (ins Variadic<AnyStaticShapeTensor>:$inputs, DenseI32ArrayAttr:$peers,
                       I64Attr:$channel);
  let assemblyFormat = "$inputs `to` $peers `channel` $channel attr-dict `:` type($inputs)";
  let hasVerifier = 1;
}

def Exec_ReceiveOp : Exec_Op<"receive"> {
  let summary = "receives the tensors of a message from another rank";
  let description = [{
    `peers[p]` is the world rank that the rank at position p receives from; -1: it receives
    nothing, and the results are what lay in their places. See exec.send.
  }];
  let arguments = (ins DenseI32ArrayAttr:$peers, I64Attr:$channel);
  let results = (outs Variadic<AnyStaticShapeTensor>:$results);
  let assemblyFormat = "`from` $peers `channel` $channel attr-dict `:` type($results)";
  let hasVerifier = 1;
}

def Exec_ZeroOp : Exec_Op<"zero", [Pure]> {
  let summary = "a tensor of zeros: what an accumulator starts from";
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Exec_ScheduleOp : Exec_Op<"schedule", [NoTerminator, SingleBlock, NoRegionArguments,
                                           HasParent<"::mlir::ModuleOp">]> {
  let summary = "the calls that make up a step, in order";
  let arguments = (ins I64Attr:$microbatches);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`microbatches` $microbatches attr-dict-with-keyword $body";
}

def Exec_CallOp : Exec_Op<"call", [HasParent<"ScheduleOp">]> {
  let summary = "calls a step function for a microbatch";
  let description = [{
    Arguments and results are bound by their roles, not passed. `slot` is the
    place of what a microbatch keeps between its calls (role kept), `inbox` that of what was
    received for it, `outbox` that of what is sent.
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, I64Attr:$microbatch, I64Attr:$slot,
                       DefaultValuedAttr<I64Attr, "0">:$inbox,
                       DefaultValuedAttr<I64Attr, "0">:$outbox);
  let assemblyFormat = [{
    $callee `microbatch` $microbatch `slot` $slot (`inbox` $inbox^)? (`outbox` $outbox^)? attr-dict
  }];
}

#endif // DTC_DIALECT_EXEC_EXECOPS_TD
