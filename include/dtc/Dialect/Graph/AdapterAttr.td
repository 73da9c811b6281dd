// What makes a parameter an adapter. Few files read it, so that it has a header of its own.
#ifndef DTC_DIALECT_GRAPH_ADAPTERATTR_TD
#define DTC_DIALECT_GRAPH_ADAPTERATTR_TD

include "dtc/Dialect/Graph/GraphDialect.td"

def Graph_AdapterPart : Graph_I32Enum<"AdapterPart", "one of an adapter's two factors", [
  I32EnumAttrCase<"Down", 0, "down">, I32EnumAttrCase<"Up", 1, "up">]>;

def Graph_WeightLayout : Graph_I32Enum<"WeightLayout", "how a weight lies in its file", [
  I32EnumAttrCase<"OutIn", 0, "out_in">, I32EnumAttrCase<"InOut", 1, "in_out">,
  I32EnumAttrCase<"Other", 2, "other">]>;

def Graph_AdapterAttr : Graph_Attr<"Adapter", "adapter"> {
  let summary = "a factor of what is added to a weight, scale * B A";
  let description = [{
    A dtc.parameter that has it, as `dtc.adapter`, is made for training, and no file has it. `base` is the
    weight, of which `layout` says how it lies in the file. The part `up` is B, [out, rank], and
    `down` is A, [rank, in]. It is drawn from a normal distribution around 0 with `deviation`.

        #dtc.adapter<base = @w, part = up, scale = 3.0 : f64, deviation = 0.0 : f64, layout = out_in>
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$base, EnumParameter<Graph_AdapterPart>:$part,
                        "::mlir::FloatAttr":$scale, "::mlir::FloatAttr":$deviation,
                        EnumParameter<Graph_WeightLayout>:$layout);
  let assemblyFormat = "`<` struct(params) `>`";
}

#endif // DTC_DIALECT_GRAPH_ADAPTERATTR_TD
