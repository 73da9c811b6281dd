// Losses that compare with targets: of classes, of numbers, of probabilities.
#include "AtenConverter.h"
#include "Compared.h"

#include "dtc/Import/Build/Loss.h"
#include "dtc/Import/Build/StopGradient.h"

#include <cmath>
#include <numbers>

using namespace mlir;

namespace dtc::import {

static LogicalResult convertClassLoss(AtenConverter &node) {
  auto self = node.tensor("self"), target = node.tensor("target");
  auto weights = node.optionalTensor("weight");
  auto reduction = reductionOf(node);
  auto ignore = node.integer("ignore_index", -100);
  auto smoothing = node.number("label_smoothing", 0);
  if (failed(self) || failed(target) || failed(weights) || failed(reduction) || failed(ignore) ||
      failed(smoothing))
    return failure();
  const ClassLoss loss = {*reduction, *ignore, *weights, *smoothing};
  if (node.op() != "aten.cross_entropy_loss")
    return node.define(logLikelihood(node, *self, *target, loss));
  if (isa<FloatType>(target->element()))
    return node.define(crossEntropyOfShares(node, *self, *target, loss));
  return node.define(crossEntropy(node, *self, *target, loss));
}

static LogicalResult convertSquaredError(AtenConverter &node) {
  auto pair = compared(node, {"self", "target"});
  if (failed(pair))
    return failure();
  auto [b, of] = *pair;
  return defineReduced(node, b.square(b.sub(of[0], of[1])));
}

/// |x - y|, whose edge at 0 is a parabola where a width is given.
static LogicalResult convertAbsoluteError(AtenConverter &node) {
  auto pair = compared(node, {"self", "target"});
  const bool isHuber = node.op() == "aten.huber_loss";
  auto width = node.op() == "aten.l1_loss" ? FailureOr<double>(0)
                                           : node.number(isHuber ? "delta" : "beta", 1);
  if (failed(pair) || failed(width))
    return failure();
  if (*width < 0 || (isHuber && *width == 0))
    return node.error() << "has a bad width: " << *width;
  auto [b, of] = *pair;
  Value size = b.unary<math::AbsFOp>(b.sub(of[0], of[1]));
  if (*width == 0)
    return defineReduced(node, size);
  Value inside = b.compare(arith::CmpFPredicate::OLT, size, *width);
  Value within = b.scale(b.square(size), isHuber ? 0.5 : 0.5 / *width);
  Value beyond = b.offset(size, -0.5 * *width);
  return defineReduced(node, b.select(inside, within, isHuber ? b.scale(beyond, *width) : beyond));
}

/// Logarithms are at least -100, and the gradient of x has a bounded divisor, as in PyTorch.
static LogicalResult convertBinaryCrossEntropy(AtenConverter &node) {
  auto pair = compared(node, {"self", "target", "weight"});
  if (failed(pair))
    return failure();
  auto [b, of] = *pair;
  Value x = of[0], target = of[1];
  auto stopped = [&](Value value) { return node.value(stopGradient(node, Tensor(value))); };
  auto atLeast = [&b](Value value, double low) {
    return b.selectOr(b.compare(arith::CmpFPredicate::OLE, value, low), low, value);
  };
  Value known = stopped(x), rest = b.offset(b.negate(known), 1);
  Value ofOne = atLeast(b.unary<math::LogOp>(known), -100),
        ofZero = atLeast(b.unary<math::Log1pOp>(b.negate(known)), -100);
  Value loss = b.sub(b.mul(b.offset(target, -1), ofZero), b.mul(target, ofOne));
  Value slope = b.div(b.sub(known, target), atLeast(b.mul(known, rest), 1e-12));
  loss = b.add(loss, b.mul(stopped(slope), b.sub(x, known)));
  return defineReduced(node, of[2] ? b.mul(loss, of[2]) : loss);
}

/// Of x before the sigmoid: (1 - t) x + softplus(-x), where t = 1 may count more.
static LogicalResult convertBinaryLogits(AtenConverter &node) {
  auto all = compared(node, {"self", "target", "weight", "pos_weight"});
  if (failed(all))
    return failure();
  auto [b, of] = *all;
  Value x = of[0], target = of[1];
  Value soft = softplus(b, b.negate(x));
  if (of[3])
    soft = b.mul(soft, b.offset(b.mul(b.offset(of[3], -1), target), 1));
  Value loss = b.add(b.mul(b.offset(b.negate(target), 1), x), soft);
  return defineReduced(node, of[2] ? b.mul(loss, of[2]) : loss);
}

/// t (log t - x), where t, or what is given for log t, is the target.
static LogicalResult convertDivergence(AtenConverter &node) {
  auto pair = compared(node, {"self", "target"});
  auto isLog = node.boolean("log_target", false);
  if (failed(pair) || failed(isLog))
    return failure();
  auto [b, of] = *pair;
  Value x = of[0], target = of[1];
  if (*isLog)
    return defineReduced(node, b.mul(b.unary<math::ExpOp>(target), b.sub(target, x)));
  Value isNothing = b.compare(arith::CmpFPredicate::OEQ, target, 0.0);
  Value entropy = b.mul(target, b.unary<math::LogOp>(b.selectOr(isNothing, 1.0, target)));
  return defineReduced(node, b.sub(entropy, b.mul(target, x)));
}

/// Counts t of a mean x, or e^x. `full` adds Stirling's formula for log t! where t > 1.
static LogicalResult convertPoisson(AtenConverter &node) {
  auto pair = compared(node, {"input", "target"});
  auto isLog = node.boolean("log_input", true), full = node.boolean("full", false);
  auto epsilon = node.number("eps", 1e-8);
  if (failed(pair) || failed(isLog) || failed(full) || failed(epsilon))
    return failure();
  auto [b, of] = *pair;
  Value x = of[0], target = of[1];
  Value loss = *isLog ? b.sub(b.unary<math::ExpOp>(x), b.mul(target, x))
                      : b.sub(x, b.mul(target, b.unary<math::LogOp>(b.offset(x, *epsilon))));
  if (!*full)
    return defineReduced(node, loss);
  Value isSmall = b.compare(arith::CmpFPredicate::OLE, target, 1);
  Value count = b.selectOr(isSmall, 1.0, target);
  Value log = b.unary<math::LogOp>(count);
  Value stirling = b.add(b.sub(b.mul(count, log), count),
                         b.scale(b.offset(log, std::log(2 * std::numbers::pi)), 0.5));
  return defineReduced(node, b.add(loss, b.selectOr(isSmall, 0.0, stirling)));
}

void addLosses(AtenTable &table) {
  for (const char *op :
       {"aten.cross_entropy_loss", "aten.nll_loss", "aten.nll_loss_nd", "aten.nll_loss2d"})
    table[op] = convertClassLoss;
  table["aten.mse_loss"] = convertSquaredError;
  for (const char *op : {"aten.l1_loss", "aten.smooth_l1_loss", "aten.huber_loss"})
    table[op] = convertAbsoluteError;
  table["aten.binary_cross_entropy"] = convertBinaryCrossEntropy;
  table["aten.binary_cross_entropy_with_logits"] = convertBinaryLogits;
  table["aten.kl_div"] = convertDivergence;
  table["aten.poisson_nll_loss"] = convertPoisson;
}

} // namespace dtc::import
