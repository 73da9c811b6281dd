// Assembly of the attributes.
#include "Axes.h"

#include "llvm/ADT/TypeSwitch.h"

#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::dist;

//===----------------------------------------------------------------------===//
// Lists
//===----------------------------------------------------------------------===//

ParseResult dist::parseAxes(AsmParser &parser, AxesAttr &axes) {
  SmallVector<StringAttr> names;
  auto parseName = [&] { return parser.parseAttribute(names.emplace_back()); };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, parseName))
    return failure();
  axes = AxesAttr::get(parser.getContext(), names);
  return success();
}

void dist::printAxes(AsmPrinter &printer, AxesAttr axes) {
  printer << '{';
  llvm::interleaveComma(axes.getNames(), printer, [&](StringAttr name) { printer << name; });
  printer << '}';
}

void dist::printAxes(AsmPrinter &printer, Operation *, AxesAttr axes) {
  printAxes(printer, axes);
}

static ParseResult parseAxesList(AsmParser &parser, SmallVectorImpl<AxesAttr> &lists) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    return parseAxes(parser, lists.emplace_back());
  });
}

static void printAxesList(AsmPrinter &printer, ArrayRef<AxesAttr> lists) {
  printer << '[';
  llvm::interleaveComma(lists, printer, [&](AxesAttr axes) { printAxes(printer, axes); });
  printer << ']';
}

Attribute AxesAttr::parse(AsmParser &parser, Type) {
  AxesAttr axes;
  if (parser.parseLess() || parseAxes(parser, axes) || parser.parseGreater())
    return {};
  return axes;
}

void AxesAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printAxes(printer, *this);
  printer << '>';
}

//===----------------------------------------------------------------------===//
// ShardingAttr
//===----------------------------------------------------------------------===//

static ParseResult parseMeshName(AsmParser &parser, FlatSymbolRefAttr &mesh) {
  return parser.parseAttribute(mesh);
}

Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  FlatSymbolRefAttr mesh;
  SmallVector<AxesAttr> dims;
  AxesAttr none = AxesAttr::get(parser.getContext(), {});
  AxesAttr sum = none, max = none, min = none;
  if (parser.parseLess() || parseMeshName(parser, mesh) || parser.parseComma() ||
      parseAxesList(parser, dims))
    return {};
  while (succeeded(parser.parseOptionalComma())) {
    StringRef kind;
    SMLoc location = parser.getCurrentLocation();
    if (parser.parseKeyword(&kind) || parser.parseEqual())
      return {};
    AxesAttr *axes = kind == "sum" ? &sum : kind == "max" ? &max : kind == "min" ? &min : nullptr;
    if (!axes) {
      parser.emitError(location) << "expected sum, max or min, got: " << kind;
      return {};
    }
    if (parseAxes(parser, *axes))
      return {};
  }
  if (parser.parseGreater())
    return {};
  return ShardingAttr::get(parser.getContext(), mesh, dims, sum, max, min);
}

void ShardingAttr::print(AsmPrinter &printer) const {
  printer << '<' << getMesh() << ", ";
  printAxesList(printer, getDims());
  std::pair<StringRef, AxesAttr> partials[] = {
      {"sum", getSum()}, {"max", getMax()}, {"min", getMin()}};
  for (auto [kind, axes] : partials) {
    if (axes.getNames().empty())
      continue;
    printer << ", " << kind << " = ";
    printAxes(printer, axes);
  }
  printer << '>';
}

//===----------------------------------------------------------------------===//
// OpShardingAttr
//===----------------------------------------------------------------------===//

Attribute OpShardingAttr::parse(AsmParser &parser, Type) {
  FlatSymbolRefAttr mesh;
  SmallVector<AxesAttr> factors, pending;
  if (parser.parseLess() || parseMeshName(parser, mesh) || parser.parseComma() ||
      parseAxesList(parser, factors))
    return {};
  if (succeeded(parser.parseOptionalComma()) &&
      (parser.parseKeyword("pending") || parser.parseEqual() || parseAxesList(parser, pending)))
    return {};
  if (parser.parseGreater())
    return {};
  return OpShardingAttr::get(parser.getContext(), mesh, factors, pending);
}

void OpShardingAttr::print(AsmPrinter &printer) const {
  printer << '<' << getMesh() << ", ";
  printAxesList(printer, getFactors());
  if (!getPending().empty()) {
    printer << ", pending = ";
    printAxesList(printer, getPending());
  }
  printer << '>';
}

//===----------------------------------------------------------------------===//
// FlatAttr
//===----------------------------------------------------------------------===//

Attribute FlatAttr::parse(AsmParser &parser, Type) {
  SmallVector<int64_t> shape;
  SmallVector<AxesAttr> dims;
  AxesAttr axes;
  if (parser.parseLess() ||
      parser.parseDimensionList(shape, /*allowDynamic=*/false, /*withTrailingX=*/false) ||
      parseAxesList(parser, dims) || parser.parseKeyword("over") || parseAxes(parser, axes) ||
      parser.parseGreater())
    return {};
  return FlatAttr::get(parser.getContext(), shape, dims, axes);
}

void FlatAttr::print(AsmPrinter &printer) const {
  printer << '<';
  llvm::interleave(getShape(), printer, "x");
  printer << ' ';
  printAxesList(printer, getDims());
  printer << " over ";
  printAxes(printer, getAxes());
  printer << '>';
}

#define GET_ATTRDEF_CLASSES
#include "dtc/Dialect/Dist/DistAttrs.cpp.inc"

void DistDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dtc/Dialect/Dist/DistAttrs.cpp.inc"
      >();
}
