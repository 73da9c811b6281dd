#include "dtc/Dialect/Graph/Graph.h"

#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace dtc::graph;

#include "dtc/Dialect/Graph/GraphEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dtc/Dialect/Graph/GraphAttrs.cpp.inc"

void GraphDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dtc/Dialect/Graph/GraphAttrs.cpp.inc"
      >();
}

/// The keyword after the name, one of the enum that `kind` calls for.
static LogicalResult parseDetail(AsmParser &parser, RoleKind kind,
                                 std::optional<StateKind> &state,
                                 std::optional<ScalarKind> &scalar) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (parser.parseKeyword(&word))
    return failure();
  if (kind == RoleKind::State && (state = symbolizeStateKind(word)))
    return success();
  if (kind == RoleKind::Scalar && (scalar = symbolizeScalarKind(word)))
    return success();
  return parser.emitError(loc) << "not a detail of the role " << stringifyRoleKind(kind) << ": "
                               << word;
}

Attribute RoleAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  FailureOr<RoleKind> kind = failure();
  std::string name;
  std::optional<StateKind> state;
  std::optional<ScalarKind> scalar;
  if (parser.parseLess() || failed(kind = FieldParser<RoleKind>::parse(parser)) ||
      parser.parseComma() || parser.parseString(&name))
    return {};
  if (succeeded(parser.parseOptionalComma()) && failed(parseDetail(parser, *kind, state, scalar)))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<RoleAttr>(loc, parser.getContext(), *kind, name, state, scalar);
}

void RoleAttr::print(AsmPrinter &printer) const {
  printer << '<' << stringifyRoleKind(getKind()) << ", ";
  printer.printString(getName());
  if (getState())
    printer << ", " << stringifyStateKind(*getState());
  if (getScalar())
    printer << ", " << stringifyScalarKind(*getScalar());
  printer << '>';
}

LogicalResult RoleAttr::verify(function_ref<InFlightDiagnostic()> emitError, RoleKind kind,
                               StringRef name, std::optional<StateKind> state,
                               std::optional<ScalarKind> scalar) {
  if (state.has_value() != (kind == RoleKind::State))
    return emitError() << "an optimizer state belongs to the role state and no other: "
                       << stringifyRoleKind(kind);
  if (scalar.has_value() != (kind == RoleKind::Scalar))
    return emitError() << "a scalar kind belongs to the role scalar and no other: "
                       << stringifyRoleKind(kind);
  return success();
}
