#include "Emulator/Cudnn/GraphValues.h"

#include "Emulator/Device/Fault.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace dtc::emulator {

using namespace dtc::cuda;

namespace {

using Index = std::array<int64_t, 4>;

/// Places of elements in dense order.
struct Shape {
  explicit Shape(const CudnnTensor &tensor) { std::copy_n(tensor.dims.begin(), 4, dims.begin()); }
  int64_t at(const Index &index) const {
    int64_t place = 0;
    for (size_t i = 0; i < 4; ++i)
      place = place * dims[i] + (dims[i] == 1 ? 0 : index[i]);
    return place;
  }
  Index dims;
};

template <typename Visit> void forEach(const Index &dims, Visit &&visit) {
  Index at;
  for (at[0] = 0; at[0] < dims[0]; ++at[0])
    for (at[1] = 0; at[1] < dims[1]; ++at[1])
      for (at[2] = 0; at[2] < dims[2]; ++at[2])
        for (at[3] = 0; at[3] < dims[3]; ++at[3])
          visit(at);
}

} // namespace

void GraphValues::put(const CudnnTensor &tensor, Numbers numbers) {
  if (!tensor.isInteger)
    for (double &number : numbers)
      number = rounded(number, tensor.kind);
  values[tensor.id] = std::move(numbers);
}

const GraphValues::Numbers &GraphValues::of(const CudnnTensor &tensor) {
  if (tensor.isOfHost)
    values[tensor.id] = {call.hostNumbers.at(tensor.id)};
  return values.at(tensor.id);
}

void GraphValues::compute(const GraphStep &step) {
  switch (step.kind) {
  case GraphStep::Kind::Pointwise:
    return put(step.output, pointwise(step));
  case GraphStep::Kind::Product:
    return put(step.output, product(step));
  case GraphStep::Kind::Reduction:
    return put(step.output, reduction(step));
  case GraphStep::Kind::Reshape:
    return put(step.output, reshape(step));
  }
}

GraphValues::Numbers GraphValues::pointwise(const GraphStep &step) {
  const PointwiseMode &mode = pointwiseMode(step.mode);
  Numbers result;
  std::vector<const Numbers *> numbers;
  std::vector<Shape> shapes;
  for (const CudnnTensor &input : step.inputs) {
    numbers.push_back(&of(input));
    shapes.emplace_back(input);
  }
  forEach(Shape(step.output).dims, [&](const Index &at) {
    std::array<double, 3> in = {};
    for (size_t i = 0; i < numbers.size(); ++i)
      in[i] = (*numbers[i])[shapes[i].at(at)];
    result.push_back(mode.apply ? mode.apply(in.data()) : static_cast<double>(at[step.axis]));
  });
  return result;
}

/// Heads of the second operand are shared by neighbours of the first.
GraphValues::Numbers GraphValues::product(const GraphStep &step) {
  const Numbers &a = of(step.inputs[0]), &b = of(step.inputs[1]);
  Shape left(step.inputs[0]), right(step.inputs[1]);
  int64_t inner = left.dims[3], shared = left.dims[1] / right.dims[1], columns = right.dims[3];
  Numbers result;
  forEach(Shape(step.output).dims, [&](const Index &at) {
    const double *row = &a[left.at({at[0], at[1], at[2], 0})];
    const double *column = &b[right.at({at[0], at[1] / shared, 0, at[3]})];
    double sum = 0;
    for (int64_t k = 0; k < inner; ++k)
      sum += row[k] * column[k * columns];
    result.push_back(sum);
  });
  return result;
}

GraphValues::Numbers GraphValues::reduction(const GraphStep &step) {
  Shape from(step.inputs[0]), to(step.output);
  bool isMax = step.reduction == CUDNN_REDUCE_TENSOR_MAX;
  const Numbers &input = of(step.inputs[0]);
  Numbers result(step.output.elements(), isMax ? -std::numeric_limits<double>::infinity() : 0.0);
  size_t number = 0;
  forEach(from.dims, [&](Index at) {
    for (size_t dim = 0; dim < 4; ++dim)
      at[dim] /= from.dims[dim] / to.dims[dim];
    double &sum = result[to.at(at)], value = input[number++];
    sum = isMax ? std::max(sum, value) : sum + value;
  });
  return result;
}

/// Another view of the same places.
GraphValues::Numbers GraphValues::reshape(const GraphStep &step) {
  auto placeOf = [](const CudnnTensor &tensor, const Index &at) {
    int64_t place = 0;
    for (size_t dim = 0; dim < 4; ++dim)
      place += at[dim] * tensor.strides[dim];
    return place;
  };
  const CudnnTensor &from = step.inputs[0];
  const Numbers &input = of(from);
  Numbers places(from.extent() / bytesOf(from.kind)), result;
  size_t number = 0;
  forEach(Shape(from).dims, [&](const Index &at) { places[placeOf(from, at)] = input[number++]; });
  forEach(Shape(step.output).dims,
          [&](const Index &at) { result.push_back(places.at(placeOf(step.output, at))); });
  return result;
}

} // namespace dtc::emulator
