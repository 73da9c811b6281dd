#include "dtc/Plan/Plan/Quantize.h"

#include "dtc/Plan/Plan/KernelParts.h"

#include <algorithm>
#include <map>

namespace dtc::plan {

using sharding::FactorId;

namespace {

constexpr double kScaleBits = 32;       ///< of an fp32 scale
constexpr double kBlock = 64;           ///< weights of int4 with a scale
constexpr double kBlockScaleBits = 8;   ///< of such a scale
constexpr double kScalesOfAScale = 256; ///< that have an fp32 scale themselves
constexpr double kInt4Bits = 4 + kBlockScaleBits / kBlock + kScaleBits / (kBlock * kScalesOfAScale);

/// Who reads a frozen weight.
struct WeightReaders {
  OpId product = -1;   ///< the first of the forward pass
  size_t operand = 0;  ///< of it
  bool others = false; ///< not products alone
};

} // namespace

const char *describe(Quantization quantization) {
  switch (quantization) {
  case Quantization::Int8:
    return "int8 (8 bits a weight, an fp32 scale for each row of the result)";
  case Quantization::Int4:
    return "int4 (4.127 bits a weight with the scales of blocks of 64, as QLoRA)";
  case Quantization::None:
    break;
  }
  return "its type";
}

static bool isFrozenWeight(const Problem &problem, ValueId id) {
  const Value &value = problem.values[id];
  return value.kind == ValueKind::Parameter && !value.trainable && value.shape.size() > 1;
}

static bool isProduct(const Op &op) { return op.isGroupedProduct() || isMatrixProduct(op); }

static std::map<ValueId, WeightReaders> readersOfWeights(const Problem &problem) {
  std::map<ValueId, WeightReaders> result;
  for (OpId id = 0; id < static_cast<OpId>(problem.ops.size()); ++id) {
    const Op &op = problem.ops[id];
    for (size_t i = 0; i < op.operands.size(); ++i) {
      if (!isFrozenWeight(problem, op.operands[i]))
        continue;
      WeightReaders &readers = result[op.operands[i]];
      readers.others |= !isProduct(op);
      if (isProduct(op) && !op.backward && readers.product < 0)
        readers = {id, i, readers.others};
    }
  }
  return result;
}

/// How many rows of its result a product makes of a weight: elements of the weight's factors
/// that the result has, too.
static int64_t rowsOf(const Op &product, size_t operand) {
  int64_t rows = 1;
  for (const auto &dim : product.rule->operands[operand])
    for (FactorId factor : dim)
      for (const auto &made : product.rule->results[0])
        if (std::find(made.begin(), made.end(), factor) != made.end())
          rows *= product.rule->factors[factor].size;
  return rows;
}

int64_t quantizeFrozen(Problem &problem, Quantization quantization) {
  if (quantization == Quantization::None)
    return 0;
  std::map<ValueId, WeightReaders> weights = readersOfWeights(problem);
  OpId head = -1;
  for (const auto &[id, readers] : weights)
    head = std::max(head, readers.product);
  int64_t elements = 0;
  for (const auto &[id, readers] : weights) {
    if (readers.others || readers.product < 0 || readers.product == head)
      continue;
    Value &value = problem.values[id];
    double scales =
        double(rowsOf(problem.ops[readers.product], readers.operand)) / double(value.elements());
    value.storedBits = quantization == Quantization::Int4 ? kInt4Bits : 8 + kScaleBits * scales;
    elements += value.elements();
  }
  return elements;
}

} // namespace dtc::plan
