#include "dtc/Dialect/Graph/Adapters.h"

#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace dtc::graph;

#include "dtc/Dialect/Graph/AdapterEnums.cpp.inc"
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

std::string dtc::graph::textOf(Passes passes) {
  SmallVector<StringRef> names;
  auto add = [&](Passes which, StringRef name) {
    if ((passes & which) != which)
      return;
    names.push_back(name);
    passes = passes & ~which;
  };
  add(Passes::Forward, "forward");
  add(Passes::Backward, "backward");
  add(Passes::InputGrad, "input_grad");
  add(Passes::WeightGrad, "weight_grad");
  return names.empty() ? "none" : llvm::join(names, "|");
}

/// Names with `|` between them.
static FailureOr<Passes> parsePasses(AsmParser &parser) {
  Passes passes = Passes::None;
  do {
    SMLoc loc = parser.getCurrentLocation();
    StringRef word;
    if (parser.parseKeyword(&word))
      return failure();
    std::optional<Passes> more = symbolizePasses(word);
    if (!more)
      return parser.emitError(loc) << "not a pass of a schedule: " << word;
    passes = passes | *more;
  } while (succeeded(parser.parseOptionalVerticalBar()));
  return passes;
}

Attribute RunsAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  FailureOr<Cadence> cadence = failure();
  FailureOr<Passes> passes = Passes::None;
  int64_t chunk = 0;
  if (parser.parseLess() || failed(cadence = FieldParser<Cadence>::parse(parser)))
    return {};
  if (succeeded(parser.parseOptionalComma()) && failed(passes = parsePasses(parser)))
    return {};
  if (succeeded(parser.parseOptionalComma()) &&
      (parser.parseKeyword("chunk") || parser.parseInteger(chunk)))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<RunsAttr>(loc, parser.getContext(), *cadence, *passes, chunk);
}

void RunsAttr::print(AsmPrinter &printer) const {
  printer << '<' << stringifyCadence(getCadence());
  if (getPasses() != Passes::None)
    printer << ", " << textOf(getPasses());
  if (getChunk() != 0)
    printer << ", chunk " << getChunk();
  printer << '>';
}

LogicalResult RunsAttr::verify(function_ref<InFlightDiagnostic()> emitError, Cadence cadence,
                               Passes passes, int64_t chunk) {
  if ((cadence == Cadence::Step) != (passes == Passes::None))
    return emitError() << "passes belong to what runs for each microbatch, and to nothing else: "
                       << stringifyCadence(cadence) << ", " << textOf(passes);
  if (chunk < 0 || (chunk > 0 && cadence == Cadence::Step))
    return emitError() << "no chunk of a stage runs like this: " << chunk;
  return success();
}
