// What products do besides multiplying.
#include "Conformance.h"

#include <cmath>

namespace dtc::rt::conformance {
namespace {

using Floats = std::vector<float>;
using enum fbs::Epilogue;

/// Rows begin at multiples of 16 bytes, which cuBLASLt's epilogues want.
constexpr int64_t kM = 8, kN = 16, kK = 24;
constexpr uint64_t kArena = 1 << 20, kScratch = 1 << 19, kScratchBytes = 1 << 18;
constexpr uint64_t kA = 0, kB = 4096, kC = 12288, kVector = 16384, kMatrix = 20480;

Floats valuesOf(int64_t count, int step) {
  Floats values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(i * step % 11 - 5) / 4;
  return values;
}

double tanhOf(double x) { return std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)); }
double gelu(double x) { return 0.5 * x * (1 + tanhOf(x)); }
/// By a central difference.
double geluGrad(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

/// What a call reads, and what it should leave behind.
struct Example {
  fbs::Epilogue epilogue = None;
  bool hasMatrix = false;
  Floats a = valuesOf(kM * kK, 7), b = valuesOf(kK * kN, 3);
  Floats vector = valuesOf(kN, 5), matrix = valuesOf(kM * kN, 4);
  Floats c = Floats(kM * kN), vectorAfter = vector, matrixAfter = matrix;

  void compute() {
    for (int64_t i = 0; i < kM; ++i)
      for (int64_t j = 0; j < kN; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < kK; ++k)
          sum += double(a[i * kK + k]) * b[k * kN + j];
        c[i * kN + j] = static_cast<float>(finish(sum, i, j));
      }
    if (epilogue == SumA)
      for (int64_t i = 0; i < kM; ++i)
        vectorAfter[i] = sumOf([&](int64_t k) { return a[i * kK + k]; });
    if (epilogue == SumB)
      for (int64_t j = 0; j < kN; ++j)
        vectorAfter[j] = sumOf([&](int64_t k) { return b[k * kN + j]; });
  }

private:
  double finish(double sum, int64_t i, int64_t j) {
    if (epilogue == Bias || epilogue == BiasGelu)
      sum += vector[j];
    if (epilogue == GeluGrad)
      return sum * geluGrad(matrix[i * kN + j]);
    if (epilogue != Gelu && epilogue != BiasGelu)
      return sum;
    if (hasMatrix)
      matrixAfter[i * kN + j] = static_cast<float>(sum);
    return gelu(sum);
  }
  template <typename Term> float sumOf(Term &&term) {
    double sum = 0;
    for (int64_t k = 0; k < kK; ++k)
      sum += term(k);
    return static_cast<float>(sum);
  }
};

void expectNear(const Floats &found, const Floats &wanted, const char *what) {
  for (size_t i = 0; i < wanted.size(); ++i)
    EXPECT_NEAR(found[i], wanted[i], 1e-4) << what << " " << i;
}

Status check(Rank &rank, Example example) {
  example.compute();
  DTC_TRY(rank.put(kA, example.a));
  DTC_TRY(rank.put(kB, example.b));
  DTC_TRY(rank.put(kVector, example.vector));
  DTC_TRY(rank.put(kMatrix, example.matrix));
  auto dense = [](int64_t rows, int64_t columns) {
    return StridedTensor{fbs::DType::F32, {rows, columns}, {columns, 1}};
  };
  MatmulCall call{dense(kM, kK), dense(kK, kN), dense(kM, kN), example.epilogue, example.hasMatrix};
  std::vector<uint64_t> places = {kA, kB, kC};
  if (hasVector(example.epilogue))
    places.push_back(kVector);
  if (example.hasMatrix)
    places.push_back(kMatrix);
  places.push_back(kScratch);
  DTC_TRY(rank.issue(0, MatmulSpec{call, kScratchBytes}, places));
  DTC_TRY(rank.queue(0).synchronize());
  expectNear(rank.get(kC, kM * kN), example.c, "c");
  expectNear(rank.get(kVector, kN), example.vectorAfter, "vector");
  expectNear(rank.get(kMatrix, kM * kN), example.matrixAfter, "matrix");
  return Status::ok();
}

} // namespace

TEST_P(Conformance, EpiloguesOfProducts) {
  onRanks(1, [&](Rank &rank) {
    DTC_TRY(rank.begin({QueueKind::Compute}, kArena));
    const std::pair<fbs::Epilogue, bool> kinds[] = {
        {Bias, false},    {Gelu, false},    {Gelu, true},  {BiasGelu, false},
        {BiasGelu, true}, {GeluGrad, true}, {SumA, false}, {SumB, false}};
    for (auto [epilogue, hasMatrix] : kinds) {
      SCOPED_TRACE(fbs::EnumNameEpilogue(epilogue));
      Status done = check(rank, {epilogue, hasMatrix});
      if (GetParam().hasEpilogues)
        EXPECT_TRUE(done.isOk()) << done.message();
      else
        EXPECT_EQ(done.category(), ErrorCategory::NoFit);
    }
    return Status::ok();
  });
}

/// In place, and from elsewhere; beside a sum, and for a batch whose results lie transposed.
TEST_P(Conformance, AddendsOfProducts) {
  constexpr int64_t kBatch = 3, kSize = kM * kN;
  constexpr uint64_t kAddend = 32768;
  onRanks(1, [&](Rank &rank) {
    DTC_TRY(rank.begin({QueueKind::Compute}, kArena));
    for (auto [epilogue, place] : {std::pair(None, kAddend), {None, kC}, {SumB, kC}}) {
      const int64_t batch = epilogue == None ? kBatch : 1;
      const Dims strides = epilogue == None ? Dims{kSize, 1, kM} : Dims{kSize, kN, 1};
      auto tensor = [&](int64_t rows, int64_t columns, const Dims &of) {
        StridedTensor made{fbs::DType::F32, {batch, rows, columns}, of};
        if (epilogue != None) { // which has no batch
          made.shape.erase(made.shape.begin());
          made.strides.erase(made.strides.begin());
        }
        return made;
      };
      MatmulCall call{tensor(kM, kK, {kM * kK, kK, 1}),
                      tensor(kK, kN, {kK * kN, kN, 1}),
                      tensor(kM, kN, strides),
                      epilogue,
                      false,
                      /*hasAddend=*/true};
      Floats a = valuesOf(batch * kM * kK, 7), b = valuesOf(batch * kK * kN, 3),
             added = valuesOf(batch * kSize, 5), wanted = added;
      for (int64_t n = 0; n < batch; ++n)
        for (int64_t i = 0; i < kM; ++i)
          for (int64_t j = 0; j < kN; ++j)
            for (int64_t k = 0; k < kK; ++k)
              wanted[n * strides[0] + i * strides[1] + j * strides[2]] +=
                  a[(n * kM + i) * kK + k] * b[(n * kK + k) * kN + j];
      DTC_TRY(rank.put(kA, a));
      DTC_TRY(rank.put(kB, b));
      DTC_TRY(rank.put(place, added));
      std::vector<uint64_t> places = {kA, kB, kC};
      if (epilogue != None)
        places.push_back(kVector);
      places.insert(places.end(), {place, kScratch});
      Status done = rank.issue(0, MatmulSpec{call, kScratchBytes}, places);
      if (!GetParam().hasEpilogues) {
        EXPECT_EQ(done.category(), ErrorCategory::NoFit);
        continue;
      }
      DTC_TRY(std::move(done));
      DTC_TRY(rank.queue(0).synchronize());
      expectNear(rank.get(kC, batch * kSize), wanted, "c");
    }
    return Status::ok();
  });
}

TEST_P(Conformance, EpiloguesOfBatchesAreRefused) {
  if (!GetParam().hasEpilogues)
    GTEST_SKIP() << "the target has no epilogues";
  onRanks(1, [&](Rank &rank) {
    DTC_TRY(rank.begin({QueueKind::Compute}, kArena));
    StridedTensor batched{fbs::DType::F32, {2, 8, 8}, {64, 8, 1}};
    MatmulCall call{batched, batched, batched, Bias, false};
    auto made = rank.device.prepare(rank.queue(0), MatmulSpec{call, kScratchBytes}, "product");
    EXPECT_FALSE(bool(made));
    return Status::ok();
  });
}

} // namespace dtc::rt::conformance
