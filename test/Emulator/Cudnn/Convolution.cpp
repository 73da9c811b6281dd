// Computes convolutions on emulated memory.
#include "Emulator/Cudnn/Operation.h"
#include "Emulator/Device/DeviceMemory.h"

#include <algorithm>
#include <array>

namespace dtc::emulator {

using namespace dtc::cuda;

namespace {

/// Batch, channels and three spatial dimensions, of which the first may be missing.
using Shape = std::array<int64_t, 5>;

Shape shapeOf(const std::vector<int64_t> &dims) {
  Shape shape = {dims[0], dims[1], 1, 1, 1};
  std::copy(dims.begin() + 2, dims.end(), shape.end() - (dims.size() - 2));
  return shape;
}

/// Of windows: what a missing dimension has.
std::array<int64_t, 3> windowOf(const std::vector<int64_t> &values, int64_t missing) {
  std::array<int64_t, 3> window = {missing, missing, missing};
  std::copy(values.begin(), values.end(), window.end() - values.size());
  return window;
}

/// The loops over all products of an element of the weight with a row of the input or output.
class Loops {
public:
  Loops(const Convolution &convolution, double *input, double *weight, double *output)
      : kind(convolution.kind), input(input), weight(weight), output(output),
        x(shapeOf(convolution.input.dims)), w(shapeOf(convolution.weight.dims)),
        y(shapeOf(convolution.output.dims)), strides(windowOf(convolution.strides, 1)),
        pads(windowOf(convolution.pre, 0)), dilations(windowOf(convolution.dilations, 1)) {}

  void run() {
    int64_t perGroup = y[1] / (x[1] / w[1]);
    for (int64_t n = 0; n < y[0]; ++n)
      for (int64_t o = 0; o < y[1]; ++o)
        for (int64_t c = 0; c < w[1]; ++c)
          channel(n, o, c, o / perGroup * w[1] + c);
  }

private:
  void channel(int64_t n, int64_t o, int64_t c, int64_t inputChannel) {
    for (int64_t i = 0; i < w[2]; ++i)
      for (int64_t j = 0; j < w[3]; ++j)
        for (int64_t k = 0; k < w[4]; ++k) {
          double *factor = weight + (((o * w[1] + c) * w[2] + i) * w[3] + j) * w[4] + k;
          for (int64_t d = 0; d < y[2]; ++d)
            for (int64_t h = 0; h < y[3]; ++h) {
              int64_t z = place(0, d, i), v = place(1, h, j);
              if (z < 0 || z >= x[2] || v < 0 || v >= x[3])
                continue;
              row(factor, input + (((n * x[1] + inputChannel) * x[2] + z) * x[3] + v) * x[4],
                  output + (((n * y[1] + o) * y[2] + d) * y[3] + h) * y[4], k);
            }
        }
  }

  int64_t place(int dim, int64_t out, int64_t kernel) const {
    return out * strides[dim] - pads[dim] + kernel * dilations[dim];
  }

  void row(double *factor, double *in, double *out, int64_t k) const {
    for (int64_t i = 0; i < y[4]; ++i) {
      int64_t at = place(2, i, k);
      if (at < 0 || at >= x[4])
        continue;
      if (kind == ConvKind::Forward)
        out[i] += *factor * in[at];
      else if (kind == ConvKind::BackwardData)
        in[at] += *factor * out[i];
      else
        *factor += in[at] * out[i];
    }
  }

  ConvKind kind;
  double *input, *weight, *output;
  Shape x, w, y;
  std::array<int64_t, 3> strides, pads, dilations;
};

} // namespace

const CudnnTensor &Convolution::result() const {
  return kind == ConvKind::Forward ? output : kind == ConvKind::BackwardData ? input : weight;
}

void Convolution::check() const {
  size_t rank = strides.size() + 2;
  std::string shapes = input.text() + " with " + weight.text() + " to " + output.text();
  require(rank == 4 || rank == 5, "a convolution has two or three spatial dimensions");
  if (weight.kind != input.kind || output.kind != input.kind)
    throw Fault(CUDNN_STATUS_NOT_SUPPORTED, "cuDNN has no engine for several types of elements");
  for (const CudnnTensor *tensor : {&input, &weight, &output}) {
    require(tensor->dims.size() == rank && tensor->strides.size() == rank,
            "a tensor's rank differs from that of its convolution: ", shapes);
    for (int64_t dim : tensor->dims)
      require(dim > 0, "a tensor is empty: ", shapes);
    require(tensor->extent() == tensor->elements() * uint64_t(bytesOf(tensor->kind)),
            "the emulator takes dense tensors alone");
  }
  require(pre.size() + 2 == rank && post == pre && dilations.size() + 2 == rank,
          "paddings and dilations differ from the convolution's dimensions, or from each other");
  require(input.dims[0] == output.dims[0] && weight.dims[0] == output.dims[1] &&
              input.dims[1] % weight.dims[1] == 0 &&
              output.dims[1] % (input.dims[1] / weight.dims[1]) == 0,
          "channels or batches don't fit: ", shapes);
  for (size_t dim = 0; dim < strides.size(); ++dim) {
    int64_t window = (weight.dims[dim + 2] - 1) * dilations[dim] + 1;
    int64_t rest = input.dims[dim + 2] + pre[dim] + post[dim] - window;
    require(rest >= 0 && rest / strides[dim] + 1 == output.dims[dim + 2],
            "windows don't fit: ", shapes);
  }
}

uint64_t Convolution::workspaceBytes() const {
  return input.extent() + weight.extent() + output.extent();
}

std::string Convolution::text() const {
  return "convolution " + input.text() + " with " + weight.text();
}

Accesses Convolution::run(const CudnnCall &call, const DeviceMemory &memory) const {
  std::array<const CudnnTensor *, 3> all = {&input, &weight, &output};
  std::array<std::vector<double>, 3> values;
  std::vector<double> before; // what the result is added to
  Accesses accesses;
  size_t made = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    uint64_t address = call.addresses.at(all[i]->id);
    memory.translate(address, all[i]->extent());
    if (all[i] == &result()) {
      made = i;
      values[i].assign(all[i]->elements(), 0);
      all[i]->addTo(accesses.writes, address);
      if (beta != 0) {
        before = loadDense(*all[i], address, memory);
        all[i]->addTo(accesses.reads, address);
      }
      continue;
    }
    values[i] = loadDense(*all[i], address, memory);
    if (call.roundsToTF32 && input.kind == FloatKind::F32)
      for (double &number : values[i])
        number = roundToTF32(static_cast<float>(number));
    all[i]->addTo(accesses.reads, address);
  }
  overwriteWorkspace(call, memory, accesses);
  Loops(*this, values[0].data(), values[1].data(), values[2].data()).run();
  for (double &number : values[made])
    number *= alpha;
  for (size_t i = 0; i < before.size(); ++i)
    values[made][i] += beta * before[i];
  storeDense(result(), values[made], call.addresses.at(result().id), memory);
  sortByAddress(accesses);
  return accesses;
}

} // namespace dtc::emulator
