// Attention as one call against plain loops: causal or not, with fewer queries than keys or as
// many, heads that share keys, and a bias or a window that hides some of them. Queries, keys and
// values may be parts of one tensor, and their gradients of another.
#include "Conformance.h"

#include "dtc-rt/Program/DType.h"

#include <cmath>
#include <optional>

using namespace dtc::rt;
using namespace dtc::rt::conformance;

namespace {

using Numbers = std::vector<double>;
constexpr int64_t kBatch = 2, kQueries = 3, kKeys = 5, kHeads = 4, kGroups = 2, kSize = 8;
constexpr double kScale = 0.25;
constexpr uint64_t kScratch = 1 << 20, kScratchBytes = 8 << 20, kArena = 16 << 20, kStep = 8192;
/// Of the largest number: probabilities and gradients of scores are rounded to bf16.
constexpr double kTolerance = 0.02;

constexpr size_t kStatistics = 4, kBias = 9;

enum class Bias {
  None,
  OfKeys,  ///< of fp32, of each sample and key, as a mask of padding: refused
  OfScores ///< of the operands' type, of each head, query and key, as NVIDIA's own tests have it
};

struct Form {
  Bias bias = Bias::None;
  int64_t window = 0; ///< 0: none
  bool causal = true;
  int64_t queries = kQueries;
  bool joined = false; ///< parts of one tensor, token by token; there are as many queries as keys
  bool turned = false; ///< statistics that lie query by query, and head by head within each
};

constexpr int64_t kJoinedHeads = kHeads + 2 * kGroups;

/// Query, key, value, output, statistics, the output's gradient, three gradients, and a bias.
std::vector<Dims> shapesOf(const Form &form) {
  const Dims query = {kBatch, form.queries, kHeads, kSize}, key = {kBatch, kKeys, kGroups, kSize};
  const Dims bias = form.bias == Bias::OfScores ? Dims{1, kHeads, form.queries, kKeys}
                                                : Dims{kBatch, 1, 1, kKeys};
  return {query, key, key, query, {kBatch, kHeads, form.queries}, query, query, key, key, bias};
}

fbs::DType typeAt(size_t tensor, const Form &form) {
  bool isWide = tensor == kStatistics || (tensor == kBias && form.bias != Bias::OfScores);
  return isWide ? fbs::DType::F32 : fbs::DType::BF16;
}

StridedTensor layoutAt(size_t tensor, const Form &form) {
  Dims shape = shapesOf(form)[tensor];
  StridedTensor layout{typeAt(tensor, form), shape, Dims(shape.size(), 1)};
  for (size_t i = layout.shape.size(); i-- > 1;)
    layout.strides[i - 1] = layout.strides[i] * layout.shape[i];
  return layout;
}

/// Which of the parts of a joined tensor it is: query, key or value, or the gradient of one.
std::optional<size_t> partAt(size_t tensor, const Form &form) {
  const size_t part = tensor < 3 ? tensor : tensor - 6;
  return form.joined && part < 3 ? std::optional(part) : std::nullopt;
}

/// As a call takes it. What is put and got is dense.
StridedTensor givenAt(size_t tensor, const Form &form) {
  StridedTensor layout = layoutAt(tensor, form);
  if (form.turned && tensor == kStatistics)
    layout.strides = {form.queries * kHeads, 1, kHeads};
  if (partAt(tensor, form)) {
    layout.strides[1] = kJoinedHeads * kSize;
    layout.strides[0] = kKeys * layout.strides[1];
  }
  return layout;
}

/// Elements of a token before its part.
int64_t firstOf(size_t part) { return part == 0 ? 0 : (kHeads + (part - 1) * kGroups) * kSize; }

uint64_t placeAt(size_t tensor, const Form &form) {
  std::optional<size_t> part = partAt(tensor, form);
  return part ? (tensor - *part) * kStep + 2 * firstOf(*part) : tensor * kStep;
}

size_t elementsAt(size_t tensor, const Form &form) {
  const Dims shape = shapesOf(form)[tensor];
  size_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

/// Eighths between -1 and 1, which bf16 has.
Numbers drawn(size_t tensor, const Form &form) {
  Numbers values(elementsAt(tensor, form));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = (double((i * 37 + tensor * 11) % 17) - 8) / 8;
  return values;
}

/// Elements as the floats that Rank moves.
std::vector<float> packed(const Numbers &values, fbs::DType type) {
  auto dtype = static_cast<DType>(type);
  std::vector<float> bytes((values.size() * sizeOf(dtype) + 3) / 4);
  convert(dtype, reinterpret_cast<char *>(bytes.data()), DType::F64,
          reinterpret_cast<const char *>(values.data()), static_cast<int64_t>(values.size()));
  return bytes;
}

Numbers unpacked(const std::vector<float> &bytes, size_t count, fbs::DType type) {
  Numbers values(count);
  convert(DType::F64, reinterpret_cast<char *>(values.data()), static_cast<DType>(type),
          reinterpret_cast<const char *>(bytes.data()), static_cast<int64_t>(count));
  return values;
}

/// All tensors, computed in fp64.
std::vector<Numbers> expectedTensors(const Form &form) {
  std::vector<Numbers> all;
  for (size_t i = 0; i <= kBias; ++i) {
    bool isGiven = i < 3 || i == 5 || (i == kBias && form.bias != Bias::None);
    all.push_back(isGiven ? drawn(i, form) : Numbers(elementsAt(i, form)));
  }
  auto queryAt = [&](int64_t b, int64_t s, int64_t h) {
    return ((b * form.queries + s) * kHeads + h) * kSize;
  };
  auto biasOf = [&](int64_t h, int64_t s, int64_t t) {
    return form.bias == Bias::OfScores ? all[kBias][(h * form.queries + s) * kKeys + t] : 0;
  };
  auto keyAt = [](int64_t b, int64_t t, int64_t h) {
    return ((b * kKeys + t) * kGroups + h / (kHeads / kGroups)) * kSize;
  };
  auto dot = [&](size_t a, int64_t i, size_t b, int64_t j) {
    double sum = 0;
    for (int64_t e = 0; e < kSize; ++e)
      sum += all[a][i + e] * all[b][j + e];
    return sum;
  };
  auto add = [&](size_t to, int64_t i, double factor, size_t from, int64_t j) {
    for (int64_t e = 0; e < kSize; ++e)
      all[to][i + e] += factor * all[from][j + e];
  };
  for (int64_t b = 0; b < kBatch; ++b)
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t s = 0; s < form.queries; ++s) {
        int64_t visible = form.causal ? s + kKeys - form.queries + 1 : kKeys, q = queryAt(b, s, h);
        int64_t first = form.window > 0 ? std::max<int64_t>(0, visible - form.window) : 0;
        Numbers p(visible);
        double total = 0;
        for (int64_t t = first; t < visible; ++t)
          total += p[t] = std::exp(kScale * dot(0, q, 1, keyAt(b, t, h)) + biasOf(h, s, t));
        for (int64_t t = first; t < visible; ++t)
          add(3, q, p[t] / total, 2, keyAt(b, t, h));
        all[kStatistics][(b * kHeads + h) * form.queries + s] = std::log(total);
        double inner = dot(5, q, 3, q);
        for (int64_t t = first; t < visible; ++t) {
          int64_t k = keyAt(b, t, h);
          double grad = kScale * p[t] / total * (dot(5, q, 2, k) - inner);
          add(6, q, grad, 1, k);
          add(7, k, grad, 0, q);
          add(8, k, p[t] / total, 5, q);
        }
      }
  return all;
}

/// The tensor that this one and the next two make up, token by token.
Numbers joinedAt(size_t first, const std::vector<Numbers> &all) {
  Numbers joined(kBatch * kKeys * kJoinedHeads * kSize);
  for (size_t part = 0; part < 3; ++part) {
    const Numbers &values = all[first + part];
    const int64_t width = (part == 0 ? kHeads : kGroups) * kSize;
    for (int64_t i = 0; i < int64_t(values.size()); ++i)
      joined[i / width * kJoinedHeads * kSize + firstOf(part) + i % width] = values[i];
  }
  return joined;
}

void expectNear(const Numbers &found, const Numbers &wanted, size_t tensor) {
  double largest = 0;
  for (double value : wanted)
    largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < wanted.size(); ++i)
    ASSERT_NEAR(found[i], wanted[i], kTolerance * largest) << "tensor " << tensor << ", " << i;
}

/// What lies at a tensor's step: it alone, or the tensor that it is a part of, with its first part.
struct Stored {
  size_t tensor;
  Numbers values;
};

std::vector<Stored> storedOf(std::initializer_list<size_t> tensors, const Form &form,
                             const std::vector<Numbers> &all) {
  std::vector<Stored> stored;
  for (size_t tensor : tensors)
    if (std::optional<size_t> part = partAt(tensor, form); !part)
      stored.push_back({tensor, all[tensor]});
    else if (*part == 0)
      stored.push_back({tensor, joinedAt(tensor, all)});
  return stored;
}

/// Forward, then backward.
Status attend(Rank &rank, const Form &form) {
  DTC_TRY(rank.begin({QueueKind::Compute}, kArena));
  std::vector<Numbers> wanted = expectedTensors(form);
  for (const Stored &given : storedOf({0, 1, 2, 5, kBias}, form, wanted))
    DTC_TRY(rank.put(given.tensor * kStep, packed(given.values, typeAt(given.tensor, form))));
  for (auto kind : {fbs::AttentionKind::Forward, fbs::AttentionKind::Backward}) {
    const bool isForward = kind == fbs::AttentionKind::Forward;
    AttentionCall call{kind, {}, kScale, form.causal, form.window};
    std::vector<uint64_t> places;
    auto give = [&](size_t tensor) {
      call.tensors.push_back(givenAt(tensor, form));
      places.push_back(placeAt(tensor, form));
    };
    for (size_t i = 0; i < (isForward ? 5 : 9); ++i)
      give(i);
    if (form.bias != Bias::None)
      give(kBias);
    places.push_back(kScratch);
    DTC_TRY(rank.issue(0, AttentionSpec{call, kScratchBytes}, places));
    DTC_TRY(rank.queue(0).synchronize());
    for (const auto &[tensor, values] :
         isForward ? storedOf({3, 4}, form, wanted) : storedOf({6, 7, 8}, form, wanted)) {
      const fbs::DType type = typeAt(tensor, form);
      std::vector<float> found = rank.get(tensor * kStep, packed(values, type).size());
      expectNear(unpacked(found, values.size(), type), values, tensor);
    }
  }
  return Status::ok();
}

} // namespace

TEST_P(Conformance, AttentionForwardAndBackward) {
  if (!GetParam().hasAttention)
    GTEST_SKIP() << "the target decomposes attention when it compiles";
  onRanks(1, [](Rank &rank) { return attend(rank, {}); });
}

/// Each of these on its own, so that a device that lacks some says which.
#define DTC_ATTENTION_TEST(name, ...)                                                              \
  TEST_P(Conformance, name) {                                                                      \
    if (!GetParam().hasAttention)                                                                  \
      GTEST_SKIP() << "the target decomposes attention when it compiles";                          \
    onRanks(1, [](Rank &rank) { return attend(rank, __VA_ARGS__); });                              \
  }

DTC_ATTENTION_TEST(AttentionWithBiasOfScores, {.bias = Bias::OfScores, .causal = false})
DTC_ATTENTION_TEST(CausalAttentionWithBiasOfScores, {.bias = Bias::OfScores, .queries = kKeys})
DTC_ATTENTION_TEST(AttentionOfJoinedTensors, {.queries = kKeys, .joined = true})

/// Of 5 keys the last query sees 1, 2 or 4; of 5 it sees all.
TEST_P(Conformance, AttentionInWindow) {
  if (!GetParam().hasAttention)
    GTEST_SKIP() << "the target decomposes attention when it compiles";
  for (int64_t window : {1, 2, 4, 5})
    onRanks(1, [&](Rank &rank) { return attend(rank, {.window = window}); });
}

/// cuDNN's planner takes some graphs whose results are known to be wrong.
static Status expectRefused(Rank &rank, const Form &form, const char *reason) {
  Status status = attend(rank, form);
  EXPECT_NE(status.message().find(reason), std::string::npos) << status.message();
  return Status::ok();
}

/// An H100 wrote zeros for gradients of the first, and an H200 wrong ones for those of the second.
/// The last was never run there.
TEST_P(Conformance, AttentionWithBiasOfAnotherFormIsRefused) {
  if (!GetParam().hasAttention)
    GTEST_SKIP() << "the target decomposes attention when it compiles";
  onRanks(1, [](Rank &rank) {
    return expectRefused(rank, {.bias = Bias::OfScores}, "fewer queries than keys");
  });
  onRanks(1, [](Rank &rank) {
    return expectRefused(rank, {.bias = Bias::OfKeys, .causal = false}, "with a bias but one of");
  });
  onRanks(1, [](Rank &rank) {
    return expectRefused(rank, {.bias = Bias::OfScores, .window = 2, .queries = kKeys},
                         "a bias and a window");
  });
}

/// NVIDIA's release notes and its frontend name these.
TEST_P(Conformance, AttentionThatCudnnHasWrongIsRefused) {
  if (!GetParam().hasAttention)
    GTEST_SKIP() << "the target decomposes attention when it compiles";
  onRanks(1, [](Rank &rank) {
    return expectRefused(rank, {.queries = 1}, "one query and a causal mask");
  });
  onRanks(1, [](Rank &rank) {
    return expectRefused(rank, {.turned = true}, "statistics don't follow each other");
  });
}
