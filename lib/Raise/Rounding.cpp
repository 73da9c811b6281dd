#include "Rounding.h"

#include <cmath>

using namespace mlir;

namespace dtc::raise {

/// Authors write numbers with seven digits or more.
static constexpr double kWritten = 1e-6;

Rounding::Rounding(Operation *op) {
  auto func = op->getParentOfType<func::FuncOp>();
  auto rounded = func ? func->getAttrOfType<ArrayAttr>(kRoundedTo) : ArrayAttr();
  if (rounded)
    for (auto type : rounded.getAsValueRange<TypeAttr>())
      types.push_back(cast<FloatType>(type));
}

double Rounding::errorOf(double number) const {
  double error = 0;
  for (FloatType type : types) {
    llvm::APFloat rounded(number);
    bool lossy;
    rounded.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &lossy);
    if (lossy || !rounded.isFiniteNonZero())
      continue;
    llvm::APFloat next = rounded;
    next.next(/*nextDown=*/false);
    const double unit = std::fabs(next.convertToDouble() - number);
    error = std::max(error, unit / 2 / std::fabs(number));
  }
  return error;
}

bool Rounding::isNear(double number, ArrayRef<double> numbers, double wanted) const {
  double error = kWritten;
  for (double each : numbers)
    error += errorOf(each);
  return std::fabs(number - wanted) <= error * std::fabs(wanted);
}

} // namespace dtc::raise
