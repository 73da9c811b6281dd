// What ops move as dtc's own programs on GPUs compute them: in kernels that several ops share, and
// beside a library's products.
#include "dtc/Plan/Cost/OpWork.h"

#include "dtc/Plan/Cost/AttentionForm.h"
#include "dtc/Plan/Plan/KernelParts.h"

#include <algorithm>

namespace dtc::plan {

using sharding::Mesh;
using sharding::OpSharding;

bool OpWork::isInProduct(OpId id) const { return isOwn() && isMadeWithProduct(problem, facts, id); }

/// Of an op that a library computes while it makes a product. The result of a sum or of a gradient
/// takes the product's place, and the other operand is read. GELU and sums have another result.
double OpWork::bytesBesideProduct(OpId id, const OpSharding &choice, const Mesh &mesh) const {
  const Op &op = problem.ops[id];
  if (op.operands.size() == 1)
    return double(localBytes(problem.values[op.results[0]], op.rule->results[0], choice, mesh));
  auto isProduct = [&](ValueId value) {
    OpId producer = facts.producer[value];
    while (producer >= 0 && problem.ops[producer].kind == OpKind::View)
      producer = facts.producer[problem.ops[producer].operands[0]];
    return producer >= 0 && problem.ops[producer].kind == OpKind::Contraction;
  };
  double bytes = 0;
  for (size_t i = 0; i < op.operands.size(); ++i)
    if (ValueId operand = op.operands[i]; !isProduct(operand) && !isParameter(operand))
      bytes += double(localBytes(problem.values[operand], op.rule->operands[i], choice, mesh));
  return bytes;
}

bool OpWork::isOwn() const { return model.isOwnProgram(); }

/// Of an operand or result in memory, where dtc's own programs have some of half precision in f32.
double OpWork::heldBytes(ValueId value, const sharding::TensorFactors &factors,
                         const OpSharding &choice, const Mesh &mesh) const {
  const auto bytes = double(localBytes(problem.values[value], factors, choice, mesh));
  const OpId producer = facts.producer[value];
  const bool isWide = isOwn() && producer >= 0 && problem.ops[producer].widened &&
                      problem.ops[producer].kind == OpKind::Reduction;
  return isWide
             ? bytes * double(byteSize(DType::F32)) / double(byteSize(problem.values[value].type))
             : bytes;
}

/// Of what an op adds to its kernels. Of a larger tensor a view's kernel reads that part alone.
double OpWork::countedBytes(OpId id, const OpSharding &choice, const Mesh &mesh) const {
  const Op &op = problem.ops[id];
  const KernelPart &part = facts.kernelParts[id];
  double bytes = 0;
  for (size_t i = 0; i < op.results.size(); ++i)
    bytes += part.writes[i] * heldBytes(op.results[i], op.rule->results[i], choice, mesh);
  for (size_t i = 0; i < op.operands.size(); ++i) {
    double whole = heldBytes(op.operands[i], op.rule->operands[i], choice, mesh);
    if (op.kind == OpKind::Reindex)
      whole = std::min(whole, double(localBytes(problem.values[op.results[0]], op.rule->results[0],
                                                choice, mesh)));
    bytes += part.reads[i] * whole;
  }
  return bytes;
}

/// The library writes the narrow result, which a kernel reads. That kernel writes the wide one, if
/// nothing else of the kernel reads it.
void OpWork::addWidening(OpId id, const OpSharding &choice, const Mesh &mesh,
                         LocalWork &work) const {
  const Op &op = problem.ops[id];
  const Value &wide = problem.values[op.results[0]];
  const auto wideBytes = double(localBytes(wide, op.rule->results[0], choice, mesh));
  const double narrowBytes = wideBytes * double(byteSize(problem.values[op.operands[0]].type)) /
                             double(byteSize(wide.type));
  const KernelPart &part = facts.kernelParts[id];
  work.bytes += narrowBytes - wideBytes;
  work.passes = part.launches;
  work.passedBytes = narrowBytes + part.writes[0] * wideBytes;
}

/// Bytes of the rows of a table to which a sum by index adds.
double OpWork::rowsAdded(OpId id, const OpSharding &choice, const Mesh &mesh) const {
  const Op &op = problem.ops[id];
  const Value &table = problem.values[op.results[0]], &rows = problem.values[op.operands.back()];
  return double(localBytes(rows, op.rule->operands.back(), choice, mesh)) /
         double(byteSize(rows.type)) * double(byteSize(table.type));
}

double OpWork::sumSeconds(OpId id, int64_t bytes) const {
  const Op &op = problem.ops[id];
  auto isTerm = [&](size_t i) {
    return problem.values[op.operands[i]].kind != ValueKind::Accumulator;
  };
  size_t terms = 0, passes = 0;
  const KernelPart &part = facts.kernelParts[id];
  for (size_t i = 0; i < op.operands.size(); ++i)
    if (isTerm(i)) {
      ++terms;
      passes += static_cast<size_t>(part.reads[i]);
    }
  if (terms < 2)
    return 0;
  if (!isOwn())
    return model.gradientSumSeconds(double(bytes), terms);
  passes += static_cast<size_t>(part.writes[0]);
  return model.opSeconds({.bytes = double(passes) * double(bytes), .kernels = part.launches});
}

} // namespace dtc::plan
