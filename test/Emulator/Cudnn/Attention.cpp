#include "Emulator/Cudnn/Attention.h"

#include "Emulator/Device/DeviceMemory.h"
#include "Emulator/Device/Fault.h"
#include "dtc-cuda/Cudnn.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dtc::emulator {

using namespace dtc::cuda;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void require(bool condition, const std::string &message) {
  if (!condition)
    throw Fault(CUDNN_STATUS_BAD_PARAM, message);
}

void requireSupport(bool condition, const std::string &message) {
  if (!condition)
    throw Fault(CUDNN_STATUS_NOT_SUPPORTED, message);
}

using Numbers = std::vector<double>;

/// The loops over the rows of scores: those of one batch element and one head of the queries.
class Rows {
public:
  Rows(const Attention &attention, double scale)
      : heads(attention.query.dims[1]), keyHeads(attention.key.dims[1]),
        queries(attention.query.dims[2]), keys(attention.key.dims[2]),
        size(attention.query.dims[3]), valueSize(attention.value.dims[3]),
        kind(attention.query.kind), scale(scale), isCausal(attention.mask.has_value()),
        shift(attention.mask && attention.mask->keys ? keys - queries : 0) {}

  /// What a row reads of keys and values.
  int64_t keyBase(int64_t batch, int64_t head, int64_t width) const {
    return (batch * keyHeads + head / (heads / keyHeads)) * keys * width;
  }
  int64_t row(int64_t batch, int64_t head, int64_t query) const {
    return (batch * heads + head) * queries + query;
  }
  int64_t visible(int64_t query) const {
    return isCausal ? std::clamp(query + shift + 1, int64_t(0), keys) : keys;
  }

  Numbers scores(const Numbers &q, const Numbers &k, int64_t batch, int64_t head,
                 int64_t query) const {
    Numbers result(visible(query));
    const double *left = &q[row(batch, head, query) * size];
    for (size_t t = 0; t < result.size(); ++t)
      result[t] = scale * dot(left, &k[keyBase(batch, head, size) + t * size], size);
    return result;
  }

  static double dot(const double *a, const double *b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i)
      sum += a[i] * b[i];
    return sum;
  }
  static void add(double factor, const double *from, double *to, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      to[i] += factor * from[i];
  }

  int64_t heads, keyHeads, queries, keys, size, valueSize;
  FloatKind kind;
  double scale;
  bool isCausal;
  int64_t shift;
};

template <typename Visit> void forEachRow(const Rows &rows, int64_t batches, Visit &&visit) {
  for (int64_t batch = 0; batch < batches; ++batch)
    for (int64_t head = 0; head < rows.heads; ++head)
      for (int64_t query = 0; query < rows.queries; ++query)
        visit(batch, head, query);
}

void forwardRow(const Rows &rows, const Numbers &q, const Numbers &k, const Numbers &v,
                Numbers &output, Numbers &stats, int64_t batch, int64_t head, int64_t query) {
  Numbers scores = rows.scores(q, k, batch, head, query);
  int64_t row = rows.row(batch, head, query);
  if (scores.empty()) {
    stats[row] = -kInfinity;
    return;
  }
  double maximum = *std::ranges::max_element(scores), total = 0;
  double *out = &output[row * rows.valueSize];
  for (size_t t = 0; t < scores.size(); ++t) {
    double weight = std::exp(scores[t] - maximum);
    total += weight;
    Rows::add(rounded(weight, rows.kind),
              &v[rows.keyBase(batch, head, rows.valueSize) + t * rows.valueSize], out,
              rows.valueSize);
  }
  for (int64_t i = 0; i < rows.valueSize; ++i)
    out[i] /= total;
  stats[row] = maximum + std::log(total);
}

struct Backward {
  Numbers q, k, v, output, stats, outputGrad, queryGrad, keyGrad, valueGrad;
};

void backwardRow(const Rows &rows, Backward &all, int64_t batch, int64_t head, int64_t query) {
  Numbers scores = rows.scores(all.q, all.k, batch, head, query);
  int64_t row = rows.row(batch, head, query), width = rows.valueSize;
  const double *grad = &all.outputGrad[row * width];
  double inner = Rows::dot(grad, &all.output[row * width], width);
  for (size_t t = 0; t < scores.size(); ++t) {
    int64_t valueAt = rows.keyBase(batch, head, width) + t * width,
            keyAt = rows.keyBase(batch, head, rows.size) + t * rows.size;
    double p = std::exp(scores[t] - all.stats[row]);
    Rows::add(rounded(p, rows.kind), grad, &all.valueGrad[valueAt], width);
    double scoreGrad =
        rounded(p * (Rows::dot(grad, &all.v[valueAt], width) - inner) * rows.scale, rows.kind);
    Rows::add(scoreGrad, &all.k[keyAt], &all.queryGrad[row * rows.size], rows.size);
    Rows::add(scoreGrad, &all.q[row * rows.size], &all.keyGrad[keyAt], rows.size);
  }
}

void checkOperand(const CudnnTensor &tensor, const CudnnTensor &query) {
  constexpr int64_t kMultiple = 8, kMost = 128;
  int64_t size = tensor.dims[3];
  requireSupport(tensor.kind == query.kind &&
                     (query.kind == FloatKind::BF16 || query.kind == FloatKind::F16),
                 "cuDNN's attention takes operands of one type, bf16 or fp16");
  requireSupport(size % kMultiple == 0 && size <= kMost,
                 "cuDNN has no attention of heads of " + std::to_string(size));
  require(tensor.strides[3] == 1, "the elements of a head don't follow each other");
  for (int64_t stride : tensor.strides)
    requireSupport(stride == 1 || stride % kMultiple == 0, "a head doesn't begin at 16 bytes");
  require(tensor.alignment % 16 == 0, "a tensor of attention has to be aligned to 16 bytes");
}

} // namespace

std::vector<CudnnTensor> Attention::tensors() const {
  std::vector<CudnnTensor> all = {query, key, value, output, stats};
  if (isBackward)
    all.insert(all.end(), {outputGrad, queryGrad, keyGrad, valueGrad});
  if (scale)
    all.push_back(*scale);
  if (mask) {
    all.push_back(mask->fill);
    for (const std::optional<CudnnTensor> &number : {mask->keys, mask->queries})
      if (number)
        all.push_back(*number);
  }
  return all;
}

void Attention::check() const {
  std::string shapes = text();
  std::vector<const CudnnTensor *> operands = {&query, &key, &value, &output};
  if (isBackward)
    operands.insert(operands.end(), {&outputGrad, &queryGrad, &keyGrad, &valueGrad});
  for (const CudnnTensor *tensor : operands) {
    require(tensor->dims.size() == 4 && tensor->strides.size() == 4,
            "attention takes tensors of four dimensions: " + shapes);
    checkOperand(*tensor, query);
  }
  int64_t batch = query.dims[0], heads = query.dims[1], rows = query.dims[2];
  std::vector<int64_t> result = {batch, heads, rows, value.dims[3]};
  require(key.dims[0] == batch && key.dims[3] == query.dims[3] && heads % key.dims[1] == 0 &&
              value.dims[0] == batch && value.dims[1] == key.dims[1] &&
              value.dims[2] == key.dims[2] && output.dims == result,
          "operands of attention don't fit: " + shapes);
  require(!isBackward || (outputGrad.dims == result && queryGrad.dims == query.dims &&
                          keyGrad.dims == key.dims && valueGrad.dims == value.dims),
          "gradients of attention don't fit: " + shapes);
  require(stats.kind == FloatKind::F32 &&
              stats.dims == std::vector{batch, heads, rows, int64_t(1)} &&
              stats.strides == std::vector{heads * rows, rows, int64_t(1), int64_t(1)},
          "statistics of attention are dense, in fp32, and of one column");
  require(!scale || (scale->isOfHost && !scale->isInteger && scale->kind == FloatKind::F32),
          "the scale of attention is one number of the host in fp32");
  if (!mask)
    return;
  require(mask->dims == std::vector{batch, heads, rows, key.dims[2]},
          "the mask has other dimensions than the scores of " + shapes);
  require(mask->keys.has_value() == mask->queries.has_value(),
          "a diagonal from the end needs the numbers of queries and of keys");
  requireSupport(rows <= key.dims[2] || !mask->keys, "a diagonal that leaves rows empty");
}

uint64_t Attention::workspaceBytes() const {
  constexpr uint64_t kFixed = 256;
  if (!isBackward)
    return kFixed;
  uint64_t rows = query.dims[0] * query.dims[1] * query.dims[2];
  uint64_t bytes = kFixed + 4 * rows * (query.dims[3] + 1);
  if (query.dims[1] != key.dims[1])
    bytes += 2 * query.dims[0] * query.dims[1] * key.dims[2] * (query.dims[3] + value.dims[3]);
  return bytes;
}

std::string Attention::text() const {
  return std::string(isBackward ? "gradient of attention " : "attention ") + query.text() + " on " +
         key.text() + ", " + value.text();
}

void Attention::checkNumbers(const CudnnCall &call) const {
  if (!mask)
    return;
  require(call.hostNumbers.at(mask->fill.id) == -kInfinity, "masked scores aren't -infinity");
  require(!mask->keys || (call.hostNumbers.at(mask->keys->id) == key.dims[2] &&
                          call.hostNumbers.at(mask->queries->id) == query.dims[2]),
          "the numbers of queries and keys aren't those of the tensors");
}

Accesses Attention::run(const CudnnCall &call, const DeviceMemory &memory) const {
  Accesses accesses;
  auto load = [&](const CudnnTensor &tensor) {
    uint64_t address = call.addresses.at(tensor.id);
    memory.translate(address, tensor.extent());
    accesses.reads.push_back(tensor.at(address));
    return loadDense(tensor, address, memory);
  };
  auto store = [&](const CudnnTensor &tensor, const Numbers &values) {
    uint64_t address = call.addresses.at(tensor.id);
    memory.translate(address, tensor.extent());
    accesses.writes.push_back(tensor.at(address));
    storeDense(tensor, values, address, memory);
  };
  Rows rows(*this, scale ? call.hostNumbers.at(scale->id) : 1.0);
  if (!isBackward) {
    Numbers q = load(query), k = load(key), v = load(value), out(output.elements()),
            logs(stats.elements());
    overwriteWorkspace(call, memory, accesses);
    forEachRow(rows, query.dims[0], [&](int64_t batch, int64_t head, int64_t at) {
      forwardRow(rows, q, k, v, out, logs, batch, head, at);
    });
    store(output, out);
    store(stats, logs);
  } else {
    Backward all{load(query),
                 load(key),
                 load(value),
                 load(output),
                 load(stats),
                 load(outputGrad),
                 Numbers(query.elements()),
                 Numbers(key.elements()),
                 Numbers(value.elements())};
    overwriteWorkspace(call, memory, accesses);
    forEachRow(rows, query.dims[0], [&](int64_t batch, int64_t head, int64_t at) {
      backwardRow(rows, all, batch, head, at);
    });
    store(queryGrad, all.queryGrad);
    store(keyGrad, all.keyGrad);
    store(valueGrad, all.valueGrad);
  }
  sortByAddress(accesses);
  return accesses;
}

} // namespace dtc::emulator
