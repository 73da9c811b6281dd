#include "WideCopies.h"

#include "dtc/Plan/Plan/KernelParts.h"

#include <algorithm>

namespace dtc::plan {
namespace {

class WideCopies {
public:
  WideCopies(const Problem &problem, const ProblemFacts &facts, OpId id,
             const sharding::OpSharding &choice, const sharding::Mesh &mesh, LocalWork &work)
      : problem(problem), facts(facts), id(id), op(problem.ops[id]), choice(choice), mesh(mesh),
        work(work) {}

  void addProduct() {
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (isHalf(op.operands[i]))
        addOperand(i);
    addResults();
  }

  /// Queries, keys and values are kept for the backward pass. There the gradient of what was made
  /// meets probabilities, which are in f32, and values. Gradients of scores, which are rounded,
  /// meet keys and queries.
  void addAttention() {
    constexpr size_t copied = 3, gradient = 5;
    for (size_t i = 0; i < copied; ++i)
      addPass(bytesOfOperand(i));
    if (op.backward && op.operands.size() > gradient) {
      const double scores = op.scratch * localShare(choice, mesh);
      const double halves = double(byteSize(DType::BF16)) / double(byteSize(DType::F32));
      for (int product = 0; product < 2; ++product) {
        addPass(bytesOfOperand(gradient));
        addPass(scores * halves);
      }
    }
    addResults();
  }

private:
  bool isHalf(ValueId value) const {
    const DType type = problem.values[value].type;
    return type == DType::BF16 || type == DType::F16;
  }
  double bytesOfOperand(size_t i) const {
    return double(localBytes(problem.values[op.operands[i]], op.rule->operands[i], choice, mesh));
  }

  /// A kernel has a tensor in half precision and in f32: it reads one and writes the other.
  void addPass(double halfBytes) {
    ++work.passes;
    work.passedBytes += 3 * halfBytes;
  }

  /// What a value is a view of.
  ValueId viewed(ValueId value) const {
    while (facts.producer[value] >= 0 && facts.consumers[value].size() == 1) {
      const Op &made = problem.ops[facts.producer[value]];
      if (made.operands.size() != 1 || (made.kind != OpKind::View && made.kind != OpKind::Reindex))
        break;
      value = made.operands[0];
    }
    return value;
  }

  /// The product reads 4 bytes an element. So the only kernel that has the value writes as many.
  void addOperand(size_t i) {
    const double bytes = bytesOfOperand(i);
    work.bytes += bytes;
    const ValueId base = viewed(op.operands[i]);
    const OpId producer = facts.producer[base];
    const bool isMadeForIt = producer >= 0 && facts.consumers[base].size() == 1 &&
                             !facts.isResult[base] && !isInLibraryCall(problem.ops[producer]);
    if (isMadeForIt)
      work.passedBytes += bytes;
    else
      addPass(bytes);
  }

  /// Whether a value has the elements of another one several times, perhaps cast.
  bool isRepeated(ValueId value) const {
    const OpId producer = facts.producer[value];
    if (producer < 0 || problem.ops[producer].operands.size() != 1)
      return false;
    const ValueId from = problem.ops[producer].operands[0];
    const int64_t elements = problem.values[value].elements();
    return problem.values[from].elements() < elements ||
           (problem.ops[producer].kind == OpKind::Elementwise && isRepeated(from));
  }

  /// The only reader's result, if that is cheap arithmetic on a value, as a bias is; or -1.
  ValueId cheapResult(ValueId value) const {
    if (facts.consumers[value].size() != 1 || facts.isResult[value])
      return -1;
    const Op &reader = problem.ops[facts.consumers[value][0]];
    const bool isCheap = reader.kind == OpKind::Elementwise && reader.results.size() == 1 &&
                         std::ranges::all_of(reader.operands, [&](ValueId operand) {
                           return operand == value || isRepeated(operand);
                         });
    return isCheap ? reader.results[0] : -1;
  }

  /// Whether what needs the result comes behind another product (WidenProducts.cpp).
  bool isReadLate(ValueId value) const {
    for (ValueId next = cheapResult(value); next >= 0; next = cheapResult(value))
      value = next;
    OpId nextProduct = id + 1;
    while (nextProduct < static_cast<OpId>(problem.ops.size()) &&
           !isInLibraryCall(problem.ops[nextProduct]))
      ++nextProduct;
    const std::vector<OpId> &readers = facts.consumers[value];
    const bool isStored = facts.isResult[value] ||
                          (readers.size() > 1 && std::ranges::any_of(readers, [&](OpId reader) {
                             return isInLibraryCall(problem.ops[reader]);
                           }));
    return !isStored && !readers.empty() && readers.back() > nextProduct;
  }

  void addResults() {
    for (size_t i = 0; i < op.results.size(); ++i) {
      const ValueId result = op.results[i];
      if (!isHalf(result))
        continue;
      const auto bytes =
          double(localBytes(problem.values[result], op.rule->results[i], choice, mesh));
      work.bytes += bytes;
      if (facts.consumers[result].size() == 1 && !facts.isResult[result] && !isReadLate(result))
        work.passedBytes += bytes; // its reader takes 4 bytes an element
      else
        addPass(bytes);
    }
  }

  const Problem &problem;
  const ProblemFacts &facts;
  const OpId id;
  const Op &op;
  const sharding::OpSharding &choice;
  const sharding::Mesh &mesh;
  LocalWork &work;
};

} // namespace

void addWideCopies(const Problem &problem, const ProblemFacts &facts, OpId id,
                   const sharding::OpSharding &choice, const sharding::Mesh &mesh,
                   LocalWork &work) {
  work.type = DType::F32;
  WideCopies copies(problem, facts, id, choice, mesh, work);
  if (problem.ops[id].kind == OpKind::Attention)
    copies.addAttention();
  else
    copies.addProduct();
}

} // namespace dtc::plan
