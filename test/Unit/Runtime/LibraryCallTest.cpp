// Products and convolutions of the library against plain loops.
#include "RunProgram.h"

#include "dtc-cpu/LibraryCalls.h"

#include <random>

using dtc::ErrorCategory;
using namespace dtc::rt;
using namespace dtc::rt::test;

namespace {

constexpr uint64_t kScratch = 1 << 20, kArena = 64 << 20;

/// A view of `shape` whose dimensions lie in memory in the order `order`, outermost first.
Dims stridesOf(const Dims &shape, const std::vector<int> &order) {
  Dims strides(shape.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= shape[order[i]];
  }
  return strides;
}

struct View {
  Dims shape, strides;
  fbs::DType dtype = fbs::DType::F32;
  uint64_t offset = 0;

  char *at(char *arena, const Dims &index) const {
    int64_t place = 0;
    for (size_t i = 0; i < index.size(); ++i)
      place += (shape[i] == 1 ? 0 : index[i]) * strides[i];
    return arena + offset + place * sizeOf(static_cast<DType>(dtype));
  }
  double get(char *arena, const Dims &index) const {
    double value;
    convert(DType::F64, reinterpret_cast<char *>(&value), static_cast<DType>(dtype),
            at(arena, index), 1);
    return value;
  }
  void set(char *arena, const Dims &index, double value) const {
    convert(static_cast<DType>(dtype), at(arena, index), DType::F64,
            reinterpret_cast<const char *>(&value), 1);
  }
  std::unique_ptr<fbs::TensorT> tensor() const { return tensorAt(offset, shape, strides, dtype); }
};

void forEachIndex(const Dims &shape, std::function<void(const Dims &)> visit) {
  Dims index(shape.size(), 0);
  for (int64_t i = 0, count = product(shape); i < count; ++i) {
    visit(index);
    for (size_t dim = shape.size(); dim-- > 0 && ++index[dim] == shape[dim];)
      index[dim] = 0;
  }
}

void fillRandom(const View &view, char *arena, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  forEachIndex(view.shape, [&](const Dims &index) { view.set(arena, index, uniform(generator)); });
}

double tolerance(fbs::DType dtype) { return dtype == fbs::DType::BF16 ? 2e-2 : 2e-5; }

struct Product {
  View a, b, c;
  int threads = 1;
};

void checkProduct(Product p) {
  p.a.offset = 2 << 20;
  p.b.offset = 4 << 20;
  p.c.offset = 6 << 20;
  Json manifest = emptyManifest();
  manifest["threads_per_rank"] = p.threads;
  fbs::ProgramT program = emptyProgram(manifest, kArena);
  fbs::MatmulT op;
  op.a = p.a.tensor();
  op.b = p.b.tensor();
  op.c = p.c.tensor();
  op.scratch = std::make_unique<fbs::Ref>(stepRef(8 << 20));
  op.scratch_bytes = kScratch * 32;
  addInstruction(program, std::move(op));
  std::vector<char> before(kArena);
  auto fill = [&](int, char *arena) {
    fillRandom(p.a, arena, 1);
    fillRandom(p.b, arena, 2);
    fillRandom(p.c, arena, 3);
    std::memcpy(before.data(), arena, kArena);
  };
  auto check = [&](int, const char *after) {
    char *arena = const_cast<char *>(after);
    size_t rank = p.c.shape.size();
    int64_t k = p.a.shape[rank - 1];
    forEachIndex(p.c.shape, [&](const Dims &index) {
      double sum = 0;
      Dims inA = index, inB = index;
      for (int64_t i = 0; i < k; ++i) {
        inA[rank - 1] = inB[rank - 2] = i;
        sum += p.a.get(arena, inA) * p.b.get(arena, inB);
      }
      ASSERT_NEAR(p.c.get(arena, index), sum, tolerance(p.c.dtype) * (1 + std::abs(sum)));
    });
    EXPECT_EQ(std::memcmp(before.data() + p.a.offset, after + p.a.offset, 4 << 20), 0);
  };
  Status status = runProgram(program, manifest, fill, check);
  EXPECT_TRUE(status.isOk()) << status.message();
}

View plain(Dims shape, fbs::DType dtype = fbs::DType::F32) {
  std::vector<int> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = static_cast<int>(i);
  return {shape, stridesOf(shape, order), dtype};
}
View ordered(Dims shape, std::vector<int> order, fbs::DType dtype = fbs::DType::F32) {
  return {shape, stridesOf(shape, order), dtype};
}

struct Convolution {
  View input, weight, output;
  Dims strides, low, high, dilations;
  int64_t groups = 1;
};

/// Adds f(input index, weight index, output index) over all products of a convolution.
void forEachTap(const Convolution &conv,
                std::function<void(const Dims &, const Dims &, const Dims &)> visit) {
  size_t spatial = conv.strides.size();
  int64_t perGroup = conv.weight.shape[0] / conv.groups;
  forEachIndex(conv.output.shape, [&](const Dims &out) {
    Dims taps(conv.weight.shape.begin() + 1, conv.weight.shape.end());
    forEachIndex(taps, [&](const Dims &tap) {
      Dims in = out, weight(tap.size() + 1);
      in[1] = out[1] / perGroup * conv.weight.shape[1] + tap[0];
      weight[0] = out[1];
      std::copy(tap.begin(), tap.end(), weight.begin() + 1);
      for (size_t i = 0; i < spatial; ++i) {
        in[i + 2] = out[i + 2] * conv.strides[i] + tap[i + 1] * conv.dilations[i] - conv.low[i];
        if (in[i + 2] < 0 || in[i + 2] >= conv.input.shape[i + 2])
          return;
      }
      visit(in, weight, out);
    });
  });
}

void checkConvolution(Convolution conv, fbs::ConvKind kind) {
  conv.input.offset = 2 << 20;
  conv.weight.offset = 4 << 20;
  conv.output.offset = 6 << 20;
  Json manifest = emptyManifest();
  fbs::ProgramT program = emptyProgram(manifest, kArena);
  fbs::ConvT op;
  op.kind = kind;
  op.input = conv.input.tensor();
  op.weight = conv.weight.tensor();
  op.output = conv.output.tensor();
  op.strides = conv.strides;
  op.pad_low = conv.low;
  op.pad_high = conv.high;
  op.dilations = conv.dilations;
  op.groups = conv.groups;
  op.scratch = std::make_unique<fbs::Ref>(stepRef(8 << 20));
  op.scratch_bytes = kScratch * 32;
  addInstruction(program, std::move(op));
  auto fill = [&](int, char *arena) {
    fillRandom(conv.input, arena, 1);
    fillRandom(conv.weight, arena, 2);
    fillRandom(conv.output, arena, 3);
  };
  auto check = [&](int, const char *after) {
    char *arena = const_cast<char *>(after);
    const View &result = kind == fbs::ConvKind::Forward     ? conv.output
                         : kind == fbs::ConvKind::InputGrad ? conv.input
                                                            : conv.weight;
    View wide = plain(result.shape, fbs::DType::F64);
    std::vector<double> sums(product(result.shape), 0.0);
    char *expected = reinterpret_cast<char *>(sums.data());
    forEachTap(conv, [&](const Dims &in, const Dims &weight, const Dims &out) {
      double x = conv.input.get(arena, in), w = conv.weight.get(arena, weight),
             y = conv.output.get(arena, out);
      if (kind == fbs::ConvKind::Forward)
        wide.set(expected, out, wide.get(expected, out) + x * w);
      else if (kind == fbs::ConvKind::InputGrad)
        wide.set(expected, in, wide.get(expected, in) + y * w);
      else
        wide.set(expected, weight, wide.get(expected, weight) + x * y);
    });
    forEachIndex(result.shape, [&](const Dims &index) {
      ASSERT_NEAR(result.get(arena, index), wide.get(expected, index),
                  tolerance(result.dtype) * (1 + std::abs(wide.get(expected, index))));
    });
  };
  Status status = runProgram(program, manifest, fill, check);
  EXPECT_TRUE(status.isOk()) << fbs::EnumNameConvKind(kind) << shapeText(conv.weight.shape) << ": "
                             << status.message();
}

void checkAllKinds(const Convolution &conv) {
  for (auto kind :
       {fbs::ConvKind::Forward, fbs::ConvKind::InputGrad, fbs::ConvKind::WeightGrad})
    checkConvolution(conv, kind);
}

/// oneDNN computes with bf16 where the processor has AVX-512.
bool hasHalfProducts() {
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
}

} // namespace

TEST(Matmul, PlainAndTransposed) {
  checkProduct({plain({17, 33}), plain({33, 9}), plain({17, 9})});
  checkProduct({ordered({17, 33}, {1, 0}), plain({33, 9}), plain({17, 9})});
  checkProduct({plain({17, 33}), ordered({33, 9}, {1, 0}), plain({17, 9})});
  checkProduct({plain({1, 33}), plain({33, 9}), plain({1, 9})});
  checkProduct({plain({17, 1}), plain({1, 9}), plain({17, 9})});
}

TEST(Matmul, PartOfALargerMatrix) {
  View b = plain({33, 9});
  b.strides = {27, 1}; // nine columns of 27
  checkProduct({plain({17, 33}), b, plain({17, 9})});
  View c = plain({17, 9});
  c.strides = {40, 1};
  checkProduct({plain({17, 33}), plain({33, 9}), c});
}

TEST(Matmul, AttentionHeads) {
  // [b, h, s, e] where memory is [b, s, h, e]; scores = q * k^T, result = scores * v.
  Dims heads = {2, 4, 6, 8}, scores = {2, 4, 6, 6};
  View q = ordered(heads, {0, 2, 1, 3}), k = ordered({2, 4, 8, 6}, {0, 3, 1, 2});
  checkProduct({q, k, plain(scores)});
  checkProduct({plain(scores), q, ordered(heads, {0, 2, 1, 3})});
  // Within a fused [b, s, 3, h, e].
  View fused = q;
  fused.strides = {6 * 96, 8, 96, 1};
  checkProduct({plain(scores), fused, ordered(heads, {0, 2, 1, 3}), 2});
}

TEST(Matmul, BatchesThatRepeat) {
  View b = plain({1, 5, 6});
  checkProduct({plain({3, 4, 5}), b, plain({3, 4, 6})});
  View a = plain({2, 1, 4, 5});
  checkProduct({a, plain({2, 3, 5, 6}), plain({2, 3, 4, 6})});
}

TEST(Matmul, BFloat16) {
  if (!hasHalfProducts())
    GTEST_SKIP() << "oneDNN has no products of bf16 on this processor";
  auto half = fbs::DType::BF16;
  checkProduct({plain({16, 32}, half), plain({32, 24}, half), plain({16, 24}, half)});
  checkProduct({plain({16, 32}, half), plain({32, 24}, half), plain({16, 24})});
  checkProduct({ordered({16, 32}, {1, 0}, half), plain({32, 24}, half), plain({16, 24})});
}

TEST(Matmul, SeveralThreadsGiveTheSame) {
  checkProduct({plain({130, 70}), plain({70, 90}), plain({130, 90}), 3});
}

TEST(Convolution, Plain) {
  checkAllKinds({plain({2, 3, 8, 8}), plain({4, 3, 3, 3}), plain({2, 4, 8, 8}),
                 {1, 1}, {1, 1}, {1, 1}, {1, 1}});
}

TEST(Convolution, StridesPaddingDilation) {
  checkAllKinds({plain({2, 8, 9, 9}), plain({16, 8, 3, 3}), plain({2, 16, 5, 5}),
                 {2, 2}, {1, 1}, {1, 1}, {1, 1}});
  checkAllKinds({plain({1, 8, 8, 7}), plain({16, 8, 2, 3}), plain({1, 16, 7, 3}),
                 {1, 2}, {0, 1}, {0, 1}, {1, 2}});
  checkAllKinds({plain({1, 4, 6, 6}), plain({4, 4, 3, 3}), plain({1, 4, 5, 5}),
                 {1, 1}, {1, 0}, {0, 1}, {1, 1}});
}

TEST(Convolution, Groups) {
  checkAllKinds({plain({2, 8, 6, 6}), plain({8, 4, 3, 3}), plain({2, 8, 4, 4}),
                 {1, 1}, {0, 0}, {0, 0}, {1, 1}, 2});
  checkAllKinds({plain({2, 8, 6, 6}), plain({8, 1, 3, 3}), plain({2, 8, 6, 6}), // depthwise
                 {1, 1}, {1, 1}, {1, 1}, {1, 1}, 8});
}

TEST(Convolution, ChannelsLast) {
  std::vector<int> last = {0, 2, 3, 1};
  checkAllKinds({ordered({2, 16, 6, 6}, last), plain({16, 16, 3, 3}),
                 ordered({2, 16, 6, 6}, last), {1, 1}, {1, 1}, {1, 1}, {1, 1}});
}

TEST(Convolution, BFloat16) {
  if (!hasHalfProducts())
    GTEST_SKIP() << "oneDNN has no products of bf16 on this processor";
  auto half = fbs::DType::BF16;
  View input = plain({2, 16, 6, 6}, half), weight = plain({32, 16, 3, 3}, half),
       output = plain({2, 32, 6, 6}, half);
  checkAllKinds({input, weight, output, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
  // Gradients of weights are summed in f32.
  checkConvolution({input, plain({32, 16, 3, 3}), output, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
                   fbs::ConvKind::WeightGrad);
  // Few channels, as at the first layer.
  checkAllKinds({plain({2, 3, 8, 8}, half), plain({8, 3, 3, 3}, half), plain({2, 8, 4, 4}, half),
                 {2, 2}, {1, 1}, {1, 1}, {1, 1}});
}

TEST(Convolution, OneDimension) {
  checkAllKinds({plain({2, 4, 16}), plain({8, 4, 5}), plain({2, 8, 16}), {1}, {2}, {2}, {1}});
}

TEST(LibraryCall, TooLittleScratchDoesntFit) {
  Json manifest = emptyManifest();
  fbs::ProgramT program = emptyProgram(manifest, kArena);
  auto half = fbs::DType::F32;
  fbs::ConvT op;
  Convolution conv{plain({2, 16, 32, 32}, half), plain({16, 16, 3, 3}, half),
                   plain({2, 16, 32, 32}, half), {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  op.kind = fbs::ConvKind::WeightGrad;
  op.input = conv.input.tensor();
  op.weight = conv.weight.tensor();
  op.output = conv.output.tensor();
  op.strides = op.pad_low = op.pad_high = op.dilations = {1, 1};
  op.groups = 1;
  addInstruction(program, std::move(op));
  Status status = runProgram(program, manifest, [](int, char *) {}, [](int, const char *) {});
  EXPECT_EQ(status.category(), ErrorCategory::NoFit) << status.message();
  EXPECT_NE(status.message().find("scratch"), std::string::npos);
}
