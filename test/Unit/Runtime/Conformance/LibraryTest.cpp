// Products and convolutions against plain loops. The library's own shapes and types
// are tested with each target (LibraryCallTest for oneDNN).
#include "Conformance.h"

#include <bit>

using dtc::ErrorCategory;
using namespace dtc::rt;
using namespace dtc::rt::conformance;

namespace {

using Floats = std::vector<float>;
constexpr uint64_t kScratch = 1 << 20, kScratchBytes = 32 << 20, kArena = 48 << 20;

StridedTensor dense(Dims shape) {
  StridedTensor layout{fbs::DType::F32, shape, Dims(shape.size(), 1)};
  for (size_t i = shape.size(); i-- > 1;)
    layout.strides[i - 1] = layout.strides[i] * shape[i];
  return layout;
}

/// Small integers, whose sums of products are exact in any order.
Floats valuesOf(int64_t count) {
  Floats values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(i * 7 % 11 - 5);
  return values;
}

} // namespace

TEST_P(Conformance, MatmulTakesStridesAndRepeats) {
  // c[batch, m, n] = a[batch, m, k] * b[1, k, n], b being given transposed.
  constexpr int64_t kBatch = 2, kM = 3, kN = 4, kK = 5;
  for (auto kinds : {std::vector{QueueKind::Compute},
                     std::vector{QueueKind::Compute, QueueKind::Copy}})
    onRanks(1, [&](Rank &rank) {
      DTC_TRY(rank.begin(kinds, kArena));
      Floats a = valuesOf(kBatch * kM * kK), b = valuesOf(kN * kK);
      DTC_TRY(rank.put(0, a));
      DTC_TRY(rank.put(4096, b));
      MatmulCall call{dense({kBatch, kM, kK}), {fbs::DType::F32, {1, kK, kN}, {kK * kN, 1, kK}},
                      dense({kBatch, kM, kN})};
      DTC_TRY(rank.issue(0, MatmulSpec{call, kScratchBytes}, {0, 4096, 8192, kScratch}));
      DTC_TRY(rank.synchronizeAll());
      Floats c = rank.get(8192, kBatch * kM * kN);
      for (int64_t row = 0; row < kBatch * kM; ++row)
        for (int64_t n = 0; n < kN; ++n) {
          float sum = 0;
          for (int64_t k = 0; k < kK; ++k)
            sum += a[row * kK + k] * b[n * kK + k];
          EXPECT_EQ(c[row * kN + n], sum);
        }
      return Status::ok();
    }, 2);
}

/// A long sum of small integers, which a library may divide among blocks. Its parts are no numbers
/// of bf16, where they would be off by eight and more.
TEST_P(Conformance, PartsOfSumsAreNotRoundedToBf16) {
  if (!GetParam().hasAttention)
    GTEST_SKIP() << "the target multiplies halves as floats when it compiles";
  constexpr int64_t kRows = 8, kK = 32 * 2047;
  constexpr uint64_t kB = 4 << 20, kC = 8 << 20, kFrom = 12 << 20;
  auto packed = [](const std::vector<int> &values) { // two in a float
    Floats pairs;
    auto bits = [&](size_t i) { return std::bit_cast<uint32_t>(float(values[i])) >> 16; };
    for (size_t i = 0; i < values.size(); i += 2)
      pairs.push_back(std::bit_cast<float>(bits(i) | bits(i + 1) << 16));
    return pairs;
  };
  std::vector<int> terms(kRows * kK);
  for (int64_t i = 0; i < kRows * kK; ++i)
    terms[i] = i % kK < kK / 2 ? 1 : i % kK == kK - 1 ? 0 : -1; // their sum is 1
  onRanks(1, [&](Rank &rank) {
    DTC_TRY(rank.begin({QueueKind::Compute}, kArena));
    DTC_TRY(rank.put(0, packed(terms)));
    DTC_TRY(rank.put(kB, packed(std::vector<int>(kRows * kK, 1))));
    auto matrix = [](int64_t rows, int64_t columns) {
      return StridedTensor{fbs::DType::BF16, {rows, columns}, {columns, 1}};
    };
    MatmulCall call{matrix(kRows, kK), matrix(kK, kRows), matrix(kRows, kRows)};
    DTC_TRY(rank.issue(0, MatmulSpec{call, kScratchBytes}, {0, kB, kC, kFrom}));
    DTC_TRY(rank.queue(0).synchronize());
    EXPECT_EQ(rank.get(kC, kRows * kRows / 2), packed(std::vector<int>(kRows * kRows, 1)));
    return Status::ok();
  });
}

TEST_P(Conformance, ConvolutionForwardAndBackward) {
  if (!GetParam().hasConvolutions)
    GTEST_SKIP() << "the target refuses convolutions when it compiles";
  constexpr int64_t kC = 2, kO = 3, kW = 6, kK = 3; // one dimension, padded by 1 at each end
  onRanks(1, [&](Rank &rank) {
    DTC_TRY(rank.begin({QueueKind::Compute}, kArena));
    Floats input = valuesOf(kC * kW), weight = valuesOf(kO * kC * kK), output = valuesOf(kO * kW);
    Floats expected[3] = {Floats(kO * kW), Floats(kC * kW), Floats(kO * kC * kK)};
    for (int64_t o = 0; o < kO; ++o)
      for (int64_t c = 0; c < kC; ++c)
        for (int64_t k = 0; k < kK; ++k)
          for (int64_t x = 0; x < kW; ++x)
            if (int64_t in = x + k - 1; in >= 0 && in < kW) {
              int64_t atIn = c * kW + in, atWeight = (o * kC + c) * kK + k, atOut = o * kW + x;
              expected[0][atOut] += input[atIn] * weight[atWeight];
              expected[1][atIn] += output[atOut] * weight[atWeight];
              expected[2][atWeight] += output[atOut] * input[atIn];
            }
    uint64_t places[] = {0, 4096, 8192}, results[] = {8192, 0, 4096};
    for (auto kind : {fbs::ConvKind::Forward, fbs::ConvKind::InputGrad, fbs::ConvKind::WeightGrad}) {
      DTC_TRY(rank.put(places[0], input));
      DTC_TRY(rank.put(places[1], weight));
      DTC_TRY(rank.put(places[2], output));
      ConvCall call{kind, dense({1, kC, kW}), dense({kO, kC, kK}), dense({1, kO, kW}),
                    {1}, {1}, {1}, {1}, 1};
      DTC_TRY(rank.issue(0, ConvSpec{call, kScratchBytes}, {0, 4096, 8192, kScratch}));
      DTC_TRY(rank.queue(0).synchronize());
      const Floats &wanted = expected[static_cast<int>(kind)];
      Floats found = rank.get(results[static_cast<int>(kind)], wanted.size());
      for (size_t i = 0; i < wanted.size(); ++i)
        EXPECT_NEAR(found[i], wanted[i], 1e-3) << static_cast<int>(kind) << " " << i;
    }
    return Status::ok();
  });
}

/// In place, and from elsewhere.
TEST_P(Conformance, AddendsOfConvolutions) {
  if (!GetParam().hasConvolutions)
    GTEST_SKIP() << "the target refuses convolutions when it compiles";
  constexpr int64_t kC = 2, kO = 3, kW = 6, kK = 3;
  constexpr uint64_t kWeight = 4096, kOther = 12288;
  onRanks(1, [&](Rank &rank) {
    DTC_TRY(rank.begin({QueueKind::Compute}, kArena));
    for (uint64_t place : {kWeight, kOther}) {
      Floats input = valuesOf(kC * kW), output = valuesOf(kO * kW), added = valuesOf(kO * kC * kK),
             wanted = added;
      for (int64_t o = 0; o < kO; ++o)
        for (int64_t c = 0; c < kC; ++c)
          for (int64_t k = 0; k < kK; ++k)
            for (int64_t x = 0; x < kW; ++x)
              if (int64_t in = x + k - 1; in >= 0 && in < kW)
                wanted[(o * kC + c) * kK + k] += output[o * kW + x] * input[c * kW + in];
      DTC_TRY(rank.put(0, input));
      DTC_TRY(rank.put(8192, output));
      DTC_TRY(rank.put(place, added));
      ConvCall call{fbs::ConvKind::WeightGrad,
                    dense({1, kC, kW}),
                    dense({kO, kC, kK}),
                    dense({1, kO, kW}),
                    {1},
                    {1},
                    {1},
                    {1},
                    1,
                    /*hasAddend=*/true};
      Status done =
          rank.issue(0, ConvSpec{call, kScratchBytes}, {0, kWeight, 8192, place, kScratch});
      if (!GetParam().hasEpilogues) {
        EXPECT_EQ(done.category(), ErrorCategory::NoFit);
        continue;
      }
      DTC_TRY(std::move(done));
      DTC_TRY(rank.queue(0).synchronize());
      Floats found = rank.get(kWeight, wanted.size());
      for (size_t i = 0; i < wanted.size(); ++i)
        EXPECT_NEAR(found[i], wanted[i], 1e-3) << place << " " << i;
    }
    return Status::ok();
  });
}

TEST_P(Conformance, TooLittleScratchDoesNotFit) {
  onRanks(1, [&](Rank &rank) {
    DTC_TRY(rank.begin({QueueKind::Compute}));
    ConvCall call{fbs::ConvKind::WeightGrad, dense({2, 16, 30, 30}), dense({32, 16, 3, 3}),
                  dense({2, 32, 28, 28}), {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1};
    auto made = rank.device.prepare(rank.queue(0), ConvSpec{call, 0}, "conv");
    if (!made) // a device that needs none has nothing to refuse
      EXPECT_EQ(made.status().category(), ErrorCategory::NoFit) << made.status().message();
    return Status::ok();
  });
}
