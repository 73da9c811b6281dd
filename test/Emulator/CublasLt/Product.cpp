#include "Emulator/CublasLt/Descriptions.h"

#include "Emulator/Device/DeviceMemory.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dtc::emulator {

using namespace dtc::cuda;

namespace {

double load(const std::byte *place, cudaDataType_t type) { return loadFloat(place, kindOf(type)); }

void store(std::byte *place, cudaDataType_t type, double value) {
  storeFloat(place, kindOf(type), value);
}

/// Adds the bytes of a matrix's batch, run by run.
void note(std::vector<Range> &ranges, uint64_t address, const MatrixLayout &layout, int batch) {
  unsigned bytes = bytesOf(layout.type);
  for (uint64_t run = 0; run < layout.runs(); ++run) {
    uint64_t begin =
        address + (uint64_t(batch) * layout.batchStride + run * layout.leading) * bytes;
    append(ranges, {begin, begin + layout.runLength() * bytes});
  }
}

/// Copies op(X) of one batch into dense rows.
template <typename T>
std::vector<T> dense(uint64_t address, const MatrixLayout &layout, bool isTransposed, int batch,
                     uint64_t rows, uint64_t columns, const DeviceMemory &memory) {
  std::vector<T> result(rows * columns);
  unsigned bytes = bytesOf(layout.type);
  const std::byte *first =
      memory.hostAddress(address) + uint64_t(batch) * layout.batchStride * bytes;
  for (uint64_t i = 0; i < rows; ++i)
    for (uint64_t j = 0; j < columns; ++j) {
      uint64_t at = isTransposed ? layout.index(j, i) : layout.index(i, j);
      result[i * columns + j] = static_cast<T>(load(first + at * bytes, layout.type));
    }
  return result;
}

double rounded(double value, cudaDataType_t type) {
  std::byte place[sizeof(double)];
  store(place, type, value);
  return load(place, type);
}

/// In blocks of rows that stay in the cache. The innermost loop runs along a row, in vectors.
template <typename T>
std::vector<T> multiply(const std::vector<T> &a, const std::vector<T> &b, uint64_t m, uint64_t n,
                        uint64_t k, const Product &product) {
  const SumOrder order = product.order;
  const uint64_t block = std::max<uint64_t>(1, 32768 / sizeof(T) / std::max<uint64_t>(n, 1));
  std::vector<T> sums(m * n, T(0));
  for (uint64_t first = 0; first < m; first += block)
    for (uint64_t step = 0; step < k; ++step) {
      const uint64_t p = order == SumOrder::Forward    ? step
                         : order == SumOrder::Backward ? k - 1 - step
                                                       : (step + k / 2) % k;
      const T *row = b.data() + p * n;
      for (uint64_t i = first; i < std::min(first + block, m); ++i) {
        T factor = a[i * k + p];
        T *sum = sums.data() + i * n;
        if (product.roundsParts && step == k / 2)
          std::transform(sum, sum + n, sum, [&](T part) {
            return static_cast<T>(rounded(part, product.problem.d.type));
          });
        for (uint64_t j = 0; j < n; ++j)
          sum[j] += factor * row[j];
      }
    }
  return sums;
}

/// GELU as cuBLASLt has it, by way of tanh.
double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

double geluGrad(double x) {
  constexpr double kScale = 0.7978845608028654, kCube = 0.044715;
  double t = std::tanh(kScale * (x + kCube * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kScale * (1 + 3 * kCube * x * x);
}

/// What becomes of a sum on the way to D. Biases and GELU's input are of D's type.
double finish(const Product &product, double sum, uint64_t row, uint64_t column,
              const DeviceMemory &memory) {
  const MatmulDescription &description = product.problem.description;
  cudaDataType_t type = product.problem.d.type;
  if (description.appliesBias())
    sum += load(memory.hostAddress(description.bias + row * bytesOf(type)), type);
  if (description.usesAux()) {
    uint64_t at = product.problem.auxLayout().index(row, column) * bytesOf(type);
    std::byte *place = memory.hostAddress(description.aux + at);
    if (description.multipliesGeluGrad())
      return sum * geluGrad(load(place, type));
    store(place, type, sum);
  }
  return description.has(CUBLASLT_EPILOGUE_GELU) ? gelu(sum) : sum;
}

/// Sums over k of the rows of op(A), or of the columns of op(B): gradients of biases.
template <typename T>
void sumOperand(const Product &product, const std::vector<T> &a, const std::vector<T> &b,
                const DeviceMemory &memory) {
  const MatmulProblem &problem = product.problem;
  uint64_t n = problem.n(), k = problem.k();
  cudaDataType_t type = product.problem.d.type;
  for (uint64_t i = 0; i < problem.vectorLength(); ++i) {
    T sum = 0;
    for (uint64_t p = 0; p < k; ++p)
      sum += product.problem.description.sumsA() ? a[i * k + p] : b[p * n + i];
    store(memory.hostAddress(product.problem.description.bias + i * bytesOf(type)), type, sum);
  }
}

template <typename T> void runBatch(const Product &product, int batch, const DeviceMemory &memory) {
  const MatmulProblem &problem = product.problem;
  uint64_t m = problem.m(), n = problem.n(), k = problem.k();
  auto a = dense<T>(product.a, product.problem.a, product.problem.description.a == CUBLAS_OP_T,
                    batch, m, k, memory);
  auto b = dense<T>(product.b, product.problem.b, product.problem.description.b == CUBLAS_OP_T,
                    batch, k, n, memory);
  if (product.problem.description.sumsA() || product.problem.description.sumsB())
    sumOperand(product, a, b, memory);
  if (product.problem.description.compute == CUBLAS_COMPUTE_32F_FAST_TF32)
    for (std::vector<T> *operand : {&a, &b})
      for (T &number : *operand)
        number = roundToTF32(static_cast<float>(number));
  std::vector<T> sums = multiply(a, b, m, n, k, product);
  const MatrixLayout &c = product.problem.c, &d = product.problem.d;
  const std::byte *old =
      memory.hostAddress(product.c) + uint64_t(batch) * c.batchStride * bytesOf(c.type);
  std::byte *result =
      memory.hostAddress(product.d) + uint64_t(batch) * d.batchStride * bytesOf(d.type);
  for (uint64_t i = 0; i < m; ++i)
    for (uint64_t j = 0; j < n; ++j) {
      double value = product.alpha * sums[i * n + j];
      if (product.beta != 0)
        value += product.beta * load(old + c.index(i, j) * bytesOf(c.type), c.type);
      store(result + d.index(i, j) * bytesOf(d.type), d.type, finish(product, value, i, j, memory));
    }
}

Accesses accessesOf(const Product &product) {
  Accesses accesses;
  for (int batch = 0; batch < product.problem.d.batches; ++batch) {
    note(accesses.reads, product.a, product.problem.a, batch);
    note(accesses.reads, product.b, product.problem.b, batch);
    if (product.beta != 0)
      note(accesses.reads, product.c, product.problem.c, batch);
    note(accesses.writes, product.d, product.problem.d, batch);
  }
  const MatmulDescription &description = product.problem.description;
  if (description.usesVector()) {
    uint64_t bytes = product.problem.vectorLength() * bytesOf(product.problem.d.type);
    (description.appliesBias() ? accesses.reads : accesses.writes)
        .push_back({description.bias, description.bias + bytes});
  }
  if (description.usesAux())
    note(description.writesAux() ? accesses.writes : accesses.reads, description.aux,
         product.problem.auxLayout(), 0);
  if (product.workspaceBytes > 0)
    accesses.writes.push_back({product.workspace, product.workspace + product.workspaceBytes});
  // Batches may share a matrix, or lie in any order.
  sortAndJoin(accesses.reads);
  sortAndJoin(accesses.writes);
  return accesses;
}

} // namespace

Accesses runProduct(const Product &product, const DeviceMemory &memory) {
  Accesses accesses = accessesOf(product);
  for (const Range &range : accesses.reads)
    memory.translate(range.begin, range.end - range.begin);
  for (const Range &range : accesses.writes)
    memory.translate(range.begin, range.end - range.begin);
  // Whatever else lies in the workspace is lost, as with a true library.
  if (product.workspaceBytes > 0)
    std::memset(memory.hostAddress(product.workspace), 0xff, product.workspaceBytes);
  for (int batch = 0; batch < product.problem.d.batches; ++batch)
    product.problem.a.type == CUDA_R_64F ? runBatch<double>(product, batch, memory)
                                         : runBatch<float>(product, batch, memory);
  return accesses;
}

} // namespace dtc::emulator
