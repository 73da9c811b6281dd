#include "Kernels.h"

#include <cmath>

using namespace mlir;
using namespace dtc::graph;

namespace dtc::interpreter {

namespace {
/// Which element of the input plane each tap of the kernel sees from each
/// output position: `at[tap * positions + position]`, -1 for padding. Built
/// once, so that the kernels below have plain loops over planes.
struct Taps {
  template <typename Op>
  Taps(Op op, ArrayRef<int64_t> input, ArrayRef<int64_t> kernel, ArrayRef<int64_t> output);

  int64_t inputPlane, taps, positions;
  std::vector<int64_t> at;

private:
  /// Row-major indices of `shape`, one after the other.
  static std::vector<Strides> indices(ArrayRef<int64_t> shape);
};
} // namespace

std::vector<Strides> Taps::indices(ArrayRef<int64_t> shape) {
  std::vector<Strides> result;
  int64_t count = productOf(shape);
  for (int64_t position = 0; position < count; ++position) {
    Strides index(shape.size());
    int64_t rest = position;
    for (size_t dim = shape.size(); dim-- > 0; rest /= shape[dim])
      index[dim] = rest % shape[dim];
    result.push_back(std::move(index));
  }
  return result;
}

template <typename Op>
Taps::Taps(Op op, ArrayRef<int64_t> input, ArrayRef<int64_t> kernel, ArrayRef<int64_t> output)
    : inputPlane(productOf(input)), taps(productOf(kernel)), positions(productOf(output)) {
  Strides strides = stridesOf(input);
  std::vector<Strides> outputs = indices(output);
  for (const Strides &tap : indices(kernel))
    for (const Strides &position : outputs) {
      int64_t element = 0;
      for (size_t dim = 0; dim < input.size() && element >= 0; ++dim) {
        int64_t x = position[dim] * op.getStrides()[dim] + tap[dim] * op.getDilations()[dim] -
                    op.getPadLow()[dim];
        element = x < 0 || x >= input[dim] ? -1 : element + x * strides[dim];
      }
      at.push_back(element);
    }
}

/// Calls `visit(input plane start, weight element, output plane start, tap)`
/// for every product of a plane of the input with an element of the weight.
template <typename Visit>
static void forEachProduct(ArrayRef<int64_t> input, ArrayRef<int64_t> weight, int64_t groups,
                           const Taps &taps, Visit visit) {
  int64_t outPerGroup = weight[0] / groups;
  for (int64_t n = 0; n < input[0]; ++n)
    for (int64_t o = 0; o < weight[0]; ++o)
      for (int64_t c = 0; c < weight[1]; ++c) {
        int64_t channel = o / outPerGroup * weight[1] + c;
        int64_t in = (n * input[1] + channel) * taps.inputPlane;
        int64_t out = (n * weight[0] + o) * taps.positions;
        for (int64_t tap = 0; tap < taps.taps; ++tap)
          visit(in, (o * weight[1] + c) * taps.taps + tap, out, tap);
      }
}

static Tensor evaluateKernel(ConvOp op, Operands operands) {
  Tensor result(op.getResult().getType());
  ArrayRef<int64_t> input = operands[0]->shape(), weight = operands[1]->shape();
  Taps taps(op, input.drop_front(2), weight.drop_front(2), result.shape().drop_front(2));
  const double *x = operands[0]->floats.data(), *w = operands[1]->floats.data();
  double *y = result.floats.data();
  forEachProduct(input, weight, op.getGroups(), taps,
                 [&](int64_t in, int64_t element, int64_t out, int64_t tap) {
                   const int64_t *at = taps.at.data() + tap * taps.positions;
                   for (int64_t p = 0; p < taps.positions; ++p)
                     if (at[p] >= 0)
                       y[out + p] += x[in + at[p]] * w[element];
                 });
  return result;
}

static Tensor evaluateKernel(ConvInputGradOp op, Operands operands) {
  Tensor result(op.getResult().getType());
  ArrayRef<int64_t> grad = operands[0]->shape(), weight = operands[1]->shape();
  Taps taps(op, result.shape().drop_front(2), weight.drop_front(2), grad.drop_front(2));
  const double *dy = operands[0]->floats.data(), *w = operands[1]->floats.data();
  double *dx = result.floats.data();
  forEachProduct(result.shape(), weight, op.getGroups(), taps,
                 [&](int64_t in, int64_t element, int64_t out, int64_t tap) {
                   const int64_t *at = taps.at.data() + tap * taps.positions;
                   for (int64_t p = 0; p < taps.positions; ++p)
                     if (at[p] >= 0)
                       dx[in + at[p]] += dy[out + p] * w[element];
                 });
  return result;
}

static Tensor evaluateKernel(ConvWeightGradOp op, Operands operands) {
  Tensor result(op.getResult().getType());
  ArrayRef<int64_t> input = operands[0]->shape(), grad = operands[1]->shape();
  Taps taps(op, input.drop_front(2), result.shape().drop_front(2), grad.drop_front(2));
  const double *x = operands[0]->floats.data(), *dy = operands[1]->floats.data();
  double *dw = result.floats.data();
  forEachProduct(input, result.shape(), op.getGroups(), taps,
                 [&](int64_t in, int64_t element, int64_t out, int64_t tap) {
                   const int64_t *at = taps.at.data() + tap * taps.positions;
                   double sum = 0;
                   for (int64_t p = 0; p < taps.positions; ++p)
                     if (at[p] >= 0)
                       sum += x[in + at[p]] * dy[out + p];
                   dw[element] += sum;
                 });
  return result;
}

/// The first maximal element of each window, -1 for one of padding alone.
/// A NaN is larger than any number.
static int64_t firstMaximum(const Taps &taps, const double *plane, int64_t position) {
  int64_t best = -1;
  for (int64_t tap = 0; tap < taps.taps; ++tap) {
    int64_t at = taps.at[tap * taps.positions + position];
    if (at < 0)
      continue;
    bool isLarger = best < 0 || plane[at] > plane[best] ||
                    (std::isnan(plane[at]) && !std::isnan(plane[best]));
    if (isLarger)
      best = at;
  }
  return best;
}

/// Calls `visit(input position, output position)` with every window's maximum.
template <typename Visit>
static void forEachMaximum(const Tensor &input, const Taps &taps, Visit visit) {
  int64_t planes = input.shape()[0] * input.shape()[1];
  for (int64_t plane = 0; plane < planes; ++plane) {
    const double *x = input.floats.data() + plane * taps.inputPlane;
    for (int64_t p = 0; p < taps.positions; ++p) {
      int64_t best = firstMaximum(taps, x, p);
      visit(best < 0 ? -1 : plane * taps.inputPlane + best, plane * taps.positions + p);
    }
  }
}

static Tensor evaluateKernel(MaxPoolOp op, Operands operands) {
  Tensor result(op.getResult().getType());
  const Tensor &input = *operands[0];
  fillNeutral(ReduceKind::Max, result);
  Taps taps(op, input.shape().drop_front(2), op.getKernel(), result.shape().drop_front(2));
  forEachMaximum(input, taps, [&](int64_t in, int64_t out) {
    if (in >= 0)
      result.floats[out] = input.floats[in];
  });
  return result;
}

static Tensor evaluateKernel(MaxPoolGradOp op, Operands operands) {
  Tensor result(op.getResult().getType());
  const Tensor &input = *operands[0], &grad = *operands[1];
  Taps taps(op, input.shape().drop_front(2), op.getKernel(), grad.shape().drop_front(2));
  forEachMaximum(input, taps, [&](int64_t in, int64_t out) {
    if (in >= 0)
      result.floats[in] += grad.floats[out];
  });
  return result;
}

void addVisionKernels(KernelTable &table) {
  table.add<ConvOp>(evaluateKernel);
  table.add<ConvInputGradOp>(evaluateKernel);
  table.add<ConvWeightGradOp>(evaluateKernel);
  table.add<MaxPoolOp>(evaluateKernel);
  table.add<MaxPoolGradOp>(evaluateKernel);
}

} // namespace dtc::interpreter
