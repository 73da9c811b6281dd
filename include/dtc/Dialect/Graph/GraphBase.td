#ifndef DTC_DIALECT_GRAPH_GRAPHBASE_TD
#define DTC_DIALECT_GRAPH_GRAPHBASE_TD

include "dtc/Dialect/Graph/GraphDialect.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dtc/Interfaces/ShardingRuleInterface.td"
include "dtc/Interfaces/DifferentiableInterface.td"
include "dtc/Interfaces/CostInterface.td"
include "dtc/Interfaces/KernelInterface.td"
include "dtc/Interfaces/PrecisionInterface.td"

class Graph_EnumAttr<EnumInfo info, string name> : EnumAttr<Graph_Dialect, info, name> {
  let assemblyFormat = "$value";
}

def Graph_ReduceKind : Graph_I32Enum<"ReduceKind", "how a reduction combines", [
  I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">,
  I32EnumAttrCase<"Min", 2, "min">, I32EnumAttrCase<"Prod", 3, "prod">]>;
def Graph_ReduceKindAttr : Graph_EnumAttr<Graph_ReduceKind, "reduce_kind">;

def Graph_Activation : Graph_I32Enum<"Activation", "a pointwise activation", [
  I32EnumAttrCase<"Relu", 0, "relu">, I32EnumAttrCase<"Gelu", 1, "gelu">,
  I32EnumAttrCase<"GeluTanh", 2, "gelu_tanh">, I32EnumAttrCase<"Silu", 3, "silu">,
  I32EnumAttrCase<"Sigmoid", 4, "sigmoid">, I32EnumAttrCase<"Softplus", 5, "softplus">,
  I32EnumAttrCase<"HardSwish", 6, "hard_swish">, I32EnumAttrCase<"HardSigmoid", 7, "hard_sigmoid">,
  I32EnumAttrCase<"Relu6", 8, "relu6">]>;
def Graph_ActivationAttr : Graph_EnumAttr<Graph_Activation, "activation">;

def Graph_BackwardKind : Graph_I32Enum<"BackwardKind", "what a backward op computes", [
  I32EnumAttrCase<"InputGrad", 0, "input_grad">, I32EnumAttrCase<"WeightGrad", 1, "weight_grad">,
  I32EnumAttrCase<"Accumulate", 2, "accumulate">, I32EnumAttrCase<"Recompute", 3, "recompute">]>;

def Graph_RoleKind : Graph_I32Enum<"RoleKind", "what a function argument or result is", [
  I32EnumAttrCase<"Parameter", 0, "parameter">, I32EnumAttrCase<"Buffer", 1, "buffer">,
  I32EnumAttrCase<"Input", 2, "input">, I32EnumAttrCase<"Target", 3, "target">,
  I32EnumAttrCase<"Scalar", 4, "scalar">, I32EnumAttrCase<"Gradient", 5, "gradient">,
  I32EnumAttrCase<"State", 6, "state">, I32EnumAttrCase<"Output", 7, "output">,
  I32EnumAttrCase<"Loss", 8, "loss">, I32EnumAttrCase<"Count", 9, "count">,
  I32EnumAttrCase<"GradNorm", 10, "grad_norm">, I32EnumAttrCase<"Master", 11, "master">,
  I32EnumAttrCase<"Kept", 12, "kept">, I32EnumAttrCase<"Inbox", 13, "inbox">,
  I32EnumAttrCase<"Outbox", 14, "outbox">]>;

/// The run-time scalars that a step receives. The evaluation is 1 where its calls evaluate, else 0.
def Graph_ScalarKind : Graph_I32Enum<"ScalarKind", "a number the runtime supplies each step", [
  I32EnumAttrCase<"LearningRate", 0, "lr">, I32EnumAttrCase<"Step", 1, "step">,
  I32EnumAttrCase<"Count", 2, "count">, I32EnumAttrCase<"Evaluation", 3, "evaluation">]>;

def Graph_StateKind : Graph_I32Enum<"StateKind", "a piece of optimizer state", [
  I32EnumAttrCase<"Momentum", 0, "momentum_buffer">, I32EnumAttrCase<"ExpAvg", 1, "exp_avg">,
  I32EnumAttrCase<"ExpAvgSq", 2, "exp_avg_sq">]>;

def Graph_RoleAttr : Graph_Attr<"Role", "role"> {
  let summary = "what an argument or result of a phase function is";
  let description = [{
    `#dtc.role<parameter, "h.0.attn.c_attn.weight">`; `name` is the parameter's
    (or input's, output's) name in the file. `#dtc.role<state, "w", exp_avg>`
    adds which optimizer state, `#dtc.role<scalar, "", lr>` which scalar.
    `kept` is an activation that a later call of the same microbatch needs,
    `inbox` what another rank has sent, `outbox` what is sent to one.
  }];
  let parameters = (ins EnumParameter<Graph_RoleKind>:$kind,
                        StringRefParameter<>:$name,
                        OptionalParameter<"std::optional<StateKind>">:$state,
                        OptionalParameter<"std::optional<ScalarKind>">:$scalar);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Graph_Cadence : Graph_I32Enum<"Cadence", "how often a step function runs", [
  I32EnumAttrCase<"Step", 0, "step">, I32EnumAttrCase<"Microbatch", 1, "microbatch">]>;

/// Of a pipeline schedule; a backward pass may be made in two parts.
def Graph_InputGradPass : I32BitEnumAttrCaseBit<"InputGrad", 1, "input_grad">;
def Graph_WeightGradPass : I32BitEnumAttrCaseBit<"WeightGrad", 2, "weight_grad">;
def Graph_Passes : I32BitEnumAttr<"Passes", "passes of a schedule that one call makes", [
  I32BitEnumAttrCaseNone<"None", "none">, I32BitEnumAttrCaseBit<"Forward", 0, "forward">,
  Graph_InputGradPass, Graph_WeightGradPass,
  I32BitEnumAttrCaseGroup<"Backward", [Graph_InputGradPass, Graph_WeightGradPass], "backward">]> {
  let cppNamespace = "::dtc::graph";
  let genSpecializedAttr = 0;
}

def Graph_RunsAttr : Graph_Attr<"Runs", "runs"> {
  let summary = "how often a step function runs, and for what";
  let description = [{
    A step calls `#dtc.runs<step>` once and `#dtc.runs<microbatch, forward|backward>` once for
    each microbatch: where the schedule has those passes of the stage chunk of that number
    (`chunk 1`; 0 where none is given). What runs once a step takes the data of all microbatches
    as one tensor.
  }];
  let parameters = (ins EnumParameter<Graph_Cadence>:$cadence, EnumParameter<Graph_Passes>:$passes,
                        "int64_t":$chunk);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Graph_BackwardAttr : Graph_Attr<"Backward", "backward"> {
  let summary = "the forward op a backward op belongs to, and what it computes";
  let parameters = (ins "int64_t":$forward, EnumParameter<Graph_BackwardKind>:$kind);
  let assemblyFormat = "`<` $forward `,` $kind `>`";
}

class Graph_Op<string mnemonic, list<Trait> traits = []>
    : Op<Graph_Dialect, mnemonic, traits>;

/// The answers that a family of ops gives to an interface: methods in the class of each of its ops.
/// No interface has defaults, so that an op which is in no family writes all of them.
class Graph_FamilyTrait<string name, code methods> : NativeOpTrait<name, [], methods> {
  let cppNamespace = "::dtc";
}
class Graph_Family<OpInterface interface, string trait, code methods>
    : TraitList<[interface, Graph_FamilyTrait<trait, methods>]>;

/// Every op has one of these two. The first is cloned with the types of shards; an op of the second
/// writes buildLocal.
def ShardingRule : Graph_Family<ShardingRuleOpInterface, "BuiltByCloning", [{
  ::dtc::sharding::ShardingRule buildShardingRule(::dtc::UnitFactors units);
  ::llvm::FailureOr<::llvm::SmallVector<::mlir::Value>>
  buildLocal(::mlir::OpBuilder &builder, ::mlir::ValueRange operands, ::mlir::TypeRange resultTypes,
             const ::dtc::LocalContext &) {
    return ::dtc::cloneLocal(*this, builder, operands, resultTypes);
  }
}]>;
def ShardingRuleLocal : DeclareOpInterfaceMethods<ShardingRuleOpInterface>;

/// Every op has one of these three.
def Decomposable : DeclareOpInterfaceMethods<DecomposableOpInterface>;
def LibraryCall : NativeOpTrait<"LibraryCall"> { let cppNamespace = "::dtc"; }
/// `loops`: "Shared" with other ops of the kernel, or "Own". `reach`: a case of dtc::Reach, which
/// holds for every operand, or "ByOperand" where the op writes getReach.
class InKernels<string loops, string reach>
    : Graph_Family<KernelOpInterface, "SeenByKernels",
        "bool hasOwnLoops() { return " # !if(!eq(loops, "Own"), "true", "false") # "; }\n" #
        "::dtc::Reach getReach(unsigned)" #
        !if(!eq(reach, "ByOperand"), ";", " { return ::dtc::Reach::" # reach # "; }")> {
  assert !or(!eq(loops, "Own"), !eq(loops, "Shared")), "neither Own nor Shared: " # loops;
}

/// Every op has one of these two.
def Differentiable : DeclareOpInterfaceMethods<DifferentiableOpInterface>;
def NoGradient : NativeOpTrait<"NoGradient"> { let cppNamespace = "::dtc"; }
def Cost : DeclareOpInterfaceMethods<CostOpInterface>;

/// Every op has one of these four.
class Graph_FloatTypes<string statistic, string widening>
    : Graph_Family<PrecisionOpInterface, "HasFloatTypes",
        "bool isStatistic(unsigned)" # statistic # "\n" #
        "bool mayStayWide(unsigned) { return false; }\n" #
        "::dtc::Widening getWidening() { return ::dtc::Widening::" # widening # "; }">;
/// Another float type takes conversions of all operands and results.
def ConvertedAround : Graph_FloatTypes<" { return false; }", "None">;
/// Some results are f32 whatever the operands are; the op writes isStatistic.
def Statistics : Graph_FloatTypes<";", "None">;
/// Gives results of a wider type itself. `how` is a case of dtc::Widening.
class Widens<string how> : Graph_FloatTypes<" { return false; }", how>;
/// Writes all methods of PrecisionOpInterface.
def Precision : DeclareOpInterfaceMethods<PrecisionOpInterface>;

/// A pure op on tensors. Beside these traits it needs ShardingRule or ShardingRuleLocal,
/// Differentiable or NoGradient, one of Decomposable, LibraryCall and InKernels, and one of
/// ConvertedAround, Statistics, Widens and Precision.
class Graph_TensorOp<string mnemonic, list<Trait> traits = []>
    : Graph_Op<mnemonic, !listconcat([Pure, Cost], traits)>;

#endif // DTC_DIALECT_GRAPH_GRAPHBASE_TD
