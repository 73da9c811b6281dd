#ifndef DTC_DIALECT_GRAPH_GRAPHDIALECT_TD
#define DTC_DIALECT_GRAPH_GRAPHDIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Graph_Dialect : Dialect {
  let name = "dtc";
  let cppNamespace = "::dtc::graph";
  let summary = "training graphs on tensors";
  let description = [{
    Tensor ops of static shape, from which forward pass, loss, backward pass
    and optimizer are built. Elementwise arithmetic uses arith and math on
    tensors; ops here never broadcast on their own. An op that carries
    `dtc.id` is a forward op with that number; one that carries `dtc.backward`
    belongs to the backward pass of the forward op it names.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::func::FuncDialect"];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    /// Attribute names on ops, arguments and results.
    static constexpr llvm::StringLiteral kId = "dtc.id";
    static constexpr llvm::StringLiteral kBackward = "dtc.backward";
    static constexpr llvm::StringLiteral kRole = "dtc.role";
    /// On a step function: a RunsAttr.
    static constexpr llvm::StringLiteral kRuns = "dtc.runs";
    /// On an integer argument: what its values are below (rows of a table).
    static constexpr llvm::StringLiteral kLimit = "dtc.limit";
  }];
}

class Graph_I32Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::dtc::graph";
  let genSpecializedAttr = 0;
}
class Graph_Attr<string name, string mnem> : AttrDef<Graph_Dialect, name> {
  let mnemonic = mnem;
}

#endif // DTC_DIALECT_GRAPH_GRAPHDIALECT_TD
