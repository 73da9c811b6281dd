// What a module declares beside functions.
#ifndef DTC_DIALECT_GRAPH_MODULEOPS_TD
#define DTC_DIALECT_GRAPH_MODULEOPS_TD

include "dtc/Dialect/Graph/GraphBase.td"

def Graph_ParameterOp : Graph_Op<"parameter", [Symbol]> {
  let summary = "a parameter or buffer of the model, without its data";
  let description = [{
    The symbol is the tensor's name in the file. `type` is the shape in which
    the graph sees it (its view), `fileType` the shape and element type in the
    file: the same elements in row-major order. A view lets a fused projection
    `[k, 3*h*e]`, seen as `[k, 3, h, e]`, be split by heads. Or the view is longer
    along some dimensions, by zeros that no file has (PadDimension.h). `trainable`
    parameters are updated; the others are constants of the run. `aliases` are
    further names of the same tensor (tied weights). Data is kept outside the
    module, by name.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyStaticShapeTensor>:$type,
                       TypeAttrOf<AnyStaticShapeTensor>:$fileType, UnitAttr:$trainable,
                       UnitAttr:$buffer, DefaultValuedAttr<StrArrayAttr, "{}">:$aliases);
  let assemblyFormat = [{
    (`trainable` $trainable^)? (`buffer` $buffer^)? $sym_name `:` $type `file` $fileType
    (`aliases` $aliases^)? attr-dict
  }];
  let hasVerifier = 1;
}

#endif // DTC_DIALECT_GRAPH_MODULEOPS_TD
