#include "dtc/Kernels/IndexMath.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace dtc::kernels {

AffineExpr IndexMath::newVariable(Range range, int depth) {
  variables.push_back({range, depth});
  return getAffineDimExpr(variables.size() - 1, context);
}

AffineExpr IndexMath::constant(int64_t value) { return getAffineConstantExpr(value, context); }

int64_t IndexMath::numElements(ArrayRef<int64_t> shape) {
  int64_t product = 1;
  for (int64_t size : shape)
    product *= size;
  return product;
}

int IndexMath::order(AffineExpr atom) {
  return atomOrder.try_emplace(atom, static_cast<int>(atomOrder.size())).first->second;
}

void IndexMath::addTerm(Terms &terms, AffineExpr atom, int64_t coefficient) {
  for (auto &term : terms)
    if (term.first == atom) {
      term.second += coefficient;
      return;
    }
  terms.push_back({atom, coefficient});
}

int64_t IndexMath::flatten(AffineExpr expr, int64_t factor, Terms &terms) {
  if (auto value = dyn_cast<AffineConstantExpr>(expr))
    return factor * value.getValue();
  if (auto binary = dyn_cast<AffineBinaryOpExpr>(expr)) {
    if (binary.getKind() == AffineExprKind::Add)
      return flatten(binary.getLHS(), factor, terms) + flatten(binary.getRHS(), factor, terms);
    if (binary.getKind() == AffineExprKind::Mul)
      if (auto scale = dyn_cast<AffineConstantExpr>(binary.getRHS()))
        return flatten(binary.getLHS(), factor * scale.getValue(), terms);
  }
  addTerm(terms, expr, factor);
  return 0;
}

/// Rewrites a * (e mod k) + a * k * (e floordiv k) to a * e, once.
bool IndexMath::mergeQuotients(Terms &terms, int64_t &constantTerm) {
  for (size_t i = 0; i < terms.size(); ++i) {
    auto remainder = dyn_cast<AffineBinaryOpExpr>(terms[i].first);
    if (!remainder || remainder.getKind() != AffineExprKind::Mod || terms[i].second == 0)
      continue;
    int64_t coefficient = terms[i].second;
    int64_t divisor = cast<AffineConstantExpr>(remainder.getRHS()).getValue();
    AffineExpr whole = remainder.getLHS();
    Terms quotient;
    int64_t rest = flatten(floorDivide(whole, divisor), coefficient * divisor, quotient);
    bool present = llvm::all_of(quotient, [&](const auto &part) {
      return llvm::is_contained(terms, part);
    });
    if (!present)
      continue;
    for (auto [atom, factor] : quotient)
      addTerm(terms, atom, -factor);
    addTerm(terms, remainder, -coefficient);
    constantTerm += flatten(whole, coefficient, terms) - rest;
    return true;
  }
  return false;
}

AffineExpr IndexMath::rebuild(Terms terms, int64_t constantTerm) {
  while (mergeQuotients(terms, constantTerm))
    llvm::erase_if(terms, [](const auto &term) { return term.second == 0; });
  llvm::erase_if(terms, [](const auto &term) { return term.second == 0; });
  llvm::sort(terms, [&](const auto &a, const auto &b) { return order(a.first) < order(b.first); });
  AffineExpr sum = constant(0);
  for (auto [atom, coefficient] : terms)
    sum = sum + atom * coefficient;
  return sum + constantTerm;
}

AffineExpr IndexMath::add(AffineExpr a, AffineExpr b) {
  Terms terms;
  int64_t rest = flatten(a, 1, terms);
  rest += flatten(b, 1, terms);
  return rebuild(std::move(terms), rest);
}

AffineExpr IndexMath::multiply(AffineExpr a, int64_t factor) {
  Terms terms;
  int64_t rest = flatten(a, factor, terms);
  return rebuild(std::move(terms), rest);
}

Range IndexMath::rangeOf(const Terms &terms, int64_t constantTerm) {
  int64_t low = constantTerm, last = constantTerm;
  for (auto [atom, coefficient] : terms) {
    Range part = range(atom);
    int64_t a = coefficient * part.low, b = coefficient * (part.high - 1);
    low += std::min(a, b);
    last += std::max(a, b);
  }
  return {low, last + 1};
}

Range IndexMath::range(AffineExpr expr) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return variables[dim.getPosition()].range;
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (binary && (binary.getKind() == AffineExprKind::FloorDiv ||
                 binary.getKind() == AffineExprKind::Mod)) {
    Range inner = range(binary.getLHS());
    int64_t divisor = cast<AffineConstantExpr>(binary.getRHS()).getValue();
    if (binary.getKind() == AffineExprKind::Mod)
      return {0, divisor};
    return {llvm::divideFloorSigned(inner.low, divisor),
            llvm::divideFloorSigned(inner.high - 1, divisor) + 1};
  }
  Terms terms;
  int64_t rest = flatten(expr, 1, terms);
  return rangeOf(terms, rest);
}

std::pair<IndexMath::Terms, IndexMath::Terms> IndexMath::divideTerms(const Terms &terms,
                                                                     int64_t divisor) {
  std::pair<Terms, Terms> result;
  for (auto [atom, coefficient] : terms)
    if (coefficient % divisor == 0)
      result.first.push_back({atom, coefficient / divisor});
    else
      result.second.push_back({atom, coefficient});
  return result;
}

/// Finds terms = g * coarse + fine with 0 <= fine < g and g a divisor of `divisor`. So the division
/// only concerns the coarse terms: (33 * i + j) floordiv 231 = i floordiv 7.
int64_t IndexMath::coarsen(const Terms &terms, int64_t constantTerm, int64_t divisor,
                           AffineExpr &coarse, AffineExpr &fine) {
  for (auto [candidate, g] : terms) {
    if (g <= 1 || divisor % g != 0)
      continue;
    auto [multiples, rest] = divideTerms(terms, g);
    int64_t whole = llvm::divideFloorSigned(constantTerm, g), restTerm = constantTerm - whole * g;
    Range range = rangeOf(rest, restTerm);
    if (range.low < 0 || range.high > g)
      continue;
    coarse = rebuild(multiples, whole);
    fine = rebuild(rest, restTerm);
    return g;
  }
  return 0;
}

AffineExpr IndexMath::floorDivide(AffineExpr a, int64_t divisor) {
  if (divisor == 1)
    return a;
  Terms terms;
  int64_t rest = flatten(a, 1, terms);
  auto [whole, part] = divideTerms(terms, divisor);
  int64_t wholeRest = llvm::divideFloorSigned(rest, divisor), partRest = rest - wholeRest * divisor;
  Range inner = rangeOf(part, partRest);
  int64_t first = llvm::divideFloorSigned(inner.low, divisor);
  if (first == llvm::divideFloorSigned(inner.high - 1, divisor))
    return rebuild(std::move(whole), wholeRest + first);
  // (e floordiv a) floordiv b = e floordiv (a * b).
  if (part.size() == 1 && partRest == 0 && part[0].second == 1) {
    auto nested = dyn_cast<AffineBinaryOpExpr>(part[0].first);
    if (nested && nested.getKind() == AffineExprKind::FloorDiv) {
      int64_t inner = cast<AffineConstantExpr>(nested.getRHS()).getValue();
      addTerm(whole, nested.getLHS().floorDiv(inner * divisor), 1);
      return rebuild(std::move(whole), wholeRest);
    }
  }
  AffineExpr coarse, fine;
  if (int64_t g = coarsen(part, partRest, divisor, coarse, fine))
    return add(rebuild(std::move(whole), wholeRest), floorDivide(coarse, divisor / g));
  addTerm(whole, rebuild(std::move(part), partRest).floorDiv(divisor), 1);
  return rebuild(std::move(whole), wholeRest);
}

AffineExpr IndexMath::modulo(AffineExpr a, int64_t divisor) {
  if (divisor == 1)
    return constant(0);
  Terms terms;
  int64_t rest = flatten(a, 1, terms);
  rest -= llvm::divideFloorSigned(rest, divisor) * divisor;
  Terms part = divideTerms(terms, divisor).second;
  Range inner = rangeOf(part, rest);
  int64_t first = llvm::divideFloorSigned(inner.low, divisor);
  if (first == llvm::divideFloorSigned(inner.high - 1, divisor))
    return rebuild(std::move(part), rest - first * divisor);
  AffineExpr coarse, fine;
  if (int64_t g = coarsen(part, rest, divisor, coarse, fine))
    return add(multiply(modulo(coarse, divisor / g), g), fine);
  return rebuild(std::move(part), rest) % divisor;
}

int IndexMath::depth(AffineExpr expr) {
  int deepest = 0;
  expr.walk([&](AffineExpr part) {
    if (auto dim = dyn_cast<AffineDimExpr>(part))
      deepest = std::max(deepest, variables[dim.getPosition()].depth);
  });
  return deepest;
}

int IndexMath::depth(const Index &index) {
  int deepest = 0;
  for (AffineExpr expr : index)
    deepest = std::max(deepest, depth(expr));
  return deepest;
}

std::pair<AffineExpr, AffineExpr> IndexMath::separate(AffineExpr expr, int depth) {
  std::pair<AffineExpr, AffineExpr> sides;
  auto add = [&](auto &&self, AffineExpr part) -> void {
    auto binary = dyn_cast<AffineBinaryOpExpr>(part);
    if (binary && binary.getKind() == AffineExprKind::Add) {
      self(self, binary.getLHS());
      self(self, binary.getRHS());
      return;
    }
    AffineExpr &side = this->depth(part) < depth ? sides.first : sides.second;
    side = side ? side + part : part;
  };
  add(add, expr);
  return sides;
}

SmallVector<int64_t> IndexMath::tapOffsets(int64_t tap, ArrayRef<int64_t> kernel,
                                           ArrayRef<int64_t> dilations, ArrayRef<int64_t> padLow) {
  SmallVector<int64_t> offsets(kernel.size());
  for (int64_t d = kernel.size() - 1; d >= 0; tap /= kernel[d], --d)
    offsets[d] = tap % kernel[d] * dilations[d] - padLow[d];
  return offsets;
}

Index IndexMath::delinearize(AffineExpr linear, ArrayRef<int64_t> shape) {
  Index index(shape.size());
  int64_t stride = 1;
  for (int64_t dim = shape.size() - 1; dim >= 0; --dim) {
    AffineExpr upper = floorDivide(linear, stride);
    index[dim] = shape[dim] == 1 ? constant(0) : modulo(upper, shape[dim]);
    stride *= shape[dim];
  }
  return index;
}

AffineExpr IndexMath::linearize(const Index &index, ArrayRef<int64_t> shape) {
  AffineExpr linear = constant(0);
  int64_t stride = 1;
  for (int64_t dim = shape.size() - 1; dim >= 0; --dim) {
    linear = add(linear, multiply(index[dim], stride));
    stride *= shape[dim];
  }
  return linear;
}

static bool isDivision(AffineExpr expr) {
  return expr.getKind() == AffineExprKind::FloorDiv || expr.getKind() == AffineExprKind::Mod;
}

bool IndexMath::hasDivision(AffineExpr expr) {
  bool found = false;
  expr.walk([&](AffineExpr part) { found |= isDivision(part); });
  return found;
}

int64_t IndexMath::splitOf(AffineExpr offset, AffineExpr variable) {
  int64_t split = 0;
  offset.walk([&](AffineExpr part) {
    if (!isDivision(part))
      return;
    auto binary = cast<AffineBinaryOpExpr>(part);
    int64_t divisor = cast<AffineConstantExpr>(binary.getRHS()).getValue();
    Terms terms;
    int64_t rest = flatten(binary.getLHS(), 1, terms);
    for (auto [atom, coefficient] : terms)
      if (atom == variable && divisor % coefficient == 0 && rest % coefficient == 0)
        split = std::max(split, divisor / coefficient);
  });
  return split;
}

} // namespace dtc::kernels
