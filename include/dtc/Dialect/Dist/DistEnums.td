// Enumerations of the `dist` dialect, in a file of their own: what is generated
// from it is theirs alone.
#ifndef DTC_DIALECT_DIST_DISTENUMS_TD
#define DTC_DIALECT_DIST_DISTENUMS_TD

include "mlir/IR/EnumAttr.td"

def Dist_Recompute : I32EnumAttr<"Recompute", "what of a block is computed again", [
  I32EnumAttrCase<"Selective", 0, "selective">, I32EnumAttrCase<"Full", 1, "full">]> {
  let cppNamespace = "::dtc::dist";
  let genSpecializedAttr = 0;
}

#endif // DTC_DIALECT_DIST_DISTENUMS_TD
