// Gradients of the elementwise arith and math ops.
//
// Each is one function from (context, operand number) to that operand's
// gradient, attached to its op in the table at the end. Formulas of more than
// one operation are evaluated in f32 at least and rounded once.
#include "dtc/Dialect/Graph/TensorBuilder.h"

#include <numbers>

using namespace mlir;

namespace dtc::graph {

namespace {

using Predicate = arith::CmpFPredicate;

/// What a formula sees: operands and result of the forward op, and the
/// gradient of the result, all in the statistics type.
struct Formula {
  Formula(TensorBuilder &b, Operation *op, Value grad)
      : b(b), op(op), narrowGrad(grad), grad(b.widen(grad)) {}

  TensorBuilder &b;
  Operation *op;
  Value narrowGrad; ///< in the type it came in
  Value grad;

  Value operand(unsigned i) { return b.widen(op->getOperand(i)); }
  Value x() { return operand(0); }
  Value y() { return operand(1); }
  Value result() { return b.widen(op->getResult(0)); }
  /// grad * slope
  Value times(Value slope) { return b.mul(grad, slope); }
};

/// A null value stands for a gradient of zero.
using FormulaFn = Value (*)(Formula &, unsigned);

template <typename Op, FormulaFn formula>
struct Model
    : DifferentiableOpInterface::ExternalModel<Model<Op, formula>, Op> {
  LogicalResult buildGradient(Operation *op, OpBuilder &builder, ArrayRef<Value> resultGrads,
                              ArrayRef<bool> needed, MutableArrayRef<Value> operandGrads) const {
    if (!resultGrads[0])
      return success();
    TensorBuilder b(builder, op->getLoc());
    Formula context(b, op, resultGrads[0]);
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      if (!needed[i])
        continue;
      if (Value grad = formula(context, i))
        operandGrads[i] = b.convert(grad, getElementTypeOrSelf(op->getOperand(i)));
    }
    return success();
  }
};

//===-- arith -------------------------------------------------------------===//

Value addGrad(Formula &f, unsigned) { return f.narrowGrad; }
Value subGrad(Formula &f, unsigned i) {
  return i == 0 ? f.narrowGrad : f.b.negate(f.narrowGrad);
}
Value negGrad(Formula &f, unsigned) { return f.b.negate(f.narrowGrad); }
Value castGrad(Formula &f, unsigned) { return f.narrowGrad; }
Value mulGrad(Formula &f, unsigned i) { return f.times(f.operand(1 - i)); }

Value divGrad(Formula &f, unsigned i) {
  Value quotient = f.b.div(f.grad, f.y());
  return i == 0 ? quotient : f.b.negate(f.b.mul(quotient, f.result()));
}

/// Ties share the gradient, as in PyTorch.
Value extremumGrad(Formula &f, unsigned i, Predicate loses) {
  Value self = f.operand(i), other = f.operand(1 - i);
  Value won = f.b.selectOr(f.b.compare(loses, self, other), 0.0, f.grad);
  return f.b.select(f.b.compare(Predicate::OEQ, self, other), f.b.scale(f.grad, 0.5), won);
}
Value maximumGrad(Formula &f, unsigned i) { return extremumGrad(f, i, Predicate::OLT); }
Value minimumGrad(Formula &f, unsigned i) { return extremumGrad(f, i, Predicate::OGT); }

Value selectGrad(Formula &f, unsigned i) {
  Value condition = f.op->getOperand(0);
  return i == 1 ? f.b.selectOr(condition, f.narrowGrad, 0.0)
                : f.b.selectOr(condition, 0.0, f.narrowGrad);
}

/// x - trunc(x / y) * y
Value remainderGrad(Formula &f, unsigned i) {
  if (i == 0)
    return f.narrowGrad;
  return f.b.negate(f.times(f.b.unary<math::TruncOp>(f.b.div(f.x(), f.y()))));
}

//===-- math --------------------------------------------------------------===//

Value fmaGrad(Formula &f, unsigned i) { return i == 2 ? f.grad : f.times(f.operand(1 - i)); }

Value expGrad(Formula &f, unsigned) { return f.times(f.result()); }
Value exp2Grad(Formula &f, unsigned) {
  return f.times(f.b.scale(f.result(), std::numbers::ln2));
}
Value expm1Grad(Formula &f, unsigned) { return f.times(f.b.offset(f.result(), 1.0)); }
Value logGrad(Formula &f, unsigned) { return f.b.div(f.grad, f.x()); }
Value log2Grad(Formula &f, unsigned) {
  return f.b.div(f.grad, f.b.scale(f.x(), std::numbers::ln2));
}
Value log10Grad(Formula &f, unsigned) {
  return f.b.div(f.grad, f.b.scale(f.x(), std::numbers::ln10));
}
Value log1pGrad(Formula &f, unsigned) { return f.b.div(f.grad, f.b.offset(f.x(), 1.0)); }
Value sqrtGrad(Formula &f, unsigned) { return f.b.div(f.grad, f.b.scale(f.result(), 2.0)); }
Value rsqrtGrad(Formula &f, unsigned) {
  Value cube = f.b.mul(f.b.square(f.result()), f.result());
  return f.times(f.b.scale(cube, -0.5));
}
Value cbrtGrad(Formula &f, unsigned) {
  return f.b.div(f.grad, f.b.scale(f.b.square(f.result()), 3.0));
}
Value erfGrad(Formula &f, unsigned) {
  Value density = f.b.unary<math::ExpOp>(f.b.negate(f.b.square(f.x())));
  return f.times(f.b.scale(density, 2.0 * std::numbers::inv_sqrtpi));
}
Value erfcGrad(Formula &f, unsigned i) { return f.b.negate(erfGrad(f, i)); }
Value absGrad(Formula &f, unsigned) {
  Value negative = f.b.compare(Predicate::OLT, f.x(), 0.0);
  Value zero = f.b.compare(Predicate::OEQ, f.x(), 0.0);
  return f.b.selectOr(zero, 0.0, f.b.select(negative, f.b.negate(f.grad), f.grad));
}

Value sinGrad(Formula &f, unsigned) { return f.times(f.b.unary<math::CosOp>(f.x())); }
Value cosGrad(Formula &f, unsigned) {
  return f.b.negate(f.times(f.b.unary<math::SinOp>(f.x())));
}
Value tanGrad(Formula &f, unsigned) {
  return f.times(f.b.offset(f.b.square(f.result()), 1.0));
}
Value sinhGrad(Formula &f, unsigned) { return f.times(f.b.unary<math::CoshOp>(f.x())); }
Value coshGrad(Formula &f, unsigned) { return f.times(f.b.unary<math::SinhOp>(f.x())); }
Value tanhGrad(Formula &f, unsigned) {
  return f.times(f.b.sub(f.b.constantLike(f.grad, 1.0), f.b.square(f.result())));
}
/// 1 + sign * x^2
Value onePlusSquare(Formula &f, double sign) {
  return f.b.offset(f.b.scale(f.b.square(f.x()), sign), 1.0);
}
Value asinGrad(Formula &f, unsigned) {
  return f.times(f.b.unary<math::RsqrtOp>(onePlusSquare(f, -1.0)));
}
Value acosGrad(Formula &f, unsigned i) { return f.b.negate(asinGrad(f, i)); }
Value atanGrad(Formula &f, unsigned) { return f.b.div(f.grad, onePlusSquare(f, 1.0)); }
Value asinhGrad(Formula &f, unsigned) {
  return f.times(f.b.unary<math::RsqrtOp>(onePlusSquare(f, 1.0)));
}
Value acoshGrad(Formula &f, unsigned) {
  return f.times(f.b.unary<math::RsqrtOp>(f.b.offset(f.b.square(f.x()), -1.0)));
}
Value atanhGrad(Formula &f, unsigned) { return f.b.div(f.grad, onePlusSquare(f, -1.0)); }

/// d/dx x^y = y x^(y-1), which is 0 for y = 0 even at x = 0. And d/dy x^y = x^y log x, which is 0
/// where x = 0 and y >= 0.
Value powGrad(Formula &f, unsigned i) {
  Value x = f.x(), y = f.y();
  if (i == 0) {
    Value power = math::PowFOp::create(f.b.builder, f.b.loc, x, f.b.offset(y, -1.0));
    Value constant = f.b.compare(Predicate::OEQ, y, 0.0);
    return f.b.selectOr(constant, 0.0, f.times(f.b.mul(y, power)));
  }
  Value flat = arith::AndIOp::create(f.b.builder, f.b.loc, f.b.compare(Predicate::OEQ, x, 0.0),
                                     f.b.compare(Predicate::OGE, y, 0.0));
  Value slope = f.times(f.b.mul(f.result(), f.b.unary<math::LogOp>(x)));
  return f.b.selectOr(flat, 0.0, slope);
}

/// x^n with an integer n.
Value integerPowGrad(Formula &f, unsigned i) {
  if (i != 0)
    return nullptr;
  Value n = f.op->getOperand(1);
  Value less = arith::SubIOp::create(f.b.builder, f.b.loc, n, f.b.integer(n.getType(), 1));
  Value power = math::FPowIOp::create(f.b.builder, f.b.loc, f.x(), less);
  Value factor = f.b.convert(n, getElementTypeOrSelf(f.grad));
  Value constant = f.b.compare(arith::CmpIPredicate::eq, n, 0);
  return f.b.selectOr(constant, 0.0, f.times(f.b.mul(factor, power)));
}

/// The magnitude of the first operand with the sign of the second.
Value copySignGrad(Formula &f, unsigned i) {
  if (i != 0)
    return nullptr;
  Value kept = f.b.compare(Predicate::OEQ, f.x(), f.result());
  Value signedGrad = f.b.select(kept, f.grad, f.b.negate(f.grad));
  return f.b.selectOr(f.b.compare(Predicate::OEQ, f.x(), 0.0), 0.0, signedGrad);
}

/// The angle of (y, x): operands in that order.
Value atan2Grad(Formula &f, unsigned i) {
  Value square = f.b.add(f.b.square(f.x()), f.b.square(f.y()));
  Value slope = f.b.div(f.operand(1 - i), square);
  return i == 0 ? f.times(slope) : f.b.negate(f.times(slope));
}

/// Steps: constant almost everywhere.
Value stepGrad(Formula &, unsigned) { return nullptr; }

template <typename Op, FormulaFn formula> void attach(MLIRContext &context) {
  Op::template attachInterface<Model<Op, formula>>(context);
}

void attachArith(MLIRContext &context) {
  attach<arith::AddFOp, addGrad>(context);
  attach<arith::SubFOp, subGrad>(context);
  attach<arith::MulFOp, mulGrad>(context);
  attach<arith::DivFOp, divGrad>(context);
  attach<arith::NegFOp, negGrad>(context);
  attach<arith::MaximumFOp, maximumGrad>(context);
  attach<arith::MinimumFOp, minimumGrad>(context);
  attach<arith::MaxNumFOp, maximumGrad>(context);
  attach<arith::MinNumFOp, minimumGrad>(context);
  attach<arith::RemFOp, remainderGrad>(context);
  attach<arith::SelectOp, selectGrad>(context);
  attach<arith::ExtFOp, castGrad>(context);
  attach<arith::TruncFOp, castGrad>(context);
}

void attachMath(MLIRContext &context) {
  attach<math::AbsFOp, absGrad>(context);
  attach<math::AcosOp, acosGrad>(context);
  attach<math::AcoshOp, acoshGrad>(context);
  attach<math::AsinOp, asinGrad>(context);
  attach<math::AsinhOp, asinhGrad>(context);
  attach<math::Atan2Op, atan2Grad>(context);
  attach<math::AtanOp, atanGrad>(context);
  attach<math::AtanhOp, atanhGrad>(context);
  attach<math::CbrtOp, cbrtGrad>(context);
  attach<math::CeilOp, stepGrad>(context);
  attach<math::CopySignOp, copySignGrad>(context);
  attach<math::CosOp, cosGrad>(context);
  attach<math::CoshOp, coshGrad>(context);
  attach<math::ErfOp, erfGrad>(context);
  attach<math::ErfcOp, erfcGrad>(context);
  attach<math::Exp2Op, exp2Grad>(context);
  attach<math::ExpM1Op, expm1Grad>(context);
  attach<math::ExpOp, expGrad>(context);
  attach<math::FloorOp, stepGrad>(context);
  attach<math::FPowIOp, integerPowGrad>(context);
  attach<math::FmaOp, fmaGrad>(context);
  attach<math::Log10Op, log10Grad>(context);
  attach<math::Log1pOp, log1pGrad>(context);
  attach<math::Log2Op, log2Grad>(context);
  attach<math::LogOp, logGrad>(context);
  attach<math::PowFOp, powGrad>(context);
  attach<math::RoundEvenOp, stepGrad>(context);
  attach<math::RoundOp, stepGrad>(context);
  attach<math::RsqrtOp, rsqrtGrad>(context);
  attach<math::SinOp, sinGrad>(context);
  attach<math::SinhOp, sinhGrad>(context);
  attach<math::SqrtOp, sqrtGrad>(context);
  attach<math::TanOp, tanGrad>(context);
  attach<math::TanhOp, tanhGrad>(context);
  attach<math::TruncOp, stepGrad>(context);
}

} // namespace

void registerElementwiseGradients(DialectRegistry &registry) {
  registry.addExtension(
      +[](MLIRContext *context, arith::ArithDialect *) { attachArith(*context); });
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *) { attachMath(*context); });
}

} // namespace dtc::graph
