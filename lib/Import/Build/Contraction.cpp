#include "dtc/Import/Build/Contraction.h"

#include "dtc/Import/Build/Indices.h"
#include "dtc/Import/Unsupported.h"

#include <map>

using namespace mlir;

namespace dtc::import {

FailureOr<Tensor> matmulTensors(Conversion &node, const Tensor &left, const Tensor &right) {
  const Shape lhs = left.shape(), rhs = right.shape();
  if (lhs.empty() || rhs.empty() || !isa<FloatType>(left.element()) ||
      left.element() != right.element())
    return LogicalResult(node.error() << "needs two float tensors of equal type");
  const int64_t k = rhs[rhs.size() < 2 ? 0 : rhs.size() - 2];
  Shape lhsLead(ArrayRef(lhs).drop_back(std::min<size_t>(lhs.size(), 2)));
  Shape rhsLead(ArrayRef(rhs).drop_back(std::min<size_t>(rhs.size(), 2)));
  if (lhs.back() != k || failed(broadcastShapes({lhsLead, rhsLead})))
    return LogicalResult(node.error() << "operands of shapes that do not fit: " << listed(lhs)
                                      << " and " << listed(rhs));
  return Tensor(matmul(node.emit, node.value(left), node.value(right)));
}

namespace {
/// Index numbers of an einsum: letters, and one number per dimension of an ellipsis.
class Equation {
public:
  /// Splits `text`; `ranks` are those of the operands. False where it is malformed.
  bool parse(StringRef text, ArrayRef<int64_t> ranks) {
    std::string packed;
    for (char c : text)
      if (c != ' ')
        packed += c;
    auto [inputs, output] = StringRef(packed).split("->");
    SmallVector<StringRef> terms;
    inputs.split(terms, ',');
    if (terms.size() != ranks.size() || terms.size() > kMostOperands)
      return false;
    for (size_t i = 0; i < terms.size(); ++i) {
      const int64_t letters = llvm::count_if(terms[i], llvm::isAlpha);
      const bool dots = terms[i].contains("...");
      if (dots)
        ellipsis = std::max(ellipsis, ranks[i] - letters);
      if (ranks[i] < letters || (!dots && ranks[i] != letters))
        return false;
    }
    for (size_t i = 0; i < terms.size(); ++i) {
      const int64_t letters = llvm::count_if(terms[i], llvm::isAlpha);
      operands.emplace_back();
      if (!term(terms[i], ranks[i] - letters, operands.back()))
        return false;
    }
    if (StringRef(packed).contains("->"))
      return term(output, ellipsis, result) && !repeats(result);
    return implicitResult(inputs);
  }

  std::vector<Shape> operands;
  Shape result;

private:
  static constexpr int64_t kLetters = 256;
  static constexpr size_t kMostOperands = 64;

  static bool repeats(const Shape &indices) {
    return llvm::any_of(indices, [&](int64_t index) { return llvm::count(indices, index) > 1; });
  }

  bool term(StringRef text, int64_t dots, Shape &into) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (llvm::isAlpha(text[i])) {
        into.push_back(text[i]);
      } else if (text.substr(i).starts_with("...")) {
        for (int64_t k = ellipsis - dots; k < ellipsis; ++k)
          into.push_back(kLetters + k);
        i += 2;
      } else {
        return false;
      }
    }
    return true;
  }

  /// Without `->`: the ellipsis, then letters that appear once, alphabetically.
  bool implicitResult(StringRef inputs) {
    for (int64_t k = 0; k < ellipsis; ++k)
      result.push_back(kLetters + k);
    for (int c = 0; c < kLetters; ++c)
      if (llvm::isAlpha(c) && inputs.count(char(c)) == 1)
        result.push_back(c);
    return true;
  }

  int64_t ellipsis = 0;
};
} // namespace

/// Sums away the indices that nothing else needs.
static Value sumOut(Emitter &emit, Value value, Shape &indices, ArrayRef<int64_t> needed) {
  Shape dims, kept;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (llvm::is_contained(needed, indices[i]))
      kept.push_back(indices[i]);
    else
      dims.push_back(i);
  }
  indices = kept;
  return reduce(emit, graph::ReduceKind::Sum, value, dims);
}

/// Of each index that stands twice, the elements where both are equal.
static FailureOr<Value> diagonals(Conversion &node, Value value, Shape &indices) {
  for (size_t i = 0; i < indices.size(); ++i) {
    for (size_t j = i + 1; j < indices.size();) {
      if (indices[j] != indices[i]) {
        ++j;
        continue;
      }
      Shape perm;
      for (size_t d = 0; d < indices.size(); ++d)
        if (d != j)
          perm.push_back(d);
      perm.insert(perm.begin() + i + 1, j);
      value = transpose(node.emit, value, perm);
      Shape merged(tensorType(value).getShape());
      const int64_t size = merged[i];
      if (!fitsConstant(node.emit.getI64Type(), {size}))
        return LogicalResult(node.error() << "takes too large a diagonal: " << size);
      std::vector<int64_t> equal(size);
      for (int64_t k = 0; k < size; ++k)
        equal[k] = k * (size + 1);
      merged[i] *= size;
      merged.erase(merged.begin() + i + 1);
      Host at = HostTensor::ofInts(node.emit.getI64Type(), {size}, std::move(equal));
      value = gatherAtConstants(node.emit, reshape(node.emit, value, merged), *at, i);
      indices.erase(indices.begin() + j);
    }
  }
  return value;
}

/// Numbers indices from 0 without gaps, as dtc.contract wants them.
static Shape renumber(ArrayRef<int64_t> indices, Shape &seen) {
  Shape numbers;
  for (int64_t index : indices) {
    auto *found = llvm::find(seen, index);
    numbers.push_back(found - seen.begin());
    if (found == seen.end())
      seen.push_back(index);
  }
  return numbers;
}

static LogicalResult checkSizes(Conversion &node, ArrayRef<Tensor> operands, StringRef text,
                                const Equation &equation) {
  std::map<int64_t, int64_t> sizes;
  for (auto [operand, indices] : llvm::zip_equal(operands, equation.operands)) {
    const Shape shape = operand.shape();
    for (size_t d = 0; d < shape.size(); ++d)
      if (sizes.try_emplace(indices[d], shape[d]).first->second != shape[d])
        return node.error() << "gives one index two sizes: " << text;
  }
  for (int64_t index : equation.result)
    if (!sizes.contains(index))
      return node.error() << "has an index in its result only: " << text;
  return success();
}

FailureOr<Tensor> einsum(Conversion &node, StringRef text, ArrayRef<Tensor> operands) {
  Emitter &emit = node.emit;
  Equation equation;
  SmallVector<int64_t> ranks;
  for (const Tensor &operand : operands)
    ranks.push_back(operand.rank());
  if (!equation.parse(text, ranks) || ranks.empty() || !isa<FloatType>(operands[0].element()))
    return LogicalResult(unsupported(node.error()) << "has an unsupported equation: " << text);
  if (failed(checkSizes(node, operands, text, equation)))
    return failure();
  SmallVector<Value> values;
  for (auto [operand, indices] : llvm::zip_equal(operands, equation.operands)) {
    auto each = diagonals(node, node.value(operand), indices);
    if (failed(each))
      return failure();
    values.push_back(*each);
  }
  Value value = values[0];
  Shape indices = equation.operands[0];
  for (int i = 1; i < int(operands.size()); ++i) {
    Value other = values[i];
    Shape otherIndices = equation.operands[i], later = equation.result;
    for (int k = i + 1; k < int(operands.size()); ++k)
      later.append(equation.operands[k]);
    Shape needed = later, otherNeeded = later;
    needed.append(otherIndices);
    otherNeeded.append(indices);
    value = sumOut(emit, value, indices, needed);
    other = sumOut(emit, other, otherIndices, otherNeeded);
    Shape result;
    const bool lastOne = i + 1 == int(operands.size());
    for (int64_t index : lastOne ? equation.result : later)
      if ((llvm::is_contained(indices, index) || llvm::is_contained(otherIndices, index)) &&
          !llvm::is_contained(result, index))
        result.push_back(index);
    Shape seen;
    const Shape resultNumbers = renumber(result, seen), left = renumber(indices, seen),
                right = renumber(otherIndices, seen);
    value = contract(emit, value, left, other, right, resultNumbers);
    indices = result;
  }
  value = sumOut(emit, value, indices, equation.result);
  Shape perm;
  for (int64_t index : equation.result)
    perm.push_back(llvm::find(indices, index) - indices.begin());
  return Tensor(transpose(emit, value, perm));
}

} // namespace dtc::import
