// Assembly and verifier of dist.mesh.
#include "dtc/Dialect/Dist/Dist.h"

#include "mlir/IR/OpImplementation.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace dtc::dist;

/// One axis: `"tp.0" = 2 of "tp"`.
static ParseResult parseAxis(OpAsmParser &parser, SmallVectorImpl<Attribute> &names,
                             SmallVectorImpl<int64_t> &sizes,
                             SmallVectorImpl<Attribute> &degrees) {
  StringAttr name, degree;
  if (parser.parseAttribute(name) || parser.parseEqual() ||
      parser.parseInteger(sizes.emplace_back()))
    return failure();
  degree = name;
  if (succeeded(parser.parseOptionalKeyword("of")) && parser.parseAttribute(degree))
    return failure();
  names.push_back(name);
  degrees.push_back(degree);
  return success();
}

ParseResult MeshOp::parse(OpAsmParser &parser, OperationState &state) {
  Properties &properties = state.getOrAddProperties<Properties>();
  SmallVector<Attribute> names, degrees;
  SmallVector<int64_t> sizes;
  if (parser.parseSymbolName(properties.sym_name) ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
        return parseAxis(parser, names, sizes, degrees);
      }))
    return failure();
  properties.names = parser.getBuilder().getArrayAttr(names);
  properties.sizes = parser.getBuilder().getDenseI64ArrayAttr(sizes);
  properties.degrees = parser.getBuilder().getArrayAttr(degrees);
  return parser.parseOptionalAttrDict(state.attributes);
}

void MeshOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer << " [";
  llvm::interleaveComma(llvm::zip_equal(getNames(), getSizes(), getDegrees()), printer,
                        [&](auto axis) {
                          auto [name, size, degree] = axis;
                          printer << name << " = " << size;
                          if (degree != name)
                            printer << " of " << degree;
                        });
  printer << ']';
  printer.printOptionalAttrDict(
      (*this)->getAttrs(),
      {getSymNameAttrName(), getNamesAttrName(), getSizesAttrName(), getDegreesAttrName()});
}

LogicalResult MeshOp::verify() {
  if (getNames().size() != getSizes().size() || getNames().size() != getDegrees().size())
    return emitOpError("needs as many sizes and degrees as names, got: ")
           << getNames().size() << ", " << getSizes().size() << ", " << getDegrees().size();
  llvm::StringSet<> seen;
  int64_t devices = 1;
  for (auto [name, size] : llvm::zip_equal(getNames().getAsValueRange<StringAttr>(), getSizes())) {
    if (!seen.insert(name).second)
      return emitOpError("axis is declared twice: ") << name;
    if (size < 1 || size > (int64_t{1} << 31) / devices)
      return emitOpError("size of axis ") << name << " is out of range: " << size;
    devices *= size;
  }
  return success();
}
